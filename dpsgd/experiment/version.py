"""The version of what a run computes. A file of its own, which takes no time to import."""

RESULT_VERSION = 7
"""Raised whenever the same configuration would train to another result."""
