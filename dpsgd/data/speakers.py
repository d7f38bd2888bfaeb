"""Scripts of plays to a table, which ``data=text`` reads.

text = gzip.open("tinyshakespeare.txt.gz", "rt", encoding="utf-8").read()
speakers_table(text).to_csv("speakers.csv", index=False)
"""

from __future__ import annotations

import re

import pandas as pd


def speakers_table(text: str) -> pd.DataFrame:
    """Return the speeches of a script in their order: columns ``speaker`` and ``text``.

    A speech is a block ``SPEAKER:`` on a line of its own, then lines of text, up to a blank line.
    Commas in a speaker's name are left out, for a name with one would read as several owners.
    Raises ValueError, naming the line, for a block that begins without a speaker.
    """
    speeches: list[tuple[str, str]] = []
    for block in re.finditer(r"(?:.+\n?)+", text):
        heading, _, speech = block.group().strip().partition("\n")
        if not heading.endswith(":"):
            line = text.count("\n", 0, block.start()) + 1
            raise ValueError(f"line {line} begins a block and is no speaker: {heading!r}")
        speeches.append((heading[:-1].replace(",", "").strip(), speech))
    return pd.DataFrame(speeches, columns=["speaker", "text"])
