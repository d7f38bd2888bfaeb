"""What audits say of memorisation: of the run itself, or of runs that differ in the audit alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from analysis import schema

METRICS = ("exposure", "membership_auc", "tpr_at_1pct")
"""What is shown of whom an audit has coins of, in this order."""

_SAME = ("config.seed",)
_OF_MODEL = ("canaries", "membership")


def memorisation(cell: Mapping[str, Any], others: Iterable[Mapping[str, Any]]) -> Any:
    """Return one entry an audit, that of the run itself first; None without any.

    An entry has ``audit``, ``runs`` (how many), ``own`` (whether it is of this run), ``values`` by
    slice and metric, ``epsilon``, the lower bound for any mechanism (null where coins bound
    nothing), ``significance``, ``claims`` (how many runs claim an ε), ``refuted`` (of how many)
    and, if there are such, ``without_power`` (of how many all right guesses could not refute it).
    Siblings agree with the run in everything but the audit and the seed. Of several runs, values
    and bound are means, without an interval.
    """
    found = [_entry([cell], own=True)] if cell.get("audit") else []
    siblings: dict[str, list[Mapping[str, Any]]] = {}
    for other in others:
        name = other.get("audit")
        if name and name != cell.get("audit") and _alike(other) == _alike(cell):
            siblings.setdefault(str(name), []).append(other)
    found += [_entry(runs, own=False) for _, runs in sorted(siblings.items())]
    return found or None


def _entry(runs: list[Mapping[str, Any]], *, own: bool) -> dict[str, Any]:
    ordered = sorted(runs, key=lambda run: str(run["run_key"]))
    first = ordered[0]
    claims = [run["audit_refuted"] for run in ordered if run["audit_refuted"] is not None]
    bounds = [run["audit_epsilon"] for run in ordered if run["audit_epsilon"] is not None]
    entry = {
        "audit": first["audit"], "runs": len(ordered), "own": own,
        "values": _values(ordered) if first["audit"] in _OF_MODEL else [],
        "epsilon": sum(bounds) / len(bounds) if bounds else None,
        "significance": first["audit_significance"],
        "claims": len(claims), "refuted": sum(claims),
    }  # fmt: skip
    without = sum(run.get("audit_could_refute") is False for run in ordered)
    return entry | ({"without_power": without} if without else {})


def _values(runs: list[Mapping[str, Any]]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    tables = [_audited(run) for run in runs]
    for kind, name in (
        ("all", "all"),
        ("rarity", "head"),
        ("rarity", "middle"),
        ("rarity", "tail"),
    ):
        for metric in METRICS:
            found = [table[kind, name, metric] for table in tables if (kind, name, metric) in table]
            if not found:
                continue
            alone = len(runs) == 1
            rows.append({
                "slice": name, "metric": metric, "n": found[0]["n"],
                "value": sum(row["value"] for row in found) / len(found),
                "lo": found[0]["lo"] if alone else None, "hi": found[0]["hi"] if alone else None,
                "release": found[0]["release"],
            })  # fmt: skip
    return rows


def _audited(cell: Mapping[str, Any]) -> dict[tuple[str, str, str], dict[str, Any]]:
    metrics = cell["metrics"]
    names = ("slice_kind", "slice", "metric", "value", "lo", "hi", "n", "release")
    rows: list[dict[str, Any]] = [dict(zip(names, row, strict=True))
            for split, *row in zip(*(metrics[c] for c in ("split", *names)), strict=True)
            if split == schema.AUDIT_SPLIT and row[names.index("value")] is not None]  # fmt: skip
    return {(row["slice_kind"], row["slice"], row["metric"]): row for row in rows}


def _alike(cell: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: value
        for key, value in cell.items()
        if key.startswith("config.") and not key.startswith("config.audit.") and key not in _SAME
    }
