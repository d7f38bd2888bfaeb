"""How good the model is, and how it was found: six points, from the runs that are on disk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from analysis import schema
from dpsgd.experiment.files import read_json
from dpsgd.experiment.identity import WITHHELD
from dpsgd.experiment.ledger.memorised import memorisation
from dpsgd.experiment.record import finished

MEASURED = ("accuracy", "macro_accuracy", "tail_band", "tail_worst", "nll")
"""What of the test split is shown for all, in this order."""

VARIED = ("config.clip.norm", "config.seed")
"""What may differ between the runs that are compared over C."""


def at_the_end(cell: Mapping[str, Any], model_sha256: str, runs: Path) -> dict[str, Any]:
    """Return what a run knows when it ends: itself, and its baseline if that is finished."""
    if _is_withheld(cell, runs):
        return _alone(cell, model_sha256)
    baseline = finished(runs / str(cell["baseline_key"]))
    others = [] if baseline is None else [baseline]
    return {"scope": "this run and its baseline"} | _evidence(cell, model_sha256, others, None)


def of_the_folder(cell: Mapping[str, Any], model_sha256: str, runs: Path) -> dict[str, Any]:
    """Return what all finished runs below ``runs`` on the same data say."""
    if _is_withheld(cell, runs):
        return _alone(cell, model_sha256)
    others = list(_same_data(cell, runs))
    scope = {"scope": "all finished runs on these data in the runs folder"}
    return scope | _evidence(cell, model_sha256, others, _counts(others))


def _is_withheld(cell: Mapping[str, Any], runs: Path) -> bool:
    return _fingerprint(runs / str(cell["run_key"])) == WITHHELD


def _alone(cell: Mapping[str, Any], model_sha256: str) -> dict[str, Any]:
    # Which other runs had a release's data is a secret, and their numbers are releases themselves.
    return {"scope": "this run alone"} | _evidence(cell, model_sha256, [], None)


def again(stored: Mapping[str, Any], cell: Mapping[str, Any], runs: Path) -> dict[str, Any] | None:
    """Return the evidence that the runs named in ``stored`` give today; None if one is gone."""
    others = [finished(runs / str(key)) for key in stored["sources"]]
    if any(other is None for other in others):
        return None
    known = [other for other in others if other is not None]
    counts = None if stored["same_data"] is None else _counts(known)
    found = _evidence(cell, stored["model_sha256"], known, counts)
    return {"scope": stored["scope"]} | found


def _evidence(
    cell: Mapping[str, Any], model_sha256: str, others: list[dict[str, Any]],
    same_data: Mapping[str, int] | None,
) -> dict[str, Any]:  # fmt: skip
    baseline = next((o for o in others if o["run_key"] == cell["baseline_key"]), None)
    return {
        "model_sha256": model_sha256,
        "label": cell["label"],
        "lr_scale": cell["lr_scale"],
        "sources": sorted(str(other["run_key"]) for other in others),
        "recall_by_norm": _recall_by_norm(cell, others),
        "calibration": _calibration(cell),
        "memorisation": memorisation(cell, others),
        "same_data": same_data,
        **_audit(cell),
        "utility": _utility(cell),
        "baseline": None if baseline is None else _utility(baseline),
    }


def _audit(cell: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the audit of a run says of its ε; nothing of one that is not audited."""
    found = {k: v for k, v in cell.items() if k == "audit" or k.startswith("audit_")}
    return {"audit": found} if found else {}


def _counts(others: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    private = [bool(other["private"]) for other in others]
    return {"private": sum(private), "diagnostic": len(private) - sum(private)}


def _same_data(cell: Mapping[str, Any], runs: Path) -> Iterator[dict[str, Any]]:
    own = _fingerprint(runs / str(cell["run_key"]))
    for file in sorted(runs.glob(f"*/{schema.CELL_FILE}")):
        other = finished(file.parent)
        if other is None or other["run_key"] == cell["run_key"]:
            continue
        if file.parent.name == other["run_key"] and _fingerprint(file.parent) == own:
            yield other


def _fingerprint(folder: Path) -> Any:
    ledger = read_json(folder / schema.LEDGER_FILE)
    return ledger.get("data_fingerprint") if isinstance(ledger, dict) else None


def _recall_by_norm(
    cell: Mapping[str, Any], others: Iterable[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return the mean recall of the tail band at each C, over seeds, all else being equal."""
    alike = [other for other in [cell, *others] if _all_else(other) == _all_else(cell)]
    found: dict[float, list[float]] = {}
    for one in alike:
        row = _row(one, "all", "all", "tail_band")
        if row is not None and one["clip_norm"] is not None:
            found.setdefault(one["clip_norm"], []).append(row["value"])
    return [
        {"norm": norm, "seeds": len(values), "value": sum(sorted(values)) / len(values)}
        for norm, values in sorted(found.items())
    ]


def _all_else(cell: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in cell.items() if k.startswith("config.") and k not in VARIED}


def _calibration(cell: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return ECE on the rarity bands, with that of a perfectly calibrated model beside it."""
    found: list[dict[str, Any]] = []
    for name in ("tail", "middle", "head"):
        ece = _row(cell, "rarity", name, "ece")
        null = _row(cell, "rarity", name, "ece_calibrated")
        if ece is not None and null is not None:
            found.append(ece | {"slice": name, "if_calibrated": null["value"]})
    return found


def _utility(cell: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    rows = {metric: _row(cell, "all", "all", metric) for metric in MEASURED}
    return {metric: row for metric, row in rows.items() if row is not None}


def _row(cell: Mapping[str, Any], kind: str, name: str, metric: str) -> dict[str, Any] | None:
    """Return value, interval, n and release of one metric of the test split."""
    metrics = cell["metrics"]
    where = zip(
        *(metrics[c] for c in ("split", "slice_kind", "slice", "metric")), strict=True
    )  # fmt: skip
    for place, found in enumerate(where):
        if found == ("test", kind, name, metric) and metrics["value"][place] is not None:
            return {c: metrics[c][place] for c in ("value", "lo", "hi", "n", "release")}
    return None
