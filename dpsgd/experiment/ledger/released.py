"""What a released run leaves outside ε, in sentences: everything else passed the allow-list."""

from __future__ import annotations

from dpsgd.experiment.identity import own_code_of
from dpsgd.experiment.settings import Cell
from dpsgd.sampling.capped_users import CappedUsers
from dpsgd.telemetry.probe import Probe

DECLARED = (
    "what was declared public, and is so only by that declaration: the number of units n{also}, "
    "how records are encoded, the classes, and how records were chosen for the training split"
)
HELD_OUT = (
    "validation and test records, declared public: evaluation.parquet, predictions.parquet{also} "
    "and every test result are read from them raw, and protect nobody who is in them"
)
CHOICES = (
    "what was chosen by looking at other runs on the same data (hyper-parameters, rule, C, this "
    "run among others): ε is of this run alone; `python -m dpsgd.ledger compose` adds runs up"
)
DURATION = (
    "how long the run took, which follows a little from the batches drawn: files hold days, but "
    "whoever watches the run, its terminal or the times of its files sees more"
)
FAILURE = (
    "that a run failed, if it did, with the step and the type of the error, and nothing more. "
    "Checks of model and rule were made before training, on made-up rows, and none stops it on a "
    "record's values, but for two that no sound model or rule can fail: a unit outside the "
    "declared envelope, and state that changed without being trained. Units whose gradient is not "
    "finite are left out in silence, which ε covers"
)
OWN_CODE = (
    "what the user's own code (listed below) computes from the data without saying so, writes or "
    "prints by itself: it was not looked at"
)


def released_not_covered(cell: Cell) -> list[str]:
    """Return a sentence for everything that a released run leaves outside ε."""
    capped = isinstance(cell.sampling, CappedUsers)
    probed = isinstance(cell.telemetry, Probe)
    found = [
        HELD_OUT.format(also=", telemetry.parquet" if probed else ""),
        DECLARED.format(also=", how many records may be used in all" if capped else ""),
        CHOICES, DURATION, FAILURE,
    ]  # fmt: skip
    return [*found, OWN_CODE] if own_code_of(cell) else found
