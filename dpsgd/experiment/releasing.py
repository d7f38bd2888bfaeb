"""What ``release=true`` refuses before training, because it could not be right."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from dpsgd.auditing.settings import NoAudit
from dpsgd.data.bundle import Bundle, holdout_is_public
from dpsgd.data.notes import COMPUTED, COUNTED, OVERLAPPING
from dpsgd.errors import ConfigError
from dpsgd.experiment.tracker import MlflowTracker, NoTracker
from dpsgd.slices.column import Column
from dpsgd.slices.pair import Pair
from dpsgd.telemetry.accounted import Accounted
from dpsgd.telemetry.off import Off
from dpsgd.telemetry.probe import Probe

if TYPE_CHECKING:
    from dpsgd.experiment.settings import Cell

_OWN = "dpsgd."
_WITH = "with release=true"


def check_release_settings(cell: Cell) -> None:
    """Raise ConfigError for settings with which nothing may be released; other cells pass."""
    settings = cell.settings
    if not settings.release:
        return
    if settings.mechanism != "private":
        raise ConfigError(
            "mechanism", settings.mechanism,
            f"must be private {_WITH}: a diagnostic has no ε",
            "train it beside the release, with release=false, and let nothing of it leave",
        )  # fmt: skip
    if settings.epsilon is None or math.isinf(settings.epsilon):
        raise ConfigError(
            "epsilon", settings.epsilon, f"must be a finite number above 0 {_WITH}: say what may "
            "be spent",
        )  # fmt: skip
    if not isinstance(cell.audit, NoAudit):
        raise ConfigError(
            "audit", cell.audit.name,
            f"must be none {_WITH}: audit the same settings in a run that is not released",
        )  # fmt: skip
    _check_telemetry(cell)
    non_finite: Any = getattr(cell.engine, "non_finite", None)
    if non_finite != "drop":
        raise ConfigError(
            "engine.non_finite", non_finite, f"must be drop {_WITH}: to stop on a gradient that is "
            "not finite tells that there was one",
        )  # fmt: skip
    if not type(cell.sampling).__module__.startswith(f"{_OWN}sampling."):
        raise ConfigError(
            "sampling", cell.sampling.name,
            f"must be one of this project's {_WITH}, which draw by a cryptographic generator",
        )  # fmt: skip
    _check_tracker(cell)
    _check_slices(cell)


def check_release_data(cell: Cell, bundle: Bundle) -> None:
    """Raise ConfigError for data of which more than ε covers would leave; other cells pass."""
    check_release_settings(cell)  # once more: a cell may have been changed since it was read
    if not cell.settings.release:
        return
    computed = [note for note in bundle.notes if note.endswith(COMPUTED)]
    if computed:
        raise ConfigError(
            "data", bundle.name, f"must be fully declared {_WITH}: {'; '.join(computed)}",
            "declare what is computed (classes, label_map, vocabularies, mean and std of numbers) "
            "from public knowledge, and set data.slices=[]",
        )  # fmt: skip
    if OVERLAPPING in bundle.notes:
        raise ConfigError(
            "data.stride", bundle.name, f"must be null or the context {_WITH}: {OVERLAPPING}"
        )
    if not (holdout_is_public(bundle) or not len(bundle.validation) + len(bundle.test)):
        owned = bundle.holdout == "public"
        raise ConfigError(
            "data.holdout", bundle.holdout,
            f"must be public {_WITH}, and of nobody who is protected"
            + (", and these records have users, who may own training records too" if owned else "")
            + ": to evaluate on private records is a release of its own",
            "declare it public if it is (data.holdout=public), or give other, public test records",
        )  # fmt: skip


def stated_notes(cell: Cell, bundle: Bundle) -> list[str]:
    """Return what the ledger says of the data's statistics: of a release no counts, ever, so that
    their absence says nothing either.
    """
    notes = list(bundle.notes)
    if cell.settings.release:
        notes = [note for note in notes if not note.endswith(COUNTED)]
    return notes


def _check_tracker(cell: Cell) -> None:
    tracker = cell.tracker
    if not isinstance(tracker, MlflowTracker | NoTracker):
        raise ConfigError(
            "tracker", tracker.name, f"must be mlflow or none {_WITH}: what others copy is not "
            "known",
        )  # fmt: skip
    uri = tracker.uri if isinstance(tracker, MlflowTracker) else None
    if uri and urlsplit(uri).password is not None:
        raise ConfigError(
            "tracker.uri", "(with a password)",
            f"must hold no password {_WITH}: config.yaml is published",
            "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD are read from the environment",
        )  # fmt: skip


def _check_telemetry(cell: Cell) -> None:
    if type(cell.telemetry) not in (Accounted, Off, Probe):
        raise ConfigError(
            "telemetry", cell.telemetry.name,
            f"must be accounted, off or probe {_WITH}: everything else may be raw",
            "telemetry=accounted counts inside ε; telemetry=probe measures public records",
        )  # fmt: skip


def _check_slices(cell: Cell) -> None:
    for key, kind in cell.slices.kinds.items():
        if isinstance(kind, Column | Pair):
            raise ConfigError(
                f"slices.kinds.{key}", kind.kind,
                f"must not be named by values found in the data {_WITH}",
                f"take it away: ~slices.kinds.{key}; bins of a number have declared edges",
            )  # fmt: skip
        ours = type(kind).__module__.startswith(_OWN)
        # A kind of the user's own must say so itself: nobody else knows what it looks at.
        if getattr(kind, "from_train", not ours):
            raise ConfigError(
                f"slices.kinds.{key}", kind.kind,
                f"must not be made from training records {_WITH}: its names and numbers would be "
                "outside ε",
                f"take it away: ~slices.kinds.{key}"
                if ours
                else "say `from_train: ClassVar[bool] = False` if it looks at declared things only",
            )  # fmt: skip
