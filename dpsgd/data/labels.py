"""Classes and owners of records, read from columns."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
import pandas as pd

from dpsgd.data.cells import Cells
from dpsgd.errors import ConfigError, did_you_mean

_SEVERAL = re.compile(r"[;,|]|^[\[({]")
"""What only a list of owners has: it separates them, or opens the list."""


def read_classes(
    cells: Cells, column: str, label_map: Mapping[str, str] | None,
    declared: tuple[str, ...] | None,
) -> tuple[np.ndarray, tuple[str, ...]]:  # fmt: skip
    """Return labels ``[n]`` int64 and the names of the classes.

    The names are the values of ``label_map``, else ``declared``, else the sorted texts of the
    first file. Raises ConfigError, with the row, for a missing label, one that the map does not
    have, and one of a second file that the first one does not have.
    """
    words = cells.texts(column, "data.label", (*(label_map or ()), *(declared or ())))
    for row, word in enumerate(words):
        if word is None:
            raise ConfigError("data.label", column, f"{cells.where(row)} has no label")
        if label_map is not None and word not in label_map:
            why = f"{cells.where(row)} has the label {word!r}, which label_map has not"
            raise ConfigError(
                "data.label_map", ", ".join(label_map), why + did_you_mean(word, label_map)
            )
    names = words if label_map is None else np.array([label_map[w] for w in words], dtype=object)
    n_first = len(cells.frames[0].table)
    seen = set(names[:n_first])
    for row in range(n_first, len(names)):
        if names[row] not in seen:
            why = f"{cells.where(row)} has the label {words[row]!r}, which no training record has"
            hint = f"data.label_map maps texts to classes: {', '.join(sorted(seen))}"
            raise ConfigError("data.label", column, why, hint)
    if label_map is not None:
        classes = tuple(dict.fromkeys(label_map.values()))
    else:
        classes = declared or tuple(sorted(seen, key=_by_size))
    if len(seen) < 2:
        raise ConfigError("data.label", column, f"every record has the label {seen.pop()!r}")
    places = {name: i for i, name in enumerate(classes)}
    return np.array([places[name] for name in names], dtype=np.int64), classes


def read_users(cells: Cells, column: str) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return each record's one owner, ``[n]`` int64, and the sorted names of all owners.

    Raises ConfigError, with the row, for a record without an owner or with more than one: its
    gradient would reach the sum through two units, and neither would be protected.
    """
    words = cells.texts(column, "data.user")
    unowned = pd.isna(words)
    if unowned.any():
        where = cells.where(int(unowned.argmax()))
        why = f"{where} has no user; each record needs exactly one"
        raise ConfigError("data.user", column, why)
    names, users = np.unique(words.astype(np.str_), return_inverse=True)
    for i, name in enumerate(names):
        if _SEVERAL.search(name):
            where = cells.where(int((users == i).argmax()))
            why = f"{where} has {str(name)!r}, more than one user; a record needs exactly one"
            hint = "a name with ; , | in it, or [ ( { in front, is taken for a list: rename it"
            raise ConfigError("data.user", column, why, hint)
    return users.astype(np.int64), tuple(map(str, names))


def _by_size(name: str) -> tuple[float, str]:
    """Sort 2 before 10, and numbers before words."""
    return (float(name) if name.isdecimal() else float("inf"), name)
