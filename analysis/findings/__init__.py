"""Sentences that the cells carry: each a test with its interval, corrected for how many there are."""
