"""Tables like those that run_files reads, with numbers that are known beforehand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.text import Text
from planted_cells import write

from analysis import schema
from analysis.cells import read_cells

ODD = ["NA", "cat (small)", "$x$ and $5", "$y$", "a/b_c", "猫和狗", "a quite long name", ""]


def table_of(folder: Path, *cells: dict[str, Any]) -> pd.DataFrame:
    """Return the table of planted cells."""
    return read_cells(write(folder, *cells)).table


def texts(drawn: Any, gid: str | None = None) -> list[str]:
    """Return every text of a figure, or those of one gid."""
    found = [text for text in drawn.findobj(Text) if text.get_text() and text.get_visible()]
    found = [text for text in found if gid is None or text.get_gid() == gid]
    return [text.get_text().replace("\n", " ") for text in found]


def caption(drawn: Any) -> str:
    """Return the caption in one line."""
    (found,) = texts(drawn, "caption")
    return found


def marks(axes: Any, gid: str) -> list[tuple[float, float]]:
    """Return the points of all lines of one gid."""
    found: list[tuple[float, float]] = []
    for line in axes.lines:
        if line.get_gid() == gid:
            x, y = (np.asarray(data, float) for data in line.get_data())
            found += list(zip(x.tolist(), y.tolist(), strict=True))
    return found


def titled(drawn: Any, words: str) -> Any:
    """Return the axes whose title holds these words."""
    (found,) = [axes for axes in drawn.axes if words in axes.get_title(loc="left")]
    return found


def telemetry(
    keys: Sequence[str],
    stats: Mapping[str, float],
    *,
    steps: Sequence[int] = (25, 50),
    places: Sequence[tuple[str, str]] = (("all", "all"),),
    groups: Sequence[str] = ("all",),
) -> pd.DataFrame:
    """Return rows of telemetry: every stat in every window, slice and clip group of every run."""
    rows = [
        {"run_key": key, "step": step, "unit": "record", "slice_kind": kind, "slice": name,
         "group": group, "stat": stat, "value": value, "n": 100, "release": "private"}
        for key in keys
        for step in steps
        for kind, name in places
        for group in groups
        for stat, value in stats.items()
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=["run_key", *schema.TELEMETRY])


def predictions(
    runs: Mapping[str, Sequence[int]],
    labels: Sequence[int],
    confidence: float = 0.75,
    **slices: Any,
) -> pd.DataFrame:
    """Return predictions: the predicted class of every example, by run key."""
    parts = [
        pd.DataFrame({
            "run_key": key, "example": range(len(labels)), "split": "test", "label": list(labels),
            "predicted": list(classes), "confidence": confidence,
            **{f"slice_{kind}": list(names) for kind, names in slices.items()},
        })
        for key, classes in runs.items()
    ]  # fmt: skip
    return pd.concat(parts, ignore_index=True)


def ledger(key: str, **epsilons: float) -> pd.DataFrame:
    """Return what one ledger says; PLD certifies, GDP is an estimate."""
    return pd.DataFrame({
        "run_key": key, "accountant": list(epsilons), "epsilon": list(epsilons.values()),
        "bound": [name != "gdp" for name in epsilons],
        "certified": [name == "pld" for name in epsilons],
    })  # fmt: skip


NOTHING: dict[str, pd.DataFrame] = {
    "telemetry": pd.DataFrame({name: [] for name in ["run_key", *schema.TELEMETRY]}),
    "predictions": pd.DataFrame(
        {name: [] for name in ["run_key", "example", "label", "predicted", "confidence"]}
    ),
    "ledgers": pd.DataFrame(
        {name: [] for name in ["run_key", "accountant", "epsilon", "bound", "certified"]}
    ),
}
"""What is read where no run has the file."""
