"""Many cells at once: each in a child of its own, and what became of them."""
