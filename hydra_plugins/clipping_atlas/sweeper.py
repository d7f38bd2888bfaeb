"""A sweep that finishes: compose, plan, check, launch what is missing, say what became of it."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.plugins import Plugins
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf, open_dict, read_write

# Hydra imports every plugin at every start: what needs torch is imported where it is used.
if TYPE_CHECKING:
    from rich.console import Console

    from dpsgd.experiment.sweep.keys import RunKeys
    from dpsgd.experiment.sweep.planned import PlannedCell, SweepPlan

UNTRACKED = {"_target_": "dpsgd.experiment.tracker.NoTracker", "name": "none"}
"""The tracker of a sweep's cells: one process beside the sweep copies them all."""


class CheckedSweeper(BasicSweeper):
    """Run the cells that are missing under any launcher, and end with a table of what failed.

    ``where`` holds exceptions from ``params`` (see ``_expanding.py``). ``only`` keeps, of the cells
    asked for, those whose run keys begin so.
    """

    def __init__(
        self, max_batch_size: int | None, params: Any = None,
        where: Sequence[Mapping[str, Any]] | None = None, only: Sequence[str] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(max_batch_size, params)
        self.where, self.only, self.name = where, only, ""

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        """Take what Hydra gives. Raises ConfigError if the launcher is not installed."""
        from hydra_plugins.clipping_atlas._launchers import check_installed  # noqa: PLC0415

        check_installed(config.hydra.launcher, config.hydra.runtime.choices["hydra/launcher"])
        self.hydra_context, self.config = hydra_context, config
        self.task_function = task_function

    def sweep(self, arguments: list[str]) -> None:
        """Run all cells; exit with 1 and a table if any failed, 75 if others have the rest, 130
        after Ctrl-C.
        """
        from rich.console import Console  # noqa: PLC0415

        from dpsgd.experiment.files import check_folder, leaving_nothing  # noqa: PLC0415
        from dpsgd.experiment.remembered import cache_of  # noqa: PLC0415
        from dpsgd.experiment.sweep.keys import RunKeys  # noqa: PLC0415
        from dpsgd.experiment.sweep.planned import told_apart  # noqa: PLC0415
        from dpsgd.experiment.sweep.preflight import preflight  # noqa: PLC0415
        from dpsgd.experiment.sweep.preview import print_preview  # noqa: PLC0415
        from hydra_plugins.clipping_atlas._launchers import threads_and_workers  # noqa: PLC0415

        console, keys = Console(highlight=False), RunKeys()
        with leaving_nothing(Path(self._hydra.runtime.cwd, str(self._master.runs_dir))):
            plan = self._plan(arguments, keys)
            runs = plan.cells[0].folder.parent
            check_folder(runs, "runs_dir")
            preflight(plan.missing, keys, cache_of(runs))
            threads, workers = threads_and_workers(self._hydra.launcher, len(plan.missing))
            print_preview(console, plan, keys, runs, workers or 1)
        self._name(plan, arguments, runs)
        if plan.missing:
            missing = told_apart(plan.missing)
            self._run(console, plan, [_for_a_job(cell, threads) for cell in missing])

    def _plan(self, arguments: list[str], keys: RunKeys) -> SweepPlan:
        from dpsgd.experiment.sweep.planned import plan_sweep  # noqa: PLC0415
        from hydra_plugins.clipping_atlas._composing import Composer  # noqa: PLC0415
        from hydra_plugins.clipping_atlas._expanding import override_lists  # noqa: PLC0415

        loader = self._context.config_loader
        jobs = override_lists(self.params, self.where, arguments, loader)
        composer = Composer(loader, self._master)
        return plan_sweep(jobs, composer, Path(self._hydra.runtime.cwd), keys).only(self.only)

    def _name(self, plan: SweepPlan, arguments: list[str], runs: Path) -> None:
        """Keep which cells this sweep has; what an earlier command asked of it stays in it."""
        from dpsgd.experiment.sweep.members import add_to_sweep, sweep_name  # noqa: PLC0415

        asked = [cell.run_key for cell in plan.cells if not cell.added]
        baselines = [cell.run_key for cell in plan.cells if cell.added]
        self.name = sweep_name(self._hydra.runtime.choices.get("sweep"), arguments)
        add_to_sweep(runs, self.name, arguments, asked, baselines)

    def _run(self, console: Console, plan: SweepPlan, missing: Sequence[PlannedCell]) -> None:
        """Launch the missing cells, and leave with the exit code that they deserve."""
        from rich.console import Console  # noqa: PLC0415

        from dpsgd.experiment.sweep.failed import ends_of, print_failed, say  # noqa: PLC0415
        from dpsgd.experiment.sweep.following import following  # noqa: PLC0415
        from dpsgd.experiment.sweep.halt import Halt  # noqa: PLC0415
        from dpsgd.experiment.sweep.interrupt import in_order  # noqa: PLC0415
        from dpsgd.experiment.sweep.progress import sweep_progress  # noqa: PLC0415
        from dpsgd.experiment.track.pushing import pushing  # noqa: PLC0415
        from hydra_plugins.clipping_atlas._launching import launch_until_done  # noqa: PLC0415

        def tell(line: str) -> None:
            say(console, line)

        folder, runs = self._folder(), plan.cells[0].folder.parent
        tracker, keys = plan.cells[0].cell.tracker, [cell.run_key for cell in plan.cells]
        labels = {cell.run_key: cell.label for cell in missing}
        halt = Halt(folder)
        halt.own()
        with ExitStack() as around:
            interrupts = around.enter_context(in_order(halt))
            around.enter_context(pushing(tracker, runs, self.name, keys, tell))
            around.enter_context(sweep_progress(console, plan, runs))
            around.enter_context(following(folder, labels, tell))
            why = launch_until_done(self._new_launcher, missing, folder, self.max_batch_size, tell)
        failed, elsewhere = ends_of(missing, folder, why)
        if elsewhere:
            tell(f"{len(elsewhere)} cells are another process's: {elsewhere[0].ended.error}")
        if failed:
            print_failed(
                Console(stderr=True, highlight=False), failed, len(plan.cells), sys.argv[1:]
            )
        code = interrupts.exitcode or (1 if failed else 75 if elsewhere else 0)
        if code:
            sys.exit(code)

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


def _for_a_job(cell: PlannedCell, threads: int | None) -> PlannedCell:
    """Return the cell as its job runs it: untracked, with its share of the threads."""
    config = {**cell.config, "tracker": UNTRACKED}
    if config.get("threads") is None:
        config["threads"] = threads
    return dataclasses.replace(cell, config=config)


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
