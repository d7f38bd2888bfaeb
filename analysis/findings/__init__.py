"""Sentences that the cells carry, each with its test, corrected for how many were tried."""
