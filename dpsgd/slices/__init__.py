"""Slices: named, declared subsets of examples."""

from dpsgd.slices.kind import SliceKind
from dpsgd.slices.table import SliceSet, SliceTable

__all__ = ["SliceKind", "SliceSet", "SliceTable"]
