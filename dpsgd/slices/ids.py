"""Slices that are lists of examples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from dpsgd.data.bundle import Bundle, Split
from dpsgd.errors import ConfigError


@dataclass(frozen=True)
class Ids:
    """One slice a list of example ids, or a file of text with one id a line (UTF-8).

    Ids are compared with ``Split.example`` as text. A file is read once, when the settings are:
    its ids take the place of its path, so that a changed list is another run, and a file that moved
    is not. A path is relative to the working directory.
    """

    lists: Mapping[str, str | tuple[int | str, ...]]
    kind: ClassVar[str] = "ids"

    def __post_init__(self) -> None:
        if not self.lists:
            raise ConfigError("lists", "{}", "needs a list, such as {hard: [17, 230]}")
        read = {name: _ids(f"lists.{name}", ids) for name, ids in self.lists.items()}
        object.__setattr__(self, "lists", read)

    def assign(self, split: Split, bundle: Bundle) -> tuple[tuple[str, ...], np.ndarray]:
        """Return the names of the lists and membership; lists may overlap.

        Raises ConfigError for an id that is in no split.
        """
        splits = (bundle.train, bundle.validation, bundle.test)
        known = {str(example) for part in splits for example in part.example.tolist()}
        for name, ids in self.lists.items():
            strange = next((one for one in ids if one not in known), None)
            if strange is not None:
                raise ConfigError(f"lists.{name}", strange, "is the id of no example in any split")
        examples = [str(example) for example in split.example.tolist()]
        member = [
            np.array([example in chosen for example in examples], dtype=bool)
            for chosen in map(set, self.lists.values())
        ]
        return tuple(self.lists), np.stack(member, axis=1)

    def headings(self, bundle: Bundle) -> tuple[str, ...]:
        """Return the name of every list, for lists may overlap."""
        return tuple(self.lists)


def _ids(key: str, ids: str | tuple[int | str, ...]) -> tuple[str, ...]:
    if isinstance(ids, str):
        found = _lines(key, Path(ids).expanduser())
    else:
        found = [str(one) for one in ids]
    if not found:
        raise ConfigError(key, ids, "needs an id")
    return tuple(dict.fromkeys(found))


def _lines(key: str, file: Path) -> list[str]:
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise ConfigError(key, file, f"cannot be read as a list of ids: {reason}") from None
    return [line.strip() for line in text.splitlines() if line.strip()]
