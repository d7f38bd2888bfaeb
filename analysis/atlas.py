"""Read the finished cells of a runs folder and write the atlas: a table and its figures.

``python -m analysis.atlas runs/`` reads files only; it needs no training code and no GPU.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import cast

import pandas as pd
from platformdirs import user_cache_path

from analysis import schema, style
from analysis.cells import CellTable, LeftOut, has_cells, one_row_each, read_cells
from analysis.conditions import conditions
from analysis.drawing import FIGURES, figures
from analysis.figures import map as map_figure
from analysis.findings.report import write_findings
from analysis.lettering import without_font
from analysis.lines import families
from analysis.mlflow_io import EXPERIMENT, Tracking, fetch_cells, is_uri, log_atlas, tracking_of
from analysis.page.document import write_page
from analysis.rows import row_table
from analysis.sweeps import sweep_keys
from analysis.table import unpaired
from analysis.table_file import write_table
from analysis.thinning import for_map
from analysis.wording import counted, epsilon_text, plain_number

NAMES = ("map", *FIGURES)
"""Every figure."""

_COLUMNS = 80
_NAMED = 20
_EPILOG = """\
What is read: every finished runs/<run_key>/cell.json. Cells that are running,
failed or unreadable are left out, and named. Where no run folders are, the
cells are fetched from MLflow, which has neither telemetry nor predictions.

What is written, below the output folder:
  cells.parquet     one row per run, split, slice and metric, with every setting
  figures/          each figure as .png, .svg and .pdf:
    map             rule and threshold by slice: kept, clip fraction, recall,
                    ECE; map.csv: its rows, with every setting that differs
    norms           gradient norms before and after clipping
    tail_curves     recall and accuracy of what is rare, against C
    attribution     the fall from the baseline: clipping, noise, both
    calibration     reliability of head and tail, ECE by slice
    utility         mean and tail, down the ladder of ε; accountants compared
    updates         bias and noise of the update, over training and against C
    stability       spread over seeds, and churn
    memorisation    exposure, attacks and audited bounds, where cells have an audit
  findings.md       what the cells carry: sentences with their tests; advice
  findings.csv      every test, claimed or not
  atlas.html        the same to explore, and the lab: one file that needs no network
With more than one data set or model, each has figures of its own
(map-<data>-<model>-2.png), and map.png is of the one with the most cells.

