"""From the parameters of a sweep to the overrides of every job: a product, with exceptions."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.config_loader import ConfigLoader
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override

PARAMS = "params"
"""In an exception: what holds for the jobs that its other keys describe."""


def override_lists(
    params: Mapping[str, Any] | None, where: Sequence[Mapping[str, Any]] | None,
    arguments: Sequence[str], loader: ConfigLoader,
) -> list[list[str]]:  # fmt: skip
    """Return the overrides of every job, each list once, in the order of Hydra's basic sweeper.

    ``params`` maps keys to values to sweep over, ``arguments`` are those of the command line, which
    replace them key by key. Each exception in ``where`` names keys with the values that it speaks
    of, and under ``params`` what these jobs get instead: other values, or null for the key's own
    default. What the command line says of a key holds for every job.

        - clip: automatic,nsgd
          params: {clip.norm: null}
    """
    parser = OverridesParser.create(config_loader=loader)
    given = parser.parse_overrides(list(arguments))
    swept = parser.parse_overrides([f"{key}={value}" for key, value in (params or {}).items()])
    named = {override.get_key_element() for override in given}
    exceptions = [_Exception.of(entry, named, parser) for entry in where or ()]
    jobs = BasicSweeper.split_arguments([*swept, *given], None)[0]
    expanded = (job for overrides in jobs for job in _expanded(overrides, exceptions))
    return [list(job) for job in dict.fromkeys(tuple(job) for job in expanded)]


class _Exception:
    """The values of keys that it speaks of, and the overrides that take the place of others."""

    def __init__(
        self, values: Mapping[str, Sequence[str]], instead: Mapping[str, Sequence[str] | None]
    ) -> None:
        self._values, self._instead = values, instead

    @classmethod
    def of(cls, entry: Mapping[str, Any], named: set[str], parser: OverridesParser) -> _Exception:
        """Read an entry of ``where``; keys ``named`` on the command line are left alone."""

        def lines(key: str, value: Any) -> list[str]:
            return _lines(parser.parse_override(f"{key}={value}"))

        values = {key: lines(key, value) for key, value in entry.items() if key != PARAMS}
        instead = {
            key: None if value is None else lines(key, value)
            for key, value in entry[PARAMS].items()
            if key not in named
        }
        return cls(values, instead)

    def holds_for(self, job: Mapping[str, str]) -> bool:
        return all(job.get(key) in values for key, values in self._values.items())

    def replace(self, job: Mapping[str, str]) -> list[dict[str, str]]:
        kept = {key: line for key, line in job.items() if key not in self._instead}
        given = [(key, lines) for key, lines in self._instead.items() if lines is not None]
        keys = [key for key, _ in given]
        return [
            kept | dict(zip(keys, chosen, strict=True))
            for chosen in itertools.product(*(lines for _, lines in given))
        ]


def _expanded(overrides: Sequence[str], exceptions: Sequence[_Exception]) -> list[list[str]]:
    jobs = [{line.partition("=")[0]: line for line in overrides}]
    for exception in exceptions:
        jobs = [
            replaced
            for job in jobs
            for replaced in (exception.replace(job) if exception.holds_for(job) else [job])
        ]
    return [list(job.values()) for job in jobs]


def _lines(override: Override) -> list[str]:
    key = override.get_key_element()
    if override.is_sweep_override():
        return [f"{key}={value}" for value in override.sweep_string_iterator()]
    return [f"{key}={override.get_value_element_as_str()}"]
