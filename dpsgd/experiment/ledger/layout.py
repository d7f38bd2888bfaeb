"""Markdown that also reads as plain text: no line of prose above 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

WIDTH = 80


def paragraph(text: str) -> str:
    """Return ``text`` folded to ``WIDTH`` columns."""
    return _folded(text, "")


def bullets(lines: Iterable[str]) -> str:
    """Return a list, each item folded."""
    return "\n".join(_folded(f"- {line}", "  ") for line in lines)


def quote(text: str) -> str:
    """Return ``text`` as a block that stands out."""
    return textwrap.fill(
        text, WIDTH, initial_indent="> ", subsequent_indent="> ", break_long_words=False,
        break_on_hyphens=False,
    )  # fmt: skip


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table whose columns are as wide as their longest entry."""
    cells = [list(columns), *(list(row) for row in rows)]
    cells = [[word.replace("|", "\\|") for word in row] for row in cells]
    widths = [max(3, *(len(row[i]) for row in cells)) for i in range(len(columns))]
    lines = ["| " + " | ".join(w.ljust(n) for w, n in zip(r, widths, strict=True)) + " |"
             for r in cells]  # fmt: skip
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([lines[0], rule, *lines[1:]])


def _folded(text: str, indent: str) -> str:
    return textwrap.fill(
        text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
