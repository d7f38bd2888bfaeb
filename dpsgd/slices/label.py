"""One slice a class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpsgd.data.bundle import Bundle, Split


@dataclass(frozen=True)
class Label:
    """Every example is in the slice of its label."""

    kind: ClassVar[str] = "label"

    def assign(self, split: Split, bundle: Bundle) -> tuple[tuple[str, ...], np.ndarray]:
        """Return the class names and a one-hot membership."""
        classes = np.arange(len(bundle.classes))
        return bundle.classes, split.labels.numpy()[:, None] == classes
