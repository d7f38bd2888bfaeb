"""Many cells at once: which there are, which are done, each in a child of its own."""
