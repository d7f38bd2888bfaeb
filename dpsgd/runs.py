"""``python -m dpsgd.runs list|show|rm``: the runs on disk."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console

from analysis import schema
from dpsgd.accounting import format_epsilon
from dpsgd.errors import BusyError, ConfigError, folded
from dpsgd.experiment.claim import claim
from dpsgd.experiment.files import read_json
from dpsgd.experiment.holder import claim_file, state_of
from dpsgd.experiment.named_runs import folder_first, takes_runs_dir, words
from dpsgd.experiment.sweep.index import Index, older_line
from dpsgd.experiment.sweep.rows import IndexRow, read_row
from dpsgd.experiment.version import RESULT_VERSION


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; exit with 2 for a run that is not there, 75 for one that is in use."""
    options = _parser().parse_args(words(arguments))
    options.runs_dir, options.run = _folder_and_runs(options)
    console = Console(highlight=False)
    try:
        options.do(options, console)
    except ConfigError as error:
        print(folded(str(error)), file=sys.stderr)  # noqa: T201
        sys.exit(2)
    except BusyError as error:
        print(error, file=sys.stderr)  # noqa: T201
        sys.exit(75)


def _folder_and_runs(options: argparse.Namespace) -> tuple[Path, list[str]]:
    runs, rest = folder_first(options.run, options.runs_dir)
    if options.do is _list and options.runs_dir is None and rest:
        return Path(rest[0]), rest[1:]  # a folder that is not there is said to be none
    return runs, rest


def _list(options: argparse.Namespace, console: Console) -> None:
    runs = options.runs_dir
    if options.run:
        raise ConfigError("", " ".join(options.run), "list takes one folder of runs, and no more")
    names = _names(runs)
    index = Index(runs)
    finished, labels = index.finished(), index.labels()
    others = [runs / name for name in names if name not in finished]
    rows = [_finished(row.run_key, row) for row in finished.values()]
    rows += [_other(folder, labels) for folder in others if (folder / schema.STATUS_FILE).exists()]
    head = ("run", "label", "status", "ε", "accuracy", "worst")
    # A table of rich takes seconds for the thousands of runs that a folder may hold.
    for line in _lines([head, *(cells for _, cells in sorted(rows))]):
        print(line)  # noqa: T201
    console.print(f"{len(rows)} runs in {runs}", soft_wrap=True)
    older = older_line(finished, RESULT_VERSION)
    if older is not None:
        console.print(older, soft_wrap=True)


def _finished(name: str, row: IndexRow) -> tuple[str, tuple[str, ...]]:
    return row.started_at or "", (
        name, row.label, row.status, "–" if row.epsilon is None else format_epsilon(row.epsilon),
        *("–" if value is None else f"{value:.3f}" for value in (row.accuracy, row.worst)),
    )  # fmt: skip


def _other(folder: Path, labels: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """Return the row of a run that is not finished, or of a copy under another name."""
    row = read_row(folder)
    if row is not None:
        return _finished(folder.name, row)
    status: dict[str, Any] = read_json(folder / schema.STATUS_FILE) or {}
    at = f"{state_of(folder)} at step {status.get('step', '?')}"
    label = labels.get(folder.name) or _label(folder)
    return status.get("started_at", ""), (folder.name, label, at, "", "", "")


def _label(folder: Path) -> str:
    """Return what a run is called by its configuration, where no index says it."""
    from dpsgd.experiment.record import label_of  # noqa: PLC0415  (torch, as for a lost index)
    from dpsgd.experiment.settings import read_cell  # noqa: PLC0415

    try:
        config: Any = yaml.safe_load((folder / schema.CONFIG_FILE).read_text(encoding="utf-8"))
        return label_of(read_cell(config), None)
    except (OSError, TypeError, AttributeError, ValueError, yaml.YAMLError):  # ended before it was
        return ""


def _lines(rows: list[tuple[str, ...]]) -> list[str]:
    """Return rows as lines: words to the left, the three numbers behind them to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    words = len(widths) - 3
    return [
        "  ".join(
            cell.ljust(width) if place < words else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _show(options: argparse.Namespace, console: Console) -> None:
    from dpsgd.experiment.opened import load  # noqa: PLC0415  (torch, which the others do without)

    if len(options.run) != 1:
        raise ConfigError("run", " ".join(options.run) or None, "show takes one run")
    run = load(options.run[0], options.runs_dir)
    console.print((run.folder / schema.LEDGER_PAGE).read_text(encoding="utf-8"), markup=False)
    console.print(f"files: {run.folder}", soft_wrap=True)


def _rm(options: argparse.Namespace, console: Console) -> None:
    if not options.run:
        raise ConfigError("run", None, "rm takes the start of a run's key, or several")
    found: dict[str, Path] = {}
    for given in options.run:
        matches = [f for f in _folders(options.runs_dir) if f.name.startswith(given)]
        if len(matches) != 1:
            raise ConfigError(
                "run", given, f"must be the start of one run's key, fits {len(matches)}"
            )
        found[matches[0].name] = matches[0]
    for folder in found.values():
        if not options.yes:
            console.print(
                f"{folder}: would be removed, with its ledger. What was released from it stays "
                "released: keep the ledger if anything was. Add --yes to remove",
                soft_wrap=True,
            )
            continue
        with claim(folder):
            # In one move, so that whoever is killed here leaves no half of a run.
            away = claim_file(folder).with_suffix(".removed")
            shutil.rmtree(away, ignore_errors=True)
            folder.rename(away)
            shutil.rmtree(away)
        console.print(f"{folder}: removed", soft_wrap=True)


def _folders(runs: Path) -> list[Path]:
    return [runs / name for name in _names(runs) if (runs / name / schema.STATUS_FILE).exists()]


def _names(runs: Path) -> list[str]:
    if not runs.is_dir():
        raise ConfigError("runs_dir", runs, "is no folder")
    return sorted(name for name in os.listdir(runs) if not name.startswith("."))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m dpsgd.runs", description="The runs on disk.")
    commands = parser.add_subparsers(required=True, metavar="list|show|rm")
    for name, do, about, metavar, what in (
        ("list", _list, "every run: label, status, ε, accuracy, worst slice", "DIR",
         "the folder of runs, runs unless given"),
        ("show", _show, "a finished run's privacy ledger", "RUN",
         "a run's folder, or the start of its key"),
        ("rm", _rm, "remove runs by key (asks for --yes)", "RUN", "the start of a run's key"),
    ):  # fmt: skip
        command = commands.add_parser(name, help=about, description=about)
        command.add_argument("run", nargs="*", metavar=metavar, help=what)
        takes_runs_dir(command)
        command.set_defaults(do=do)
        if name == "rm":
            command.add_argument("--yes", action="store_true", help="remove without asking")
    return parser


if __name__ == "__main__":
    main()
