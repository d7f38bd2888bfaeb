"""From texts to rows of token ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

Level = Literal["bytes", "characters"]

NOTHING = -1
"""The code of a place without a token."""

_UNKNOWN, _PADDING = "unknown", "padding"


def codes_of(text: str, level: Level) -> np.ndarray:
    """Return a text as int64: its UTF-8 bytes, or its Unicode code points."""
    name, dtype = ("utf-8", np.uint8) if level == "bytes" else ("utf-32-le", np.dtype("<u4"))
    return np.frombuffer(text.encode(name, "surrogatepass"), dtype).astype(np.int64)


def windows(
    texts: Sequence[np.ndarray], context: int, stride: int
) -> tuple[np.ndarray, np.ndarray]:
    """Cut each text into windows; return them ``[m, context + 1]`` and each one's text ``[m]``.

    A window holds ``context`` tokens and the one after them, so that every token but a text's first
    is a target once (as often as ``stride`` lets windows overlap); places after the end of a text
    are ``NOTHING``. A text of fewer than two tokens has no window.
    """
    parts = [np.zeros((0, context + 1), dtype=np.int64)]
    counts = np.zeros(len(texts), dtype=np.int64)
    for i, text in enumerate(texts):
        if len(text) < 2:
            continue
        counts[i] = 1 + -(-max(len(text) - 1 - context, 0) // stride)
        padded = np.concatenate([text, np.full(context + 1, NOTHING)])
        starts = np.arange(counts[i]) * stride
        parts.append(sliding_window_view(padded, context + 1)[starts])
    return np.concatenate(parts), np.repeat(np.arange(len(texts)), counts)


def beginnings(texts: Sequence[np.ndarray], context: int) -> np.ndarray:
    """Return the first ``context`` tokens of each text ``[n, context]``, ``NOTHING`` after its
    end.
    """
    rows = np.full((len(texts), context), NOTHING, dtype=np.int64)
    for row, text in zip(rows, texts, strict=True):
        row[: len(text)] = text[:context]
    return rows


@dataclass(frozen=True)
class Alphabet:
    """Which code has which id: known codes in their order, then ``unknown`` if there may be any,
    and padding last.
    """

    codes: np.ndarray
    names: tuple[str, ...]
    unknown: int | None

    @classmethod
    def of_bytes(cls) -> Alphabet:
        """Return the 256 bytes and padding."""
        names = (*(f"0x{byte:02X}" for byte in range(256)), _PADDING)
        return cls(np.arange(256), names, None)

    @classmethod
    def of_characters(cls, codes: np.ndarray) -> Alphabet:
        """Return the characters that occur in ``codes``, unknown and padding."""
        known = np.unique(codes[codes != NOTHING])
        names = (*(chr(code) for code in known.tolist()), _UNKNOWN, _PADDING)
        return cls(known, names, len(known))

    def ids(self, codes: np.ndarray) -> np.ndarray:
        """Return the id of each code, int64."""
        place = np.searchsorted(self.codes, codes)
        if self.unknown is not None:
            known = np.append(self.codes, NOTHING)[place] == codes
            place = np.where(known, place, self.unknown)
        return np.where(codes == NOTHING, len(self.names) - 1, place)
