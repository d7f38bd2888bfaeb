"""Compose the jobs of a sweep: by Hydra once for each choice of options, then by copies."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.config_loader import ConfigLoader
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, OverrideType
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf, flag_override
from omegaconf.errors import OmegaConfBaseException


class Composer:
    """Give the configuration of every job of a sweep as plain data, without Hydra's own part.

    Hydra reads and joins the files of the chosen options, which takes about 150 ms, then sets the
    values of single keys, which takes one or two. The first is done once for each choice, by Hydra;
    the second on a copy, by Hydra's own function. Whatever else a job may ask for, such as adding
    and deleting keys, packages, or Hydra's own settings, is left to Hydra alone, and so is the
    message if a job cannot be composed.
    """

    def __init__(self, loader: ConfigLoader, master: DictConfig) -> None:
        self._loader, self._master = loader, master
        self._parser = OverridesParser.create()
        self._parsed: dict[str, Override] = {}
        self._groups: dict[str, bool] = {}
        self._chosen: dict[tuple[str, ...], _Chosen | None] = {}

    def __call__(self, overrides: Sequence[str]) -> dict[str, Any]:
        """Return the resolved configuration of the job with these overrides.

        Raises what Hydra raises for a job that cannot be composed.
        """
        try:
            found = self._quick([self._override(line) for line in overrides])
        except (HydraException, OmegaConfBaseException):
            found = None  # Hydra will say it better
        return self._by_hydra(overrides) if found is None else found

    def _quick(self, overrides: Sequence[Override]) -> dict[str, Any] | None:
        """Return the configuration from a copy, None if this job must be composed by Hydra."""
        if not isinstance(self._loader, ConfigLoaderImpl) or self._master.hydra.searchpath:
            return None
        if not all(_is_usual(override) for override in overrides):
            return None
        choices = tuple(str(o.input_line) for o in overrides if self._is_choice(o))
        if choices not in self._chosen:
            config = self._loader.load_sweep_config(self._master, list(choices))
            self._chosen[choices] = _Chosen.of(config)
        chosen = self._chosen[choices]
        values = [o for o in overrides if not self._is_choice(o)]
        return None if chosen is None else chosen.with_values(values)

    def _by_hydra(self, overrides: Sequence[str]) -> dict[str, Any]:
        return _plain(_without_hydra(self._loader.load_sweep_config(self._master, list(overrides))))

    def _override(self, line: str) -> Override:
        if line not in self._parsed:
            self._parsed[line] = self._parser.parse_override(line)
        return self._parsed[line]

    def _is_choice(self, override: Override) -> bool:
        """Whether an override chooses an option of a group, as Hydra tells that."""
        if isinstance(override.value(), dict):
            return False
        key = override.key_or_group
        if key not in self._groups:
            repository = self._loader.repository  # pyright: ignore[reportAttributeAccessIssue]
            self._groups[key] = repository.group_exists(key)
        return self._groups[key]


class _Chosen:
    """A configuration of which only values are still to be set, where no key looks at another: a
    value changes only what is below its own root key.
    """

    def __init__(self, config: DictConfig) -> None:
        self._config, self._plain = config, _plain(config)
        self._below: dict[tuple[str, ...], Any] = {}

    @classmethod
    def of(cls, config: DictConfig) -> _Chosen | None:
        """Return what Hydra composed, without Hydra's part; None if some key looks at another."""
        config = _without_hydra(config)
        text = str(OmegaConf.to_container(config, resolve=False))
        return None if "${" in text or OmegaConf.is_readonly(config) else cls(config)

    def with_values(self, values: Sequence[Override]) -> dict[str, Any] | None:
        """Return a copy with these values, set as Hydra sets them; None for a key that is new."""
        by_root: dict[str, list[Override]] = {}
        for override in values:
            by_root.setdefault(override.key_or_group.partition(".")[0], []).append(override)
        if not by_root.keys() <= self._plain.keys():
            return None
        changed = {root: self._root(root, own) for root, own in by_root.items()}
        return copy.deepcopy(self._plain | changed)

    def _root(self, root: str, values: Sequence[Override]) -> Any:
        lines = tuple(str(override.input_line) for override in values)
        if lines not in self._below:
            part = OmegaConf.masked_copy(self._config, root)
            OmegaConf.set_struct(part, True)
            ConfigLoaderImpl._apply_overrides_to_config(list(values), part)
            self._below[lines] = _plain(part)[root]
        return self._below[lines]


def _is_usual(override: Override) -> bool:
    """Whether an override sets one key or chooses one option, and looks at no other key."""
    return (
        override.type == OverrideType.CHANGE
        and override.package is None
        and not override.is_sweep_override()
        and not override.is_hydra_override()
        and "${" not in str(override.input_line)
    )


def _without_hydra(config: DictConfig) -> DictConfig:
    with flag_override(config, ["struct", "readonly"], False):
        config.pop("hydra")
    return config


def _plain(config: DictConfig) -> dict[str, Any]:
    found: Any = OmegaConf.to_container(config, resolve=True)
    return {str(key): value for key, value in found.items()}
