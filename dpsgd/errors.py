"""The one error that bad input raises: it names the key, the value and what is allowed."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class ConfigError(ValueError):
    """A setting that cannot be used, found before training starts.

    The first line of ``str(error)`` reads ``key=value: what is allowed``, so that a reader who
    sees only one line can act on it.
    """

    def __init__(self, key: str, value: object, allowed: str, hint: str = "") -> None:
        self.key, self.value, self.allowed, self.hint = key, value, allowed, hint
        first = f"{key}={_shown(value)}: {allowed}" if key else f"{_shown(value)}: {allowed}"
        super().__init__(f"{first}\n{hint}" if hint else first)

    def under(self, prefix: str) -> ConfigError:
        """Return the same error with its key below ``prefix`` (``norm`` becomes ``clip.norm``)."""
        key = f"{prefix}.{self.key}" if prefix and self.key else prefix or self.key
        return ConfigError(key, self.value, self.allowed, self.hint)


class PrivacyError(RuntimeError):
    """A privacy condition does not hold; training must not start, or must not go on."""


def did_you_mean(word: str, options: Iterable[str]) -> str:
    """Return `` (did you mean 'x'?)``, or an empty string if nothing is close."""
    close = difflib.get_close_matches(word, list(options), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "null" if value is None else str(value)
