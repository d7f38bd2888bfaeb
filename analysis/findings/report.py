"""Write ``findings.md`` and ``findings.csv``, and return the sentences for the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from analysis.cells import one_row_each
from analysis.figures import sentences
from analysis.findings.escaping import escaped
from analysis.findings.evidence import evidence
from analysis.findings.findings import findings, told, wanted
from analysis.findings.limits import limits
from analysis.findings.markdown import method, numbered, q_text, table
from analysis.findings.model import Finding
from analysis.findings.recommendation import recommendation
from analysis.lines import Family, families, family
from analysis.run_files import predictions
from analysis.wording import counted

_NAMED = 10
MARKDOWN = "findings.md"
EVIDENCE = "findings.csv"


@dataclass(frozen=True)
class Report:
    """``files`` that were written, and ``sentences``, plain text for the top of the page."""

    files: tuple[Path, ...]
    sentences: tuple[str, ...]


def write_findings(
    cells: pd.DataFrame, runs: Path | None, out: Path, left_out: Sequence[tuple[str, str]]
) -> Report:
    """Test, write and say what the cells carry; ``cells`` is ``read_cells(...).table``.

    Predictions are read from the folders below ``runs``, None where there are none. ``left_out``:
    folder and reason of the runs that are not in the table.
    """
    parts: list[_Part] = []
    for own in families(cells):
        one = family(own)
        keys = wanted(one) if runs is not None else []
        tests = findings(one, predictions(runs or Path(), keys))
        parts.append(_Part(one, tests, told(tests), recommendation(one, runs)))
    files = (out / MARKDOWN, out / EVIDENCE)
    files[0].write_text(_document(parts, left_out), encoding="utf-8")
    rows = evidence([(part.cells, part.tests, part.claims) for part in parts])
    rows.to_csv(files[1], index=False, encoding="utf-8")
    return Report(files, tuple(_page(parts)))


@dataclass(frozen=True)
class _Part:
    cells: Family
    tests: Sequence[Finding]
    claims: Sequence[Finding]
    advice: Sequence[str]


def _document(parts: Sequence[_Part], left_out: Sequence[tuple[str, str]]) -> str:
    lines = ["# Findings", ""]
    if left_out:
        named = escaped("; ".join(f"{name}: {why}" for name, why in left_out[:_NAMED]))
        more = f"; and {len(left_out) - _NAMED} more" if len(left_out) > _NAMED else ""
        lines += [f"{counted(len(left_out), 'run')} left out: {named}{more}.", ""]
    start = 1
    for part in parts:
        lines += _section(part, start, several=len(parts) > 1)
        start += len(part.claims)
    return "\n".join(lines).rstrip() + "\n"


def _section(part: _Part, start: int, *, several: bool) -> list[str]:
    cells, level = part.cells, "##" if not several else "###"
    first = cells.table.iloc[0]
    heading = [f"## {escaped(str(first['data']))}, {escaped(str(first['model']))}", ""]
    tested = [test for test in part.tests if test.effect.p == test.effect.p]
    seeds = max(cells.named.groupby("condition")["replicate"].nunique().tolist())
    number = sum(test.claimed for test in tested)
    few = (
        f"{number} of {len(tested)} tests hold (q ≤ 0.05), all in `{EVIDENCE}`; at most 3 of a kind"
        " are told, those first of which the nearer end of the 95 % interval is farthest from 0."
    )
    claims = [few, "", *numbered(part.claims, start), ""]
    if not part.claims:
        claims = [f"{_none(number, len(tested))}", ""]
    missing = [f"- {escaped(line)}" for line in limits(cells, part.tests)]
    return [
        *(heading if several else []),
        escaped(_setting(cells)), "",
        f"{level} What holds, strongest first", "", *claims,
        f"{level} What to choose", "", *(f"- {_code(line)}" for line in part.advice), "",
        *([f"{level} What these cells do not carry", "", *missing, ""] if missing else []),
        *([f"{level} Evidence", "", *table(part.claims, start), ""] if part.claims else []),
        f"{level} How it was tested", "", *method(len(tested), seeds), "",
    ]  # fmt: skip


def _setting(cells: Family) -> str:
    runs = one_row_each(cells.table)
    others = "Cells without noise or clipping have no guarantee (ε = ∞): diagnostic, not private"
    return sentences.joined([
        sentences.setting(runs),
        sentences.privacy(runs, cells.named, others),
        sentences.learning_rate(runs),
        sentences.tested(cells.table),
        "The baseline has a learning rate of its own: what another one does counts as a fall",
        "Intervals of differences are in percentage points, of gradients in per cent of what all"
        " keep, of exposures in bits",
    ])  # fmt: skip


def _code(line: str) -> str:
    """Return a sentence escaped, but for its command in backticks."""
    parts = line.split("`")
    if len(parts) != 3:
        return escaped(line)
    end = " " if parts[2].startswith(" ") else ""
    return f"{escaped(parts[0], parts[2])} `{parts[1]}`{end}{escaped(parts[2], parts[0])}"


def _none(number: int, tests: int) -> str:
    if number:
        return (
            f"No finding: {number} of {tests} tests hold, none in a direction that costs a slice."
        )
    return f"No finding: none of {counted(tests, 'test')} holds at q ≤ 0.05."


def _page(parts: Sequence[_Part]) -> list[str]:
    found: list[str] = []
    for part in parts:
        first = part.cells.table.iloc[0]
        start = f"{first['data']}, {first['model']}: " if len(parts) > 1 else ""
        found += [f"{start}{one.sentence}; {q_text(one.q)}." for one in part.claims]
        if not part.claims:
            tested = [test for test in part.tests if test.effect.p == test.effect.p]
            held = sum(test.claimed for test in tested)
            none = [_none(held, len(tested))] if tested else []
            found.append(start + " ".join([*none, *limits(part.cells, part.tests)[:1]]))
        found += [start + one.replace("`", "") for one in part.advice]
        found.append(_setting(part.cells))
    return found
