"""One figure a file; each turns a table of cells into a matplotlib Figure."""
