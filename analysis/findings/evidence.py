"""The table behind the findings: one row a test, whether it is claimed or not."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from analysis.findings.model import Finding
from analysis.lines import Family

COLUMNS = (
    *("number", "data", "model", "kind", "epsilon", "subject", "against", "measure"),
    *("slice_kind", "slice", "n", "seeds", "value", "reference", "difference", "lo", "hi"),
    *("over", "p", "q", "claimed", "run_keys"),
)


def evidence(parts: Sequence[tuple[Family, Sequence[Finding], Sequence[Finding]]]) -> pd.DataFrame:
    """Return the columns of ``COLUMNS``; ``parts`` are families with their tests and told claims.

    ``number`` is that of the sentence, counted through all families; empty for the others.
    ``value``, ``reference`` and ``difference`` are shares, of exposure bits; ``over`` whom the
    interval speaks for.
    """
    rows: list[dict[str, object]] = []
    before = 0
    for cells, tests, told in parts:
        first = cells.table.iloc[0]
        for test in tests:
            number = next((i for i, one in enumerate(told, before + 1) if one is test), None)
            rows.append({"number": number, "data": first["data"], "model": first["model"],
                         **_row(test)})  # fmt: skip
        before += len(told)
    found = pd.DataFrame(rows, columns=list(COLUMNS))
    return found.assign(number=found["number"].astype("Int64"))


def _row(test: Finding) -> dict[str, object]:
    effect = test.effect
    return {
        "kind": test.kind,
        "epsilon": test.epsilon,
        "subject": test.subject,
        "against": test.against,
        "measure": test.measure,
        "slice_kind": test.slice.kind,
        "slice": test.slice.name,
        "n": test.n,
        "seeds": effect.seeds,
        "value": test.value,
        "reference": test.reference,
        "difference": effect.mean,
        "lo": effect.lo,
        "hi": effect.hi,
        "over": "seeds and examples" if effect.of_examples else "seeds",
        "p": effect.p,
        "q": test.q,
        "claimed": test.claimed,
        "run_keys": " ".join(test.runs),
    }
