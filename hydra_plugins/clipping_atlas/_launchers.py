"""What the sweeper must know of a launcher: is it installed, and how much runs at once."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from typing import Any

from dpsgd.errors import ConfigError

EXTRAS = {"hydra_ray_launcher": "ray", "hydra_submitit_launcher": "slurm"}
"""The optional parts of this package that bring a launcher, by its plugin."""


def check_installed(launcher: Mapping[str, Any], name: str) -> None:
    """Raise ConfigError, with the command that installs it, if a launcher's plugin is missing."""
    plugin = str(launcher.get("_target_", "")).split(".")[1:2]
    extra = EXTRAS.get(plugin[0]) if plugin else None
    if extra and importlib.util.find_spec(f"hydra_plugins.{plugin[0]}") is None:
        raise ConfigError(
            "hydra/launcher", name, f"is not installed: pip install 'clipping-atlas[{extra}]'"
        )


def threads_and_workers(launcher: Mapping[str, Any], cells: int) -> tuple[int | None, int | None]:
    """Return how many threads a cell gets, and how many cells run at once on this machine; None
    where torch, or the cluster, decides.

    A scheduler that was asked for cores gives a cell so many threads; workers of this machine
    share it, however few cells are left: with other threads what they left could not be resumed.
    """
    for group, key in (("", "cpus_per_task"), ("ray", "num_cpus")):
        asked = launcher if not group else (launcher.get(group) or {}).get("remote") or {}
        if asked.get(key):
            return max(1, int(asked[key])), None
    if "n_jobs" not in launcher:
        return None, 1
    from dpsgd.experiment.threads import threads_each  # noqa: PLC0415

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    jobs = int(launcher["n_jobs"])
    workers = max(1, jobs if jobs > 0 else (cores or 1) + 1 + jobs)
    return threads_each(workers), min(workers, cells)
