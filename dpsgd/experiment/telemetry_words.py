"""What a ledger says of telemetry: what it cost, and what of it ε does not cover."""

from __future__ import annotations

from typing import Any

from dpsgd.clipping.joint import Joint
from dpsgd.clipping.rule import ClipRule
from dpsgd.telemetry.accounted import Accounted
from dpsgd.telemetry.off import Off
from dpsgd.telemetry.oracle import Oracle
from dpsgd.telemetry.probe import Probe

NO_TELEMETRY = "none"
GRADIENTS = (
    "gradients.parquet, and the figures and the page made from it: raw norms and projections of "
    "the gradients of single private units, by name"
)


def telemetry_cost(rule: ClipRule, telemetry: Any, noise_multiplier: float) -> str:
    """Return one sentence: which telemetry there is, and what it costs the gradient."""
    if isinstance(telemetry, Off):
        return NO_TELEMETRY
    if isinstance(telemetry, Probe):
        return "probe: validation records, declared public; it costs the gradient nothing"
    if not (isinstance(telemetry, Accounted) and isinstance(rule, Joint)):
        return f"{telemetry.name}: raw, outside ε"
    (scale,) = rule.beside_scale()
    (counts,) = rule.queries
    return (
        f"accounted: {counts.columns} counts a step take a share of {rule.share:g} of the joint "
        f"release, so that the noise on the gradient is {rule.growth:.4g} times what it would be "
        f"without them; a unit's counts have L2 norm at most {counts.sensitivity:.4g}, and each "
        f"count has noise of standard deviation {noise_multiplier * scale:.4g} a step. Clip "
        "fractions are of the units drawn, their n is noised, and so is all that is shown of them"
    )


def telemetry_not_covered(telemetry: Any) -> list[str]:
    """Return a sentence for everything about training records that is shown outside ε."""
    if isinstance(telemetry, Accounted):
        return [
            "training loss in the progress bar",
            "the names of the slices that are counted, where they come from the data (data "
            "statistics below): their counts are inside ε",
        ]
    if isinstance(telemetry, Off | Probe):
        return ["training loss in the progress bar"]
    looks = isinstance(telemetry, Oracle) and telemetry.looks_at_units
    return [
        *([GRADIENTS] if looks else []),
        "telemetry.parquet, and clip fraction and kept wherever they are shown: raw norms of "
        "private records, by slice",
        "how many records of each slice were drawn (the n of those rows), and the clipped "
        "mean's comparison with the raw mean",
        "training loss and clip fraction of each step, in the progress bar, telemetry.parquet and "
        "MLflow",
    ]
