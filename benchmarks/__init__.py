"""Benchmarks: ratios inside one run, CPU time, one thread."""
