"""Head, middle and tail of the classes, from the shares that the configuration declares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpsgd.data.bundle import Bundle, Split
from dpsgd.errors import ConfigError
from dpsgd.slices.label import check_one_label


@dataclass(frozen=True)
class Rarity:
    """Bands of classes by their declared share: below ``tail_below`` tail, below ``middle_below``
    middle, else head. Declared, so that the bands themselves reveal no count.
    """

    tail_below: float
    middle_below: float
    kind: ClassVar[str] = "rarity"

    def __post_init__(self) -> None:
        order = "needs 0 < tail_below <= middle_below <= 1"
        if not 0 < self.middle_below <= 1:
            raise ConfigError("middle_below", self.middle_below, order)
        if not 0 < self.tail_below <= self.middle_below:
            raise ConfigError("tail_below", self.tail_below, order)

    def assign(self, split: Split, bundle: Bundle) -> tuple[tuple[str, ...], np.ndarray]:
        """Return the bands that any class is in, head first, and their membership.

        Raises ConfigError for data whose records have more than one label.
        """
        check_one_label(bundle, self.kind)
        keep = np.array(bundle.keep)
        tail = keep < self.tail_below
        middle = ~tail & (keep < self.middle_below)
        bands = {"head": ~tail & ~middle, "middle": middle, "tail": tail}
        names = tuple(name for name, classes in bands.items() if classes.any())
        labels = split.labels.numpy()
        return names, np.stack([bands[name][labels] for name in names], axis=1)

    def tail_classes(self, bundle: Bundle) -> tuple[int, ...]:
        """Return the labels of the tail band."""
        return tuple(i for i, share in enumerate(bundle.keep) if share < self.tail_below)
