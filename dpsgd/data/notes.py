"""Words for what a data set's notes say of its statistics."""

from __future__ import annotations

COMPUTED = "computed from private training data, not covered by ε"
"""How a note ends that names statistics of the training split."""

COUNTED = "counts of the data, not covered by ε"
"""How a note ends that counts records."""

OVERLAPPING = "windows overlap: a token is in several records, and may be in two splits"
"""What is held out is then also in training."""
