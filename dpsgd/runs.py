"""``python -m dpsgd.runs list|show|rm``: the runs on disk."""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from analysis import schema
from dpsgd.accounting import format_epsilon
from dpsgd.errors import ConfigError
from dpsgd.experiment.files import read_json
from dpsgd.experiment.opened import load
from dpsgd.experiment.record import finished


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; exit with 2 for a run that is not there."""
    given = sys.argv[1:] if arguments is None else arguments
    # What dpsgd.run calls runs_dir=DIR is understood here too.
    given = [f"--{a.replace('_', '-', 1)}" if a.startswith("runs_dir=") else a for a in given]
    options = _parser().parse_args(given)
    console = Console(highlight=False)
    try:
        options.do(options, console)
    except ConfigError as error:
        print(error, file=sys.stderr)  # noqa: T201
        sys.exit(2)


def _list(options: argparse.Namespace, console: Console) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("run", "label", "status", "ε", "accuracy", "worst"):
        table.add_column(name, justify="right" if name in ("ε", "accuracy", "worst") else "left")
    rows = [_row(folder) for folder in _folders(options.runs_dir)]
    for _, cells in sorted(rows, key=lambda row: row[0]):
        table.add_row(*cells)
    console.print(table)
    console.print(f"{len(rows)} runs in {options.runs_dir}")


def _row(folder: Path) -> tuple[str, tuple[str, ...]]:
    status: dict[str, Any] = read_json(folder / schema.STATUS_FILE) or {}
    cell = finished(folder)
    if cell is None:
        at = f"{status.get('status', 'unknown')} at step {status.get('step', '?')}"
        return status.get("started_at", ""), (folder.name, "", at, "", "", "")
    values = _finals(cell)
    return status.get("started_at", ""), (
        folder.name, cell["label"], "FINISHED", format_epsilon(float(cell["epsilon"])),
        values.get("accuracy", "–"), values.get("tail_worst", "–"),
    )  # fmt: skip


def _finals(cell: dict[str, Any]) -> dict[str, str]:
    columns = [cell["metrics"][c] for c in ("split", "slice_kind", "metric", "value")]
    return {
        metric: f"{value:.3f}"
        for split, kind, metric, value in zip(*columns, strict=True)
        if split == "test" and kind == "all" and value is not None
    }


def _show(options: argparse.Namespace, console: Console) -> None:
    run = load(options.run, options.runs_dir)
    console.print((run.folder / schema.LEDGER_PAGE).read_text(encoding="utf-8"), markup=False)
    console.print(f"files: {run.folder}", soft_wrap=True)


def _rm(options: argparse.Namespace, console: Console) -> None:
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
        shutil.rmtree(folder)
        console.print(f"{folder}: removed", soft_wrap=True)


def _folders(runs_dir: Path) -> list[Path]:
    if not runs_dir.is_dir():
        raise ConfigError("runs_dir", runs_dir, "is no folder")
    return sorted(file.parent for file in runs_dir.glob(f"*/{schema.STATUS_FILE}"))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m dpsgd.runs", description="The runs on disk.")
    commands = parser.add_subparsers(required=True, metavar="list|show|rm")
    for name, do, about in (
        ("list", _list, "every run: label, status, ε, accuracy, worst slice"),
        ("show", _show, "a finished run's privacy ledger"),
        ("rm", _rm, "remove runs by key (asks for --yes)"),
    ):
        command = commands.add_parser(name, help=about, description=about)
        command.add_argument("--runs-dir", type=Path, default=Path("runs"), metavar="DIR")
        command.set_defaults(do=do)
        if name == "show":
            command.add_argument("run", help="a run's folder, or the start of its key")
        if name == "rm":
            command.add_argument("run", nargs="+", help="the start of a run's key")
            command.add_argument("--yes", action="store_true", help="remove without asking")
    return parser


if __name__ == "__main__":
    main()
