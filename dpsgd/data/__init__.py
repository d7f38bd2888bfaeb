"""Data sets, each with splits, a declared tail and a fingerprint."""
