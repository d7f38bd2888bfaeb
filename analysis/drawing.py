"""Which figures there are, and drawing all of them for one part of the cells."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from analysis import run_files
from analysis.audits import audited
from analysis.figures import (
    attribution,
    calibration,
    memorisation,
    norms,
    stability,
    tail_curves,
    updates,
    utility,
)  # fmt: skip
from analysis.lines import Family, family


@dataclass(frozen=True)
class Drawn:
    """A figure of one family of cells, by the name of its file."""

    name: str
    figure: Figure


_OF_TABLE: dict[str, Callable[[Family], Figure]] = {
    "tail_curves": tail_curves.figure,
    "attribution": attribution.figure,
    "memorisation": memorisation.figure,
}
_OF_FILES = {
    "norms": norms,
    "calibration": calibration,
    "utility": utility,
    "updates": updates,
    "stability": stability,
}
_READ = {
    "telemetry": run_files.telemetry,
    "predictions": run_files.predictions,
    "ledgers": run_files.ledgers,
    "gradients": run_files.gradients,
}

FIGURES = (
    *("norms", "tail_curves", "attribution", "calibration", "utility", "updates", "stability"),
    "memorisation",
)
"""Every figure but the map, in the order in which they are read."""


def figures(table: pd.DataFrame, runs: Path, names: Iterable[str] = FIGURES) -> Iterator[Drawn]:
    """Draw the figures ``names`` of cells that agree in data, model, slices and owners.

    ``runs`` holds the folders of the runs; of their larger files only those are read that a figure
    wants. A file that is missing is said in the figure. Without an audit there is no memorisation.
    """
    cells = family(table)  # once for all of them: of many cells it takes a second
    for name in names:
        if name == "memorisation" and not audited(cells.table):
            continue
        if name in _OF_TABLE:
            yield Drawn(name, _OF_TABLE[name](cells))
            continue
        module = _OF_FILES[name]
        wanted = module.wanted(cells)
        kinds = [module.READS, *getattr(module, "READS_TOO", ())]
        yield Drawn(name, module.figure(cells, *(_READ[kind](runs, wanted) for kind in kinds)))
