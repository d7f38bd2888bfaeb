"""Hydra's basic sweeper, with every cell planned and checked before the first one starts."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.utils import JobReturn, JobStatus


class CheckedSweeper(BasicSweeper):
    """Compose, plan and check all cells, run what is missing, and end with a table of failures.

    ``where`` holds exceptions from ``params`` (see ``expanding.py``).
    """

    def __init__(
        self, max_batch_size: int | None, params: Any = None,
        where: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(max_batch_size, params)
        self.where = where

    def sweep(self, arguments: list[str]) -> Any:
        """Run all cells; exit with 1 and a table if any failed."""
        # Hydra imports every plugin at every start: keep torch out of that.
        from rich.console import Console  # noqa: PLC0415

        from dpsgd.experiment.sweep.keys import RunKeys  # noqa: PLC0415
        from dpsgd.experiment.sweep.planned import plan_sweep  # noqa: PLC0415
        from dpsgd.experiment.sweep.preflight import preflight  # noqa: PLC0415
        from dpsgd.experiment.sweep.preview import print_preview  # noqa: PLC0415
        from dpsgd.experiment.sweep.progress import sweep_progress  # noqa: PLC0415
        from hydra_plugins.clipping_atlas.composing import Composer  # noqa: PLC0415
        from hydra_plugins.clipping_atlas.expanding import override_lists  # noqa: PLC0415

        if self.launcher is None or self.config is None or self.hydra_context is None:
            raise RuntimeError("the sweeper was not set up")
        loader, keys = self.hydra_context.config_loader, RunKeys()
        jobs = override_lists(self.params, self.where, arguments, loader)
        cwd = Path(self.config.hydra.runtime.cwd)
        plan = plan_sweep(jobs, Composer(loader, self.config), cwd, keys)
        runs = plan.cells[0].folder.parent
        preflight(plan.missing, keys, runs / ".cache")
        console = Console(highlight=False)
        print_preview(console, plan, keys, runs, 1)
        Path(self.config.hydra.sweep.dir).mkdir(parents=True, exist_ok=True)
        words = [list(planned.words) for planned in plan.missing]
        finished: list[JobReturn] = []
        with sweep_progress(console, plan, runs):
            for batch in (
                self.split_overrides_to_chunks(words, self.max_batch_size) if words else ()
            ):
                finished += self.launcher.launch(batch, initial_job_idx=len(finished))
        failed = [job for job in finished if job.status == JobStatus.FAILED]
        if failed:
            print(_table(failed), file=sys.stderr)  # noqa: T201
            sys.exit(1)
        return finished


def _table(failed: Sequence[JobReturn]) -> str:
    """Return what failed and why, a cell in two lines."""
    lines = [f"\n{len(failed)} cells failed:"]
    for job in failed:
        error = job._return_value
        first = (str(error).splitlines() or ["no message"])[0]
        lines += [f"  {' '.join(job.overrides or [])}", f"    {type(error).__name__}: {first}"]
    lines.append("Finished cells are kept; the same command runs only the rest.")
    return "\n".join(lines)
