"""Hydra's basic sweeper, with every cell checked before the first one starts."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.utils import JobReturn, JobStatus
from omegaconf import OmegaConf, open_dict


class CheckedSweeper(BasicSweeper):
    """Compose and check all cells, run them, and end with a table of what failed."""

    def validate_batch_is_legal(self, batch: Sequence[Sequence[str]]) -> None:
        """Raise ConfigError, naming the cell, if any of its settings cannot be used."""
        # Hydra imports every plugin at every start: keep torch out of that.
        from dpsgd.errors import ConfigError  # noqa: PLC0415
        from dpsgd.experiment.plan import check_noise  # noqa: PLC0415
        from dpsgd.experiment.prepared import prepare  # noqa: PLC0415
        from dpsgd.experiment.settings import read_cell  # noqa: PLC0415

        if self.config is None or self.hydra_context is None:
            raise RuntimeError("the sweeper was not set up")
        loader = self.hydra_context.config_loader
        for overrides in batch:
            composed = loader.load_sweep_config(self.config, list(overrides))
            with open_dict(composed):
                composed.pop("hydra")
            plain: Any = OmegaConf.to_container(composed, resolve=True)
            try:
                cell = read_cell(plain)
                cache = Path(self.config.hydra.runtime.cwd, cell.settings.runs_dir, ".cache")
                check_noise(prepare(cell), cache)
            except ConfigError as error:
                hint = f"in the cell {' '.join(overrides)}; no cell was started"
                hint = f"{error.hint}\n{hint}" if error.hint else hint
                raise ConfigError(error.key, error.value, error.allowed, hint) from None
        print(f"{len(batch)} cells, all checked", flush=True)  # noqa: T201

    def sweep(self, arguments: list[str]) -> Any:
        """Run all cells; exit with 1 and a table if any failed."""
        if self.launcher is None:
            raise RuntimeError("the sweeper was not set up")
        finished: list[JobReturn] = []
        launch = self.launcher.launch

        def remember(*args: Any, **kwargs: Any) -> Sequence[JobReturn]:
            finished.extend(launch(*args, **kwargs))
            return [job for job in finished if job.status != JobStatus.FAILED]

        self.launcher.launch = remember
        result = super().sweep(arguments)
        failed = [job for job in finished if job.status == JobStatus.FAILED]
        if failed:
            print(_table(failed), file=sys.stderr)  # noqa: T201
            sys.exit(1)
        return result


def _table(failed: Sequence[JobReturn]) -> str:
    """Return what failed and why, a cell in two lines."""
    lines = [f"\n{len(failed)} cells failed:"]
    for job in failed:
        error = job._return_value
        first = (str(error).splitlines() or ["no message"])[0]
        lines += [f"  {' '.join(job.overrides or [])}", f"    {type(error).__name__}: {first}"]
    lines.append("Finished cells are kept; the same command runs only the rest.")
    return "\n".join(lines)
