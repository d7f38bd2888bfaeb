"""Hydra's basic sweeper, with every cell checked before the first one starts."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.utils import JobReturn, JobStatus
from omegaconf import DictConfig, OmegaConf


class CheckedSweeper(BasicSweeper):
    """Compose and check all cells, run them, and end with a table of what failed."""

    def __init__(self, max_batch_size: int | None, params: DictConfig | None) -> None:
        super().__init__(max_batch_size=max_batch_size, params=params)

    def validate_batch_is_legal(self, batch: Sequence[Sequence[str]]) -> None:
        """Raise ConfigError, naming the cell, if any of its settings cannot be used."""
        # Hydra imports every plugin at every start: keep torch out of that.
        from dpsgd.errors import ConfigError  # noqa: PLC0415
        from dpsgd.experiment.plan import prepare  # noqa: PLC0415
        from dpsgd.experiment.settings import read_cell  # noqa: PLC0415

        if self.config is None or self.config_loader is None:
            raise RuntimeError("the sweeper was not set up")
        for overrides in batch:
            composed = self.config_loader.load_sweep_config(self.config, list(overrides))
            with_hydra = OmegaConf.to_container(composed, resolve=False)
            plain: dict[str, Any] = {k: v for k, v in dict(with_hydra).items() if k != "hydra"}
            resolved = OmegaConf.to_container(OmegaConf.create(plain), resolve=True)
            try:
                prepare(read_cell(dict(resolved)))  # pyright: ignore[reportArgumentType]
            except ConfigError as error:
                hint = f"in the cell {' '.join(overrides)}; no cell was started"
                hint = f"{error.hint}\n{hint}" if error.hint else hint
                raise ConfigError(error.key, error.value, error.allowed, hint) from None
        print(f"{len(batch)} cells, all checked", flush=True)  # noqa: T201

    def sweep(self, arguments: list[str]) -> Any:
        """Run all cells; exit with 1 and a table if any failed."""
        try:
            return super().sweep(arguments)
        except Exception:
            failed = self._failures()
            if not failed:
                raise
            print(f"\n{len(failed)} cells failed:", file=sys.stderr)  # noqa: T201
            for job in failed:
                first = (str(job._return_value).splitlines() or ["?"])[0]
                name = type(job._return_value).__name__
                print(f"  {' '.join(job.overrides or [])}\n    {name}: {first}",  # noqa: T201
                      file=sys.stderr)  # fmt: skip
            print("Finished cells are kept; the same command runs only the rest.",  # noqa: T201
                  file=sys.stderr)  # fmt: skip
            sys.exit(1)

    def _failures(self) -> list[JobReturn]:
        jobs = getattr(self.launcher, "finished_jobs", [])
        return [job for job in jobs if job.status == JobStatus.FAILED]
