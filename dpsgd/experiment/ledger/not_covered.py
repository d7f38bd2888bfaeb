"""Everything that a run releases outside ε, in sentences."""

from __future__ import annotations

from typing import Any

from analysis import schema
from dpsgd.data.bundle import Bundle
from dpsgd.engine.gradients import Engine
from dpsgd.experiment.plan import Plan
from dpsgd.experiment.settings import Cell
from dpsgd.telemetry.off import Off


def not_covered(plan: Plan) -> list[str]:
    """Return a sentence for everything that a run releases outside ε."""
    prepared, cell = plan.prepared, plan.prepared.cell
    bundle = prepared.bundle
    found = _of_training(cell)
    found.append(
        "evaluation.parquet and predictions.parquet: read from validation and test data, "
        + (
            "declared public"
            if holdout_is_public(bundle)
            else "which are not public; reading them raw is not in ε"
        )
    )
    if any(split.user is not None for split in (bundle.validation, bundle.test)):
        found.append(
            "validation and test records of users who may also own training records: what is read "
            "from them is about the same people"
        )
    if cell.slices.kinds_of_train():
        found.append(
            f"slices {', '.join(sorted(cell.slices.kinds_of_train()))}, with their n, and the "
            "worst slice, wherever they are shown: made from training records"
        )
    found += [
        "hyper-parameters, rule and C chosen by looking at other runs on the same data",
        not_finite(cell.engine),
        "stopping on a row that is found to depend on others",
        "the run's duration, and the SHA-256 of the data in this ledger",
        "other runs on the same data: ε is of this run alone",
    ]
    return found


def not_finite(engine: Engine) -> str:
    """Return what leaves a run outside ε when a gradient is not finite."""
    if engine.non_finite == "stop":
        return "stopping on a gradient that is not finite, with the example's index in the message"
    return (
        "how many units were left out because their gradient was not finite, wherever it is shown; "
        "leaving them out is covered: it looks at one unit at a time and adds nothing for it"
    )


def holdout_is_public(bundle: Bundle) -> bool:
    """Whether what is read from validation and test may be shown: they are declared public, and
    are not known to be about users, who may own training records too.
    """
    held_out = (bundle.validation, bundle.test)
    return bundle.holdout == "public" and all(split.user is None for split in held_out)


def slice_statistics(cell: Cell) -> dict[str, Any]:
    """Return where norms and clip fractions by slice are, and whether they may be shown."""
    if isinstance(cell.telemetry, Off):
        return {"telemetry": cell.telemetry.name, "where": [], "release": None}
    where = [schema.TELEMETRY_FILE, f"{schema.CELL_FILE} (clip_fraction, kept)"]
    return {"telemetry": cell.telemetry.name, "where": where, "release": "private"}


def _of_training(cell: Cell) -> list[str]:
    if isinstance(cell.telemetry, Off):
        return ["training loss in the progress bar"]
    return [
        "telemetry.parquet, and clip fraction and kept wherever they are shown: raw norms of "
        "private records, by slice",
        "how many records of each slice were drawn (the n of those rows), and the clipped "
        "mean's comparison with the raw mean",
        "training loss and clip fraction of each step, in the progress bar, telemetry.parquet and "
        "MLflow",
    ]
