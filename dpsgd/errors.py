"""The errors that are for people: bad input, privacy that does not hold, a run that another
process has, a file that cannot be written.
"""

from __future__ import annotations

import difflib
import errno
import textwrap
from collections.abc import Iterable

WIDTH = 80


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


class BusyError(RuntimeError):
    """Another process has this run: ``pid`` on ``host``, ``since`` when, as far as it is known.

    Its noise must not be drawn twice for two sums, nor its folder be written by two.
    """

    def __init__(self, folder: str, pid: int | None, host: str | None, since: str | None) -> None:
        self.folder, self.pid, self.host, self.since = folder, pid, host, since
        super().__init__(folder, pid, host, since)  # these rebuild it in another process

    def __str__(self) -> str:
        who = "another process" if self.pid is None else f"process {self.pid} on {self.host}"
        since = f" since {self.since}" if self.since else ""
        return (
            f"{self.folder} is in use: {who} has it{since}. Wait for that one; once it is gone, "
            "the same command goes on"
        )


class UnwritableError(OSError):
    """A file of a run that cannot be written: what, where, and what to do, in one line.

    Made as every OSError is, of number, words and file.
    """

    def __str__(self) -> str:
        full = self.errno in (errno.ENOSPC, errno.EDQUOT)
        todo = "make room there" if full else "choose a runs_dir that can be written to"
        return (
            f"{self.filename}: cannot be written: {self.strerror}. Finished runs are kept; "
            f"{todo}, then give the same command again"
        )


def did_you_mean(word: str, options: Iterable[str]) -> str:
    """Return `` (did you mean 'x'?)``, or an empty string if nothing is close."""
    close = difflib.get_close_matches(word, list(options), n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""


def folded(message: str, width: int = WIDTH) -> str:
    """Return a message for a terminal: its long lines broken between words, but for those that
    begin with spaces, which are to be copied.
    """
    lines: list[str] = []
    for line in message.splitlines():
        if len(line) <= width or line.startswith("  "):
            lines.append(line)
            continue
        lines += textwrap.wrap(line, width, subsequent_indent="  ", break_long_words=False,
                               break_on_hyphens=False)  # fmt: skip
    return "\n".join(lines)


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "null" if value is None else str(value)
