"""Sweeps: which cells they have, which of them are done, and who is at one now."""
