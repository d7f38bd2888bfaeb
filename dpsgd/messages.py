"""Hydra's errors in the form of our own: key, value and what is allowed on the first line."""

from __future__ import annotations

import re

from hydra.errors import MissingConfigException
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from dpsgd.errors import did_you_mean


def explain(error: BaseException) -> str:
    """Return a message for people of an error that Hydra raised while reading the configuration."""
    if isinstance(error, MissingConfigException) and error.missing_cfg_file:
        group, _, option = str(error.missing_cfg_file).rpartition("/")
        options = [str(o) for o in error.options or []]
        allowed = f"choose one of {', '.join(options)}" if options else "there is no such group"
        return f"{group}={option}: no such option{did_you_mean(option, options)}; {allowed}"
    cause = error.__cause__
    if isinstance(cause, OmegaConfBaseException) and cause.full_key:
        return _unknown_key(str(error), cause)
    found = re.search(r"Could not override '([^']+)'\. No match in the defaults list", str(error))
    several = re.match(r"Ambiguous value for argument '([^']+)'", str(error))
    if several:
        return (
            f"{several[1]}: several values need -m, which trains a cell for each of them: the same "
            "command again, with -m"
        )
    if found:
        return f"{found[1]}: there is no such group or key; see python -m dpsgd.run --help"
    return str(error)


def _unknown_key(message: str, cause: OmegaConfBaseException) -> str:
    key = str(cause.full_key)
    parent = cause.parent_node
    try:
        allowed = [str(name) for name in parent if not str(name).startswith("_")] if parent else []
    except TypeError:
        allowed = []
    name = key.rpartition(".")[2]
    if not allowed or name in allowed:
        return f"{key}: {str(cause).splitlines()[0]}\n{message}"
    elsewhere = _elsewhere(name, cause)
    return (
        f"{key}: no such key{elsewhere or did_you_mean(name, allowed)}; "
        f"allowed are {', '.join(allowed)}"
    )


def _elsewhere(name: str, cause: OmegaConfBaseException) -> str:
    """Say in which group a key of this name is: ``lr`` is ``optim.lr``, ``C`` is ``clip.norm``."""
    node = cause.parent_node
    root = node._get_root() if node is not None else None
    if root is None:
        return ""
    wanted = {"C": "norm", "c": "norm", "sigma": "noise_multiplier"}.get(name, name)
    found = [
        f"{group}.{wanted}"
        for group in root
        if isinstance(root[group], DictConfig) and group != "hydra" and wanted in root[group]
    ]
    if str(cause.full_key) in found:
        return ""
    return f" (did you mean {' or '.join(found)}?)" if found else ""
