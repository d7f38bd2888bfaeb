"""Cells from Python: the configuration of the command line, without the command line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.errors import HydraException
from omegaconf import OmegaConf, open_dict
from omegaconf.errors import OmegaConfBaseException

from dpsgd.errors import ConfigError
from dpsgd.experiment.cell import run_cell
from dpsgd.experiment.opened import Run
from dpsgd.experiment.options import config_folder
from dpsgd.experiment.parts import build_part
from dpsgd.experiment.plan import Plan
from dpsgd.experiment.prepared import prepare
from dpsgd.experiment.settings import GROUPS, read_cell
from dpsgd.experiment.threads import torch_threads
from dpsgd.messages import explain


def train(
    settings: Mapping[str, Any],
    on_step: Callable[[int, float | None, float | None], None] | None = None,
    config_dir: str | Path | None = None,
) -> Run:
    """Train the cell that ``settings`` describes, unless it is finished already; return its run.

    ``settings`` holds what one would write on the command line: groups by option
    (``{"clip": "per_layer"}``), keys by their dotted name (``{"clip.norm": 0.5, "seed": 1}``) or
    nested (``{"data": {"keep": 0.1}}``). A part of your own is a mapping with a ``_target_``.
    ``on_step(step, loss, clip fraction)`` is called after every step, with ``release=true`` without
    the loss (None). ``config_dir`` is a folder of
    your own with more options, as ``--config-dir`` of the command line.

    Raises ConfigError for settings that cannot be used, and PrivacyError, before training starts.
    """
    config = resolved(settings, config_dir)
    cell = read_cell(config)

    def progress(plan: Plan) -> Callable[[int, float | None, float | None], None]:
        return on_step or _silent

    with torch_threads(cell.settings.threads):
        outcome = run_cell(prepare(cell), Path(config["runs_dir"]), progress)
    return Run(outcome.folder, outcome.cell, outcome.ledger)


def resolved(settings: Mapping[str, Any], config_dir: str | Path | None = None) -> dict[str, Any]:
    """Return the whole configuration of a cell as plain data. Raises ConfigError."""
    options = {k: v for k, v in settings.items() if _is_option(k, v)}
    changes = {k: v for k, v in settings.items() if k not in options}
    overrides = [f"{_prefix(group)}{group}={option}" for group, option in options.items()]
    if config_dir is not None:
        overrides.append(f"hydra.searchpath=['file://{Path(config_dir).resolve()}']")
    try:
        with initialize_config_dir(str(config_folder("conf")), version_base="1.3"):
            config = compose("config", overrides=overrides)
    except HydraException as error:
        raise _as_config_error(explain(error)) from None
    for key, value in _flat(changes):
        try:
            with open_dict(config):
                OmegaConf.update(config, key, value, merge=False)
        except OmegaConfBaseException as error:
            raise ConfigError(key, value, str(error).splitlines()[0]) from None
    plain: Any = OmegaConf.to_container(config, resolve=True)
    return {str(key): value for key, value in plain.items()}


def part(option: str, **changes: Any) -> Any:
    """Build one configured part: ``part("clip/per_layer", norm=0.5)``.

    Raises ConfigError for an unknown option or key, and for a value without sense.
    """
    group, _, name = option.partition("/")
    return build_part(resolved({group: name})[group] | changes, group)


def _is_option(key: str, value: Any) -> bool:
    return key in (*GROUPS, "experiment", "debug") and isinstance(value, str)


def _prefix(group: str) -> str:
    # The defaults list has no entry for experiments, which are the user's own files.
    return "+" if group == "experiment" else ""


def _flat(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for key, value in values.items():
        name = f"{prefix}.{key}" if prefix else key
        nested = isinstance(value, Mapping) and "_target_" not in value and prefix == ""
        found += _flat(value, name) if nested else [(name, value)]
    return found


def _as_config_error(message: str) -> ConfigError:
    key, _, rest = message.partition("=")
    value, _, allowed = rest.partition(": ")
    return ConfigError(key, value, allowed) if allowed else ConfigError("", message, "")


def _silent(step: int, loss: float | None, clip_fraction: float | None) -> None:
    """Show nothing."""