Exit code: 0 written; 1 written, but not logged to MLflow; 2 no such folder, no
finished cell, or nothing written.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the atlas and return the exit code: 0; 2 with one line on standard error, or 1 if it
    is written and could not be logged.
    """
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.log_mlflow and options.sweep is None:
        parser.error("--log-mlflow needs --sweep NAME: each sweep has a summary run of its own")
    try:
        runs, tracking = _source(options)
        out: Path = options.out or (Path("atlas") if is_uri(options.runs) else runs / "atlas")
        keys = None if options.sweep is None else sweep_keys(runs, options.sweep)
        cells = read_cells(runs, keys)
        if cells.table.empty:
            _say(sys.stderr, f"atlas: {options.runs}: {_none_finished(cells.left_out)}")
            return 2
        files = write_atlas(cells.table, runs, out, options.figures)
        left_out = [(entry.folder, entry.reason) for entry in cells.left_out]
        report = write_findings(cells.table, runs, out, left_out)
        said = report.sentences
        page = write_page(cells.table, out, runs=runs, findings=said, left_out=left_out)
        files += [*report.files, page]
    except OSError as error:
        _say(sys.stderr, f"atlas: {error}")
        return 2
    _say(sys.stdout, summary(cells, files, out))
    return _logged(options, tracking, out, files) if options.log_mlflow else 0


def _source(options: argparse.Namespace) -> tuple[Path, Tracking | None]:
    """Return the folder of cells, fetched from MLflow if need be, and the store to log to.

    Raises ``OSError``: neither has cells.
    """
    if is_uri(options.runs):
        tracking = Tracking(options.runs, options.experiment or EXPERIMENT)
        return fetch_cells(tracking, _cache(tracking)), tracking
    runs = Path(options.runs)
    tracking = tracking_of(runs)
    uri = options.tracking_uri or (tracking.uri if tracking else None)
    if uri and (options.tracking_uri or options.experiment):
        tracking = Tracking(uri, options.experiment or EXPERIMENT)
    if tracking and not has_cells(runs):
        return fetch_cells(tracking, _cache(tracking)), tracking
    return runs, tracking


def _cache(tracking: Tracking) -> Path:
    told = f"{tracking.uri} {tracking.experiment}"
    name = hashlib.sha256(told.encode()).hexdigest()[:16]
    return user_cache_path("clipping-atlas") / "mlflow" / name


def _logged(
    options: argparse.Namespace, tracking: Tracking | None, out: Path, files: Iterable[Path]
) -> int:
    try:
        if tracking is None:
            raise OSError(f"{options.runs} says no store of MLflow; --tracking-uri URI names one")
        run = log_atlas(tracking, options.sweep, out, files, options.runs)
    except OSError as error:
        _say(sys.stderr, f"atlas: not logged: {error}")
        return 1
    _say(sys.stdout, f"{'logged':<13}{tracking.shown}, run {run}")
    return 0


def write_atlas(
    table: pd.DataFrame, runs: Path, out: Path, names: Sequence[str] = NAMES
) -> list[Path]:
    """Write the table and the figures ``names`` below ``out``; return the files.

    The larger files of the cells are read from their folders below ``runs``.
    """
    out.mkdir(parents=True, exist_ok=True)
    files = [out / "cells.parquet"]
    write_table(table, files[0])
    return [*files, *write_figures(table, runs, out / "figures", names)]


def write_figures(
    table: pd.DataFrame, runs: Path, folder: Path, names: Sequence[str]
) -> list[Path]:
    """Write the figures ``names`` into ``folder``; return the files."""
    files = _maps(table, folder) if "map" in names else []
    return [*files, *_figures(table, runs, folder, [name for name in names if name != "map"])]


def summary(cells: CellTable, files: Iterable[Path], out: Path) -> str:
    """Return what was read, left out and written, in lines of at most 80 columns."""
    table = cells.table
    runs = one_row_each(table)
    named = conditions(table)
    baselines = list(named["part"]).count("baseline")
    without = unpaired(table)
    lines = [f"cells read   {len(runs)}", *_left_out(cells.left_out)]
    lines += _wrapped("baselines", f"{baselines}" + _without(without))
    lines += _wrapped("privacy", _privacy(runs.merge(named, on="run_key")))
    boxes = without_font("".join(table["slice"].unique()))
    if boxes:
        lines += _wrapped("fonts", f"no installed font has {boxes}: drawn as boxes")
    return "\n".join([*lines, *_wrapped("written", _names_of(files, out)), f"{'below':<13}{out}"])


def _maps(table: pd.DataFrame, folder: Path) -> list[Path]:
    files: list[Path] = []
    cells = one_row_each(table)
    sizes = Counter(sorted(zip(cells["data"], cells["model"], strict=True)))
    for place, ((data, model), _) in enumerate(sizes.most_common()):
        part = table.loc[(table["data"] == data) & (table["model"] == model), :]
        # The number keeps names apart that differ in illegal letters only.
        stem = f"map-{_legal(data)}-{_legal(model)}-{place + 1}" if place else "map"
        drawn = map_figure.figure(*for_map(part))
        files += style.save(drawn, folder, stem, f"{data}, {model}")
        files.append(folder / f"{stem}.csv")
        row_table(part).to_csv(files[-1], index=False, encoding="utf-8")
    return files


def _figures(table: pd.DataFrame, runs: Path, folder: Path, names: Sequence[str]) -> list[Path]:
    files: list[Path] = []
    for place, part in enumerate(families(table) if names else ()):
        data, model = part["data"].iloc[0], part["model"].iloc[0]
        end = f"-{_legal(data)}-{_legal(model)}-{place + 1}" if place else ""
        for drawn in figures(part, runs, names):
            stem = f"{drawn.name}{end}"
            files += style.save(drawn.figure, folder, stem, f"{drawn.name}: {data}, {model}")
    return files


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m analysis.atlas",
        description="Write the atlas of a runs folder: table, figures, findings and a page.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("runs", help="the folder that holds <run_key>/cell.json, or the address of a store of "
        "MLflow: sqlite:////path/mlflow.db, http://host:5000")  # fmt: skip
    add("--sweep", metavar="NAME", help="only the cells of runs/sweeps/NAME.json")
    add("--figures", type=_names, default=NAMES, metavar="NAME,...", help="only these figures")
    add("--out", type=Path, metavar="DIR", help="where to write (RUNS/atlas; of a store ./atlas)")
    add("--log-mlflow", action="store_true",
        help="log all of it to the sweep's summary run; needs --sweep")  # fmt: skip
    add("--tracking-uri", metavar="URI",
        help="the store of MLflow (default: the one that the runs name)")  # fmt: skip
    add("--experiment", metavar="NAME", help=f"in that store ({EXPERIMENT})")
    return parser


def _names(text: str) -> tuple[str, ...]:
    names = tuple(name for name in text.split(",") if name)
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        raise argparse.ArgumentTypeError(f"no figure {unknown[0]!r}; there are {', '.join(NAMES)}")
    return names


def _none_finished(left_out: tuple[LeftOut, ...]) -> str:
    if not left_out:
        return f"no cells: no folder in it has a {schema.CELL_FILE}"
    first = left_out[0]
    return f"no finished cell ({len(left_out)} left out; {first.folder}: {first.reason})"


def _left_out(left_out: tuple[LeftOut, ...]) -> list[str]:
    if not left_out:
        return ["left out     none"]
    lines = [f"left out     {len(left_out)}"]
    for reason in dict.fromkeys(entry.reason for entry in left_out):
        folders = [entry.folder for entry in left_out if entry.reason == reason]
        lines += _wrapped("", f"{reason}: {', '.join(folders)}")
    return lines


def _without(keys: list[str]) -> str:
    if not keys:
        return ""
    more = f" and {len(keys) - _NAMED} more" if len(keys) > _NAMED else ""
    return f"; no finished baseline for {', '.join(keys[:_NAMED])}{more}"


def _privacy(runs: pd.DataFrame) -> str:
    private = runs[runs["part"] == "private"]
    by = ["shown_epsilon", "accountant", "delta", "unit"]
    texts: list[str] = []
    for group, cells in private.groupby(by, dropna=False):
        epsilon, accountant, delta, unit = cast(tuple[float, str, float, str], group)
        guarantee = f"{epsilon_text(epsilon)} ({accountant}, δ = {plain_number(delta)}, {unit})"
        texts.append(f"{guarantee}: {counted(len(cells), 'cell')}")
    others = len(runs) - len(private)
    return "; ".join([*texts, *([f"{others} not private"] if others else [])])


def _names_of(files: Iterable[Path], out: Path) -> str:
    """Return the files, those that differ in their ending only as one: ``map.png .svg .pdf``."""
    endings: dict[Path, list[str]] = {}
    for file in files:
        endings.setdefault(file.relative_to(out).with_suffix(""), []).append(file.suffix)
    return ", ".join(f"{stem}{' '.join(found)}" for stem, found in endings.items())


def _wrapped(head: str, text: str) -> list[str]:
    indent = " " * 13
    return textwrap.wrap(
        text, _COLUMNS, initial_indent=f"{head:<13}", subsequent_indent=indent,
        break_on_hyphens=False,
    )  # fmt: skip


def _legal(name: str) -> str:
    return re.sub(r"[^\w.+-]+", "_", name).strip("._")[:40] or "unnamed"


def _say(stream: object, text: str) -> None:
    """Write a line, with ? for letters that the terminal's encoding lacks."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    stream.write(text.encode(encoding, "replace").decode(encoding) + "\n")  # pyright: ignore[reportAttributeAccessIssue]


if __name__ == "__main__":
    raise SystemExit(main())
