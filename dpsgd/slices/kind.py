"""What a kind of slice is."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from dpsgd.data.bundle import Bundle, Split


class SliceKind(Protocol):
    """Names subsets of examples: a kind (one of ``schema.SLICE_KINDS``) with its slices."""

    @property
    def kind(self) -> str:
        """One of ``schema.SLICE_KINDS``."""
        ...

    def assign(self, split: Split, bundle: Bundle) -> tuple[tuple[str, ...], np.ndarray]:
        """Return slice names ``k`` and boolean membership ``[n, k]`` of a split."""
        ...
