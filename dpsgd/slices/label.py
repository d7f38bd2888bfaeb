"""One slice a class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpsgd.data.bundle import Bundle, Split
from dpsgd.errors import ConfigError


@dataclass(frozen=True)
class Label:
    """Every example is in the slice of its label."""

    kind: ClassVar[str] = "label"

    def assign(self, split: Split, bundle: Bundle) -> tuple[tuple[str, ...], np.ndarray]:
        """Return the class names and a one-hot membership.

        Raises ConfigError for data whose records have more than one label.
        """
        check_one_label(bundle, self.kind)
        classes = np.arange(len(bundle.classes))
        return bundle.classes, split.labels.numpy()[:, None] == classes


def check_one_label(bundle: Bundle, kind: str) -> None:
    """Raise ConfigError unless every record has one label."""
    if bundle.task != "classes":
        raise ConfigError(
            "", kind, f"needs one label a record, and records of {bundle.name} have one a token",
            "choose slices by the columns of the data, or by user",
        )  # fmt: skip
