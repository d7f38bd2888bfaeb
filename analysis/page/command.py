"""The command that trains a cell again, from its ``config.yaml``."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from analysis import schema

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast where it is built in
_NOT_OF_THE_RESULT = ("runs_dir", "tracker", "hydra", "sweep", "device")
_PLAIN = re.compile(r"[A-Za-z_][\w./-]*|[+-]?\d+(\.\d+)?e[+-]?\d+")
_WORDS = ("true", "false", "null", "inf", "nan", "yes", "no", "on", "off")


def command(folder: Path) -> list[str] | None:
    """Return the words of the command, quoted for a shell; None without a readable config.

    Every setting is named, so that it holds whatever the defaults are; where runs are kept and
    tracked, and on which device, is left to whoever runs it.
    """
    try:
        config = yaml.load((folder / schema.CONFIG_FILE).read_text(encoding="utf-8"), _LOADER)  # noqa: S506
    except (OSError, ValueError, yaml.YAMLError):
        return None
    if not isinstance(config, dict):
        return None
    return ["python", "-m", "dpsgd.run", *(in_shell(word) for word in overrides(config))]


def overrides(config: Mapping[str, Any]) -> Iterator[str]:
    """Yield every setting as a Hydra override, choices of parts first."""
    kept = {key: value for key, value in config.items() if key not in _NOT_OF_THE_RESULT}
    groups = {key: value for key, value in kept.items() if isinstance(value, Mapping)}
    for group, part in groups.items():
        if "name" in part:
            yield f"{group}={text(part['name'])}"
    for key, value in kept.items():
        if key not in groups:
            yield f"{key}={text(value)}"
    for group, part in groups.items():
        yield from _of_part(group, part)


def in_shell(word: str) -> str:
    """Return a word quoted for a shell, in double quotes where that is easier to read."""
    if "'" in word and not re.search(r'["$`\\!]', word):
        return f'"{word}"'
    return shlex.quote(word)


def text(value: Any) -> str:
    """Return a value in Hydra's grammar; words that could be read otherwise are quoted."""
    if isinstance(value, list):
        return f"[{','.join(text(entry) for entry in value)}]"
    if isinstance(value, Mapping):
        return f"{{{','.join(f'{text(key)}:{text(entry)}' for key, entry in value.items())}}}"
    if isinstance(value, str):
        plain = _PLAIN.fullmatch(value) and value.lower() not in _WORDS
        return value if plain else _quoted(value)
    return {"None": "null", "True": "true", "False": "false"}.get(str(value), str(value))


def _of_part(place: str, part: Mapping[str, Any]) -> Iterator[str]:
    """Yield the settings of a part; those of parts within it are added where it lacks them."""
    inner = place.count(".") > 0
    for key, value in part.items():
        if not inner and key in ("name", "_target_"):
            continue
        if isinstance(value, Mapping) and value:
            yield from _of_part(f"{place}.{key}", value)
        else:
            yield f"{'++' if inner else ''}{place}.{key}={text(value)}"


def _quoted(value: str) -> str:
    r"""Return ``'value'``: in Hydra a quote within is ``\'``, and backslashes before one double."""
    escaped = re.sub(r"(\\*)('|$)", lambda at: at[1] * 2 + ("\\'" if at[2] else ""), value)
    return f"'{escaped}'"
