"""Hand composed configurations to a launcher's jobs, which would compose each of them again."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from omegaconf import DictConfig, OmegaConf, open_dict, read_write


class Words(str):
    """The overrides of one job as one word, with the configuration that they compose to.

    Launchers hand a job's words to Hydra's loader and to nothing else, so that what a job needs
    to know can travel with them, pickled where jobs are.
    """

    config: Mapping[str, Any]
    overrides: Sequence[str]
    job: str

    @classmethod
    def of(cls, overrides: Sequence[str], config: Mapping[str, Any], job: str) -> Words:
        """Return the words of job ``job``."""
        words = cls(" ".join(overrides))
        words.config, words.overrides, words.job = config, list(overrides), job
        return words


class Composed:
    """Stands where Hydra's loader does, for jobs whose only override is a :class:`Words`."""

    def load_sweep_config(
        self, master_config: DictConfig, sweep_overrides: list[str]
    ) -> DictConfig:
        """Return the configuration of a job: what travelled with its words, and Hydra's own."""
        (words,) = sweep_overrides
        if not isinstance(words, Words):
            raise TypeError(f"{words!r} came without its configuration")
        hydra = copy.deepcopy(master_config._get_node("hydra"))
        config = OmegaConf.create({"hydra": hydra, **words.config})
        OmegaConf.set_struct(config, True)
        OmegaConf.copy_cache(from_config=master_config, to_config=config)
        with read_write(config.hydra), open_dict(config.hydra):
            config.hydra.overrides.task = words.overrides
            config.hydra.job.override_dirname = ",".join(words.overrides)
            config.hydra.sweep.subdir = words.job
            # The cell's own folder has its configuration.
            config.hydra.output_subdir = None
        return config
