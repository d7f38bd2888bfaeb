"""A sweep that finishes: compose, plan, check, launch what is missing, say what became of it."""

from __future__ import annotations

import dataclasses
import itertools
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.plugins import Plugins
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf, open_dict, read_write

# Hydra imports every plugin at every start: what needs torch is imported where it is used.
if TYPE_CHECKING:
    from rich.console import Console

    from dpsgd.experiment.sweep.asked import Asked

Composed = tuple[Sequence[str], dict[str, Any]]
"""The overrides of a cell, and the resolved configuration that they make."""


class CheckedSweeper(BasicSweeper):
    """Run the cells that are missing under any launcher, and end with a table of what failed.

    ``only`` keeps, of the cells asked for, those whose run keys begin so.
    """

    def __init__(
        self, max_batch_size: int | None, params: Any = None, only: Sequence[str] | None = None
    ) -> None:
        super().__init__(max_batch_size, params)
        self.only = only

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        """Take what Hydra gives. Raises ConfigError if the launcher is not installed."""
        from hydra_plugins.clipping_atlas._launchers import check_installed  # noqa: PLC0415

        check_installed(config.hydra.launcher, config.hydra.runtime.choices["hydra/launcher"])
        self.hydra_context, self.config = hydra_context, config
        self.task_function = task_function

    def sweep(self, arguments: list[str]) -> None:
        """Run all cells; exit with 1 and a table if any is not finished, 130 after Ctrl-C."""
        from rich.console import Console  # noqa: PLC0415

        from dpsgd.experiment.sweep.asked import asked_cells, chosen  # noqa: PLC0415

        console = Console(highlight=False)
        # Compose every list of overrides, tell the cells apart, and check those that are missing.
        composed = self._composed(self._override_lists(arguments))
        cells = chosen(asked_cells(composed, Path(self._hydra.runtime.cwd)), self.only)
        missing = [cell for cell in cells if not cell.done]
        threads, at_once = self._shares(len(missing))
        console.print(
            f"{len(cells)} cells, all checked: {len(cells) - len(missing)} finished before, "
            f"{len(missing)} to run{at_once}", soft_wrap=True,
        )  # fmt: skip
        if missing:
            self._run(console, [_with_threads(cell, threads) for cell in missing], len(cells))

    def _override_lists(self, arguments: list[str]) -> list[list[str]]:
        parser = OverridesParser.create(config_loader=self._context.config_loader)
        overrides = parser.parse_overrides([*self._parse_config(), *arguments])
        return list(itertools.chain(*self.split_arguments(overrides, None)))

    def _composed(self, override_lists: Sequence[Sequence[str]]) -> Iterator[Composed]:
        for overrides in override_lists:
            config = self._context.config_loader.load_sweep_config(self._master, list(overrides))
            with open_dict(config):
                config.pop("hydra")
            plain: Any = OmegaConf.to_container(config, resolve=True)
            yield overrides, {str(key): value for key, value in plain.items()}

    def _shares(self, missing: int) -> tuple[int | None, str]:
        """Return the threads of each cell, and in words how many cells run at once."""
        from hydra_plugins.clipping_atlas._launchers import threads_and_workers  # noqa: PLC0415

        if not missing:
            return None, ""
        threads, workers = threads_and_workers(self._hydra.launcher, missing)
        at_once = f", {workers} at a time" if workers else ""
        each = f", {threads} thread{'s' if threads > 1 else ''} each" if threads else ""
        return threads, at_once + each

    def _run(self, console: Console, missing: Sequence[Asked], asked: int) -> None:
        """Launch the missing cells, and leave with the exit code that they deserve."""
        from rich.console import Console  # noqa: PLC0415

        from dpsgd.experiment.sweep.asked import open_trackers  # noqa: PLC0415
        from dpsgd.experiment.sweep.failed import failed_of, print_failed, say  # noqa: PLC0415
        from dpsgd.experiment.sweep.following import following  # noqa: PLC0415
        from dpsgd.experiment.sweep.halt import Halt  # noqa: PLC0415
        from dpsgd.experiment.sweep.interrupt import in_order  # noqa: PLC0415
        from hydra_plugins.clipping_atlas._launching import launch_until_done  # noqa: PLC0415

        open_trackers(missing)
        folder = self._folder()
        halt = Halt(folder)
        halt.own()
        with ExitStack() as around:
            interrupts = around.enter_context(in_order(halt))
            labels = {cell.run_key: cell.label for cell in missing}
            around.enter_context(following(folder, labels, lambda line: say(console, line)))
            why = launch_until_done(
                self._new_launcher, missing, folder, self.max_batch_size,
                lambda line: say(console, line),
            )  # fmt: skip
        failed = failed_of(missing, folder, why)
        if failed:
            print_failed(Console(stderr=True, highlight=False), failed, asked, sys.argv[1:])
        if failed or interrupts.exitcode:
            sys.exit(interrupts.exitcode or 1)

    def _folder(self) -> Path:
        """Make this sweep's own folder, absolute, and let Hydra and every job know of it."""
        folder = _fresh(Path(self._hydra.runtime.cwd, self._hydra.sweep.dir))
        OmegaConf.save(self._master, folder / "multirun.yaml")
        with read_write(self._hydra), open_dict(self._hydra):
            self._hydra.sweep.dir = str(folder)
        return folder

    def _new_launcher(self) -> Launcher:
        from hydra_plugins.clipping_atlas._handing import Composed  # noqa: PLC0415

        handing: Any = Composed()
        return Plugins.instance().instantiate_launcher(
            hydra_context=HydraContext(handing, self._context.callbacks),
            task_function=self.task_function,
            config=self._master,
        )

    @property
    def _hydra(self) -> Any:
        return self._master.hydra

    @property
    def _master(self) -> DictConfig:
        if self.config is None:
            raise RuntimeError("the sweeper was not set up")
        return self.config

    @property
    def _context(self) -> HydraContext:
        if self.hydra_context is None:
            raise RuntimeError("the sweeper was not set up")
        return self.hydra_context


def _with_threads(cell: Asked, threads: int | None) -> Asked:
    if cell.config.get("threads") is not None or threads is None:
        return cell
    return dataclasses.replace(cell, config={**cell.config, "threads": threads})


def _fresh(folder: Path) -> Path:
    """Make ``folder``, or one beside it if another sweep began in the same second."""
    number = 1
    while True:
        made = folder if number == 1 else folder.with_name(f"{folder.name}_{number}")
        try:
            made.mkdir(parents=True)
        except FileExistsError:
            number += 1
        else:
            return made
