"""What a kind of slice is."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np

from dpsgd.data.bundle import Bundle, Split


@runtime_checkable
class SliceKind(Protocol):
    """Names subsets of examples: a kind (one of ``schema.SLICE_KINDS``) with its slices."""

    @property
    def kind(self) -> str:
        """One of ``schema.SLICE_KINDS``."""
        ...

    def assign(self, split: Split, bundle: Bundle) -> tuple[tuple[str, ...], np.ndarray]:
        """Return slice names ``k`` and boolean membership ``[n, k]`` of a split.

        The names are the same for every split of the bundle. Raises ConfigError, its key counted
        from the kind's own settings, for data that the kind does not fit.
        """
        ...


@runtime_checkable
class Headed(Protocol):
    """A kind whose slices need more than one column in ``predictions.parquet``."""

    def headings(self, bundle: Bundle) -> tuple[str, ...]:
        """Return the column of each slice, in the order of ``assign``."""
        ...
