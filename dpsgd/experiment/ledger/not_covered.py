"""Everything that a run releases outside ε, in sentences."""

from __future__ import annotations

from typing import Any

from analysis import schema
from dpsgd.auditing.settings import NoAudit
from dpsgd.data.bundle import Bundle, holdout_is_public
from dpsgd.engine.gradients import Engine
from dpsgd.experiment.ledger.decisions import decisions_not_covered
from dpsgd.experiment.ledger.released import released_not_covered
from dpsgd.experiment.plan import Plan
from dpsgd.experiment.settings import Cell
from dpsgd.experiment.telemetry_words import telemetry_not_covered
from dpsgd.telemetry.accounted import Accounted
from dpsgd.telemetry.off import Off
from dpsgd.telemetry.probe import Probe


def not_covered(plan: Plan) -> list[str]:
    """Return a sentence for everything that a run releases outside ε."""
    prepared, cell = plan.prepared, plan.prepared.cell
    bundle = prepared.bundle
    if cell.settings.release:
        return [*released_not_covered(cell), *decisions_not_covered(prepared.looks)]
    found = telemetry_not_covered(cell.telemetry) + decisions_not_covered(prepared.looks)
    found.append(
        "evaluation.parquet and predictions.parquet: read from validation and test data, "
        + (
            "declared public"
            if holdout_is_public(bundle)
            else "which are not public; reading them raw is not in ε"
        )
    )
    if not isinstance(cell.audit, NoAudit):
        found.append(
            "audit.parquet, figures of split audit, and how many guesses were right: coins, raw "
            "scores and raw losses"
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


def slice_statistics(cell: Cell, bundle: Bundle) -> dict[str, Any]:
    """Return where norms and clip fractions by slice are, and whether they may be shown.

    What a model shows of public records is public only if the model is inside ε.
    """
    telemetry = cell.telemetry
    if isinstance(telemetry, Off):
        return {"telemetry": telemetry.name, "where": [], "release": None}
    if isinstance(telemetry, Probe):
        release = "public" if cell.private and holdout_is_public(bundle) else "private"
        return {"telemetry": telemetry.name, "where": [schema.TELEMETRY_FILE], "release": release}
    release = "accounted" if isinstance(telemetry, Accounted) else "private"
    stats = "clip_fraction" if isinstance(telemetry, Accounted) else "clip_fraction, kept"
    where = [schema.TELEMETRY_FILE, f"{schema.CELL_FILE} ({stats})"]
    return {"telemetry": telemetry.name, "where": where, "release": release}
