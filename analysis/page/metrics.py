"""What the page can show of a slice, in the order of its menu, with words and colours."""

from __future__ import annotations

from dataclasses import dataclass

from matplotlib.colors import Colormap, to_hex

from analysis import schema, style

_STOPS = 33
_CHANGE = "_change"

_WORDS = (
    ("kept", "Kept", "survive", "dark: little kept",
     "share of the gradient norm that was left after clipping, over the whole training"),
    ("clip_fraction", "Clip fraction", "lose", "dark: most clipped",
     "share of the units that were clipped at all, over the whole training"),
    ("recall", "Recall", "survive", "dark: low recall",
     "share of the slice’s examples that are given their own class"),
    ("recall_change", "Recall − baseline", "change", "dark: recall lost",
     "recall minus that of the baseline of the same seed, whose row is recall itself"),
    ("accuracy", "Accuracy", "survive", "dark: low accuracy",
     "share of the slice’s examples that are classified rightly"),
    ("ece", "ECE", "lose", "dark: badly calibrated",
     "expected calibration error, 15 bins; small slices show some even if calibrated"),
    ("ece_change", "ECE − baseline", "worse", "dark: calibration lost",
     "calibration error minus that of the baseline of the same seed, whose row is ECE itself"),
    ("nll", "Cross entropy", "lose", "dark: unlikely", "mean negative log-likelihood, in nats"),
    ("brier", "Brier score", "lose", "dark: far off",
     "mean squared error of the class probabilities"),
    ("exposure", "Exposure", "lose", "dark: remembered",
     "how far its canaries stand out, in bits; 1.44 where nothing is remembered"),
    ("membership_auc", "Membership attack", "lose", "dark: found out",
     "area under the ROC curve of a threshold on the loss; 0.5 is chance"),
)  # fmt: skip
_SHARES = ("kept", "clip_fraction", "recall", "accuracy", "ece", "ece_calibrated", "membership_auc")
_SPARE = ("accuracy", "ece_change", "nll", "brier")


@dataclass(frozen=True)
class Shown:
    """A metric of a split; ``change`` is its difference from the baseline of the same seed.

    ``scale`` names the colours: ``survive`` (dark is little), ``lose`` (dark is much), ``change``
    and ``worse`` (around zero, dark is a loss).
    """

    key: str
    split: str
    title: str
    about: str
    dark: str
    scale: str

    @property
    def metric(self) -> str:
        """The metric's name in the table."""
        return self.key.removesuffix(_CHANGE)

    @property
    def change(self) -> bool:
        """Whether it is a difference from the baseline."""
        return self.key.endswith(_CHANGE)

    @property
    def share(self) -> bool:
        """Whether values lie in [0, 1]."""
        return self.key in _SHARES

    @property
    def spare(self) -> bool:
        """Whether it is left out where a page grows too large."""
        return self.key in _SPARE


def shown(split: str) -> tuple[Shown, ...]:
    """Return the metrics of an evaluation ``split``, with those of training and of audits."""
    return tuple(
        Shown(key, _split(key, split), title, about, dark, scale)
        for key, title, scale, dark, about in _WORDS
    )


def _split(key: str, split: str) -> str:
    if key in schema.METRICS_OF_TRAINING:
        return "train"
    return schema.AUDIT_SPLIT if key in schema.METRICS_OF_AUDIT else split


OVERALL = {
    "tail_worst": "accuracy of the worst slice",
    "tail_band": "recall of rare classes",
    "macro_accuracy": "mean recall of classes",
}
"""Metrics of a whole cell, which the curves can show instead of a slice."""


def colours() -> dict[str, list[str]]:
    """Return each scale as colours from its low end to its high end, those of the figures."""
    maps = {
        "survive": style.SURVIVING,
        "lose": style.LOST,
        "change": style.CHANGE,
        "worse": style.CHANGE.reversed(),
    }
    return {name: _stops(cmap) for name, cmap in maps.items()}


def _stops(cmap: Colormap) -> list[str]:
    return [to_hex(cmap(place / (_STOPS - 1))) for place in range(_STOPS)]
