"""What the page can show of a slice, in the order of its menu, with words and colours."""

from __future__ import annotations

from dataclasses import dataclass

from matplotlib.colors import Colormap, to_hex

from analysis import style

_STOPS = 33


@dataclass(frozen=True)
class Shown:
    """A metric of a split; ``change`` is its difference from the baseline of the same seed.

    ``scale`` names the colours: ``survive`` (dark is little), ``lose`` (dark is much), ``change``.
    ``share`` says that values lie in [0, 1]. ``only`` drops it first where a page grows too large.
    """

    key: str
    metric: str
    split: str
    change: bool
    title: str
    about: str
    dark: str
    scale: str
    share: bool
    spare: bool


def shown(split: str) -> tuple[Shown, ...]:
    """Return the metrics of an evaluation ``split``, with those of training."""
    return (
        Shown("kept", "kept", "train", False, "Kept",
              "share of the gradient norm that was left after clipping, over the whole training",
              "dark: little kept", "survive", True, False),
        Shown("clip_fraction", "clip_fraction", "train", False, "Clip fraction",
              "share of the units that were clipped at all, over the whole training",
              "dark: most clipped", "lose", True, False),
        Shown("recall", "recall", split, False, "Recall",
              "share of the slice's examples that are given their own class",
              "dark: low recall", "survive", True, False),
        Shown("recall_change", "recall", split, True, "Recall − baseline",
              "recall minus that of the baseline of the same seed; the baseline's row is recall itself",
              "dark: recall lost", "change", False, False),
        Shown("accuracy", "accuracy", split, False, "Accuracy",
              "share of the slice's examples that are classified rightly",
              "dark: low accuracy", "survive", True, True),
        Shown("ece", "ece", split, False, "ECE",
              "expected calibration error, 15 bins; read it beside that of a calibrated model of this n",
              "dark: badly calibrated", "lose", True, False),
        Shown("ece_change", "ece", split, True, "ECE − baseline",
              "calibration error minus that of the baseline of the same seed",
              "dark: calibration lost", "worse", False, True),
        Shown("nll", "nll", split, False, "Cross entropy",
              "mean negative log-likelihood, in nats", "dark: unlikely", "lose", False, True),
        Shown("brier", "brier", split, False, "Brier score",
              "mean squared error of the class probabilities", "dark: far off", "lose", False, True),
    )  # fmt: skip


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
