"""Audited cells whose memorisation is known."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from planted_findings import LABELS, planted

CANARIES = 20


def planted_audits(
    generator: np.random.Generator,
    seeds: int,
    *,
    before: Mapping[str, float] | float = 1.44,
    after: Mapping[str, float] | float = 1.44,
    audit: str = "canaries",
) -> pd.DataFrame:
    """Return the planted table with what an audit of each run says.

    ``before`` and ``after`` are the exposures of each label's canaries without privacy and with it,
    each canary's its own exponential; runs differ by a normal that all their canaries share.
    """
    table = planted(generator, seeds)[0]
    runs = table.drop_duplicates("run_key")
    rows = [row for _, run in runs.iterrows() for row in _rows(run, generator, before, after)]
    found = pd.DataFrame(rows).assign(split="audit", lo=np.nan, hi=np.nan, release="private")
    scalars = [name for name in table if name not in found or name == "run_key"]
    more = found.merge(runs[scalars], on="run_key")
    columns = {"audit": audit, "audit_epsilon": 0.3, "audit_epsilon_gaussian": 0.4,
               "audit_refuted": False}  # fmt: skip
    return pd.concat([table, more], ignore_index=True).assign(**columns)


def _rows(run, generator, before, after):
    means = after if run["private"] else before
    of_run = generator.normal(0, 0.1)
    bits = {name: generator.exponential(_of(means, name), CANARIES) + of_run for name in LABELS}
    places = [("all", "all", np.concatenate(list(bits.values())), None)]
    for name, own in bits.items():
        rest = np.concatenate([other for label, other in bits.items() if label != name])
        places.append(("label", name, own, rest))
    for kind, name, own, rest in places:
        gap = np.nan if rest is None else own.mean() - rest.mean()
        metrics = {"exposure": own.mean(), "exposure_gap": gap,
                   "membership_auc": 0.5 + own.mean() / 30, "membership_auc_gap": gap / 30,
                   "tpr_at_1pct": own.mean() / 40}  # fmt: skip
        for metric, value in metrics.items():
            yield {"run_key": run["run_key"], "slice_kind": kind, "slice": name, "metric": metric,
                   "value": value, "n": len(own)}  # fmt: skip


def _of(means, name):
    return means if isinstance(means, float) else means[name]
