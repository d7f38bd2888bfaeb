"""Runs that differ in their seed alone, as each other's shadow models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from analysis import schema
from dpsgd.auditing.fairness import Difference, auc_difference
from dpsgd.auditing.membership import Rate, auc, lira, logit_scores, true_positive_rate
from dpsgd.errors import ConfigError
from dpsgd.experiment.coins import RANDOM

FEWEST = 4
"""Runs: each has three shadows then, of which some were trained on an example and some were not."""
ATTACKS = ("loss", "lira_online", "lira_offline")


@dataclass(frozen=True)
class Group:
    """Finished runs of one configuration with other seeds: ``label`` without the seed.

    ``nll`` and ``included`` are ``[runs, examples]``; ``slices`` names each example's slice, ""
    for a random input, which is of none.
    """

    label: str
    runs: tuple[str, ...]
    nll: np.ndarray
    included: np.ndarray
    slices: np.ndarray


Member: TypeAlias = tuple[Path, Mapping[str, Any]]
"""The folder of a finished run, and its ``cell.json``."""


def alike(
    folders: Sequence[Path], cells: Sequence[Mapping[str, Any]], audits: Sequence[str]
) -> list[list[Member]]:
    """Return the audited runs, as far as ``audits`` name them, by all of their settings but the
    seed.
    """
    found: dict[tuple[Any, ...], list[Member]] = {}
    for folder, cell in zip(folders, cells, strict=True):
        if cell.get("audit") in audits:
            settings = tuple(sorted(
                (k, str(v)) for k, v in cell.items()
                if k.startswith("config.") and k != "config.seed"
            ))  # fmt: skip
            found.setdefault(settings, []).append((folder, cell))
    return list(found.values())


def same_examples(members: Sequence[Member], tables: Sequence[pd.DataFrame]) -> None:
    """Raise ConfigError unless the runs' audits are of the same examples."""
    first = tables[0]
    for (folder, _), table in zip(members, tables, strict=True):
        if not table["example"].equals(first["example"]) or len(table) != len(first):
            raise ConfigError(
                "run", folder.name, f"has other audited examples than {members[0][0].name}"
            )


def label_of(cell: Mapping[str, Any]) -> str:
    """Return the label of a run without its seed."""
    return str(cell["label"]).removesuffix(f" s{cell['seed']}")


def groups(folders: Sequence[Path], cells: Sequence[Mapping[str, Any]]) -> list[Group]:
    """Return the groups among finished runs whose records have coins; runs alone are left out.

    Raises ConfigError if runs of a group are not of the same examples.
    """
    found = alike(folders, cells, ("canaries", "membership"))
    return [_group(members) for members in found if len(members) > 1]


def attacks(group: Group) -> Iterator[dict[str, Any]]:
    """Yield AUC and true positive rates of each attack, for all examples and by slice, and by how
    much a slice's AUC differs from that of all other examples (``membership_auc_gap``, with ``p``).

    Scores of one example over the runs are one cluster: its shadows are shared.
    """
    score = logit_scores(group.nll)
    found = {"loss": -group.nll}
    if len(group.runs) >= FEWEST:
        found["lira_online"] = lira(score, group.included, online=True)
        found["lira_offline"] = lira(score, group.included, online=False)
    examples = np.broadcast_to(np.arange(group.nll.shape[1]), group.nll.shape)
    names = ["all", *sorted(set(group.slices) - {""})]
    for name in names:
        chosen = np.ones(len(group.slices), bool) if name == "all" else group.slices == name
        for attack, values in found.items():
            others = ~chosen & (group.slices != "")
            rates = _rates(values, group.included, examples, (chosen, others))
            for metric, rate in rates.items():
                yield {
                    "label": group.label, "runs": len(group.runs), "attack": attack, "slice": name,
                    "metric": metric, "value": rate.value, "lo": rate.lo, "hi": rate.hi,
                    "p": rate.p if isinstance(rate, Difference) else float("nan"),
                    "examples": int(chosen.sum()),
                }  # fmt: skip


def _rates(
    values: np.ndarray,
    included: np.ndarray,
    examples: np.ndarray,
    sides: tuple[np.ndarray, np.ndarray],
) -> dict[str, Rate | Difference]:
    chosen, _ = sides
    one = (values[:, chosen].ravel(), included[:, chosen].ravel())
    rates: dict[str, Rate | Difference] = {
        "membership_auc": auc(*one, examples[:, chosen].ravel()),
        "tpr_at_1pct": true_positive_rate(*one, 0.01),
        "tpr_at_01pct": true_positive_rate(*one, 0.001),
    }
    if not chosen.all():
        inside, rest = (np.broadcast_to(side, values.shape).ravel() for side in sides)
        rates["membership_auc_gap"] = auc_difference(
            values.ravel(), included.ravel(), inside, rest, examples.ravel()
        )
    return rates


def _group(members: Sequence[Member]) -> Group:
    tables = [pd.read_parquet(folder / schema.AUDIT_FILE) for folder, _ in members]
    same_examples(members, tables)
    return Group(
        label_of(members[0][1]),
        tuple(str(cell["run_key"]) for _, cell in members),
        np.stack([table["nll"].to_numpy() for table in tables]),
        np.stack([table["included"].to_numpy() for table in tables]),
        tables[0]["slice"].where(tables[0]["kind"] != RANDOM).fillna("").to_numpy().astype(str),
    )
