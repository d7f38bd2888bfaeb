"""Settings beside a row: as they are where they fit, else shortened, with a note below the map."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from analysis import style
from analysis.lettering import one_line, shorten, width

LONGEST = 2.36
"""Inches for the settings of one row."""


class Notes:
    """Numbers the settings that were shortened, equal ones alike, in the order of the rows.

    ``counts`` says how many rows share each ``key=value``: the rarest are shown first.
    """

    def __init__(self, counts: Mapping[str, int]) -> None:
        self._counts = counts
        self._numbers: dict[tuple[str, ...], int] = {}

    def short(self, settings: Sequence[str], besides: str) -> str:
        """Return ``settings`` and ``besides`` in one line of at most ``LONGEST`` inches."""
        words = [one_line(word) for word in settings]
        end = [besides] if besides else []
        whole = ", ".join([*words, *end])
        if not words or _fits(whole):
            return whole
        number = self._numbers.setdefault(tuple(words), len(self._numbers) + 1)
        pairs = zip(settings, words, strict=True)
        by_rarity = sorted(pairs, key=lambda pair: self._counts.get(pair[0], 0))
        return self._cut([word for _, word in by_rarity], ", ".join([f"… [{number}]", *end]))

    def in_full(self) -> tuple[str, ...]:
        """Return the notes, each with its number and every setting."""
        return tuple(f"[{n}] {', '.join(words)}" for words, n in self._numbers.items())

    def _cut(self, words: Sequence[str], end: str) -> str:
        for shown in range(len(words), 0, -1):
            line = f"{', '.join(words[:shown])}, {end}"
            if _fits(line):
                return line
        room = LONGEST - width(f" {end}", style.SMALL)
        return f"{shorten(words[0], room, style.SMALL)} {end}"


def _fits(line: str) -> bool:
    return width(line, style.SMALL) <= LONGEST
