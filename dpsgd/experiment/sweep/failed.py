"""What a sweep says at its end: which cells did not finish, why, and how to run only those."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dpsgd.experiment.sweep.ended import ELSEWHERE, NOT_RUN, Ended
from dpsgd.experiment.sweep.outcomes import outcome
from dpsgd.experiment.sweep.planned import PlannedCell

SHOWN = 30
DIGITS = 8
"""How much of a run key names a cell on the command line."""


@dataclass(frozen=True)
class Failed:
    """A cell that did not finish, and what became of it."""

    cell: PlannedCell
    ended: Ended


def ends_of(
    cells: Sequence[PlannedCell], sweep: Path, why: str
) -> tuple[list[Failed], list[Failed]]:
    """Return the cells that did not finish, and those that another process has; ``why`` says why
    a job may have left no record.
    """
    found = [Failed(cell, outcome(cell, sweep, why)) for cell in cells]
    left = [one for one in found if not one.ended.finished]
    elsewhere = [one for one in left if one.ended.status == ELSEWHERE]
    return [one for one in left if one not in elsewhere], elsewhere


def print_failed(
    console: Console, failed: Sequence[Failed], of: int, command: Sequence[str]
) -> None:
    """Print a table of what did not finish, where to look, and the command that runs only that.

    Cells with the same fate are one row. Where nothing failed, and the sweep was only stopped, the
    same command is all that is needed.
    """
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("cell", max_width=30, overflow="fold")
    table.add_column("what happened", overflow="fold", ratio=1)
    table.add_column("folder", no_wrap=True)
    fates = _by_fate(failed)
    for alike in fates[:SHOWN]:
        table.add_row(*map(escape, _row(alike)))
    console.print(f"\n{len(failed)} of {of} cells did not finish:")
    console.print(table)
    left = sum(map(len, fates[SHOWN:]))
    if left:
        console.print(f"... and {left} more")
    broken = [one for one in failed if not one.ended.stopped]
    if not broken:
        say(console, "None of them failed: the same command goes on with the rest")
        return
    released = any(one.cell.cell.settings.release for one in broken)
    kept = "traceback.private.txt" if released else "status.json"
    log = "log.private.txt" if released else "log.txt"
    say(console, f"A folder's {kept} has the traceback, its {log} the output:")
    say(console, f"  {failed[0].cell.folder.parent}")
    say(console, "Finished cells are kept: the same command runs the rest. Only these:")
    say(console, f"  {only(command, [one.cell.run_key for one in failed])}")


def number(count: int, what: str) -> str:
    """Return ``1 cell`` or ``3 cells``."""
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _by_fate(failed: Sequence[Failed]) -> list[list[Failed]]:
    """Return the cells with the same status and error together, in the order of the first."""
    fates: dict[tuple[str, str], list[Failed]] = {}
    for one in failed:
        fates.setdefault((one.ended.status, one.ended.error), []).append(one)
    return list(fates.values())


def _row(alike: Sequence[Failed]) -> tuple[str, str, str]:
    first = alike[0]
    name = first.cell.label
    if len(alike) > 1:
        name = f"{number(len(alike), 'cell')}, first {name}"
    folder = "–" if first.ended.status == NOT_RUN else first.cell.run_key
    return name, first.ended.error, folder


def only(command: Sequence[str], keys: Sequence[str]) -> str:
    """Return the command that runs, of a sweep's cells, only those with these run keys."""
    words = [word for word in command if not word.startswith("hydra.sweeper.only=")]
    # In quotes: 1234e567 is a number otherwise.
    chosen = ",".join(f'"{key[:DIGITS]}"' for key in keys)
    return shlex.join([*_program(), *words, f"hydra.sweeper.only=[{chosen}]"])


def say(console: Console, line: str) -> None:
    """Print a line as it is: no markup, and no break inside what is to be copied."""
    console.print(line, markup=False, soft_wrap=True)


def _program() -> list[str]:
    started = Path(sys.argv[0])
    if started.name in ("run.py", "__main__.py", "-m"):
        return ["python", "-m", "dpsgd.run"]
    return [started.name]
