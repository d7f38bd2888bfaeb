"""Models small enough for an atlas. None of them mixes rows."""
