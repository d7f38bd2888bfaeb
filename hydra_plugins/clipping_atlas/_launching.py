"""Launch cells until all have run, though a launcher may die under them."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from hydra.plugins.launcher import Launcher

from dpsgd.experiment.sweep.halt import Halt
from dpsgd.experiment.sweep.outcomes import without_record
from dpsgd.experiment.sweep.planned import PlannedCell
from hydra_plugins.clipping_atlas._handing import Words

log = logging.getLogger(__name__)

LAUNCHES = 2
"""How often what a dying launcher left is launched, the first time included."""


def launch_until_done(
    new_launcher: Callable[[], Launcher],
    cells: Sequence[PlannedCell],
    sweep: Path,
    most: int | None,
    say: Callable[[str], None],
) -> str:
    """Launch ``cells``, at most ``most`` together; return why some may have left no record.

    A launcher that ends before its jobs is replaced once, for those that are left.
    """
    why, left = "", list(cells)
    for attempt in range(LAUNCHES):
        try:
            _launch(new_launcher(), left, sweep, most)
            why = "its job left no record"
        except KeyboardInterrupt:
            return "the sweep was interrupted before it began"
        except (Exception, SystemExit) as error:  # whatever a launcher dies of, the cells go on
            log.debug("a launcher died", exc_info=error)
            why = f"its launcher died ({type(error).__name__})"
            first = (str(error).splitlines() or [""])[0]
            say(f"the launcher, or a worker of it, died: {type(error).__name__}: {first}")
        left = without_record(left, sweep)
        if not left or Halt(sweep).asked():
            break
        _let_go()
        if attempt + 1 < LAUNCHES:
            say(f"{len(left)} of {len(cells)} cells are launched again")
    return why


def _launch(
    launcher: Launcher, cells: Sequence[PlannedCell], sweep: Path, most: int | None
) -> None:
    halt = Halt(sweep)
    for first in range(0, len(cells), most or len(cells)):
        if halt.asked():
            return
        batch = cells[first : first + (most or len(cells))]
        words = [[Words.of(cell.words, cell.config, cell.run_key)] for cell in batch]
        launcher.launch(words, initial_job_idx=first)


def _let_go() -> None:
    """Leave what a launcher that died has left in this process."""
    if "ray" in sys.modules:
        sys.modules["ray"].shutdown()
