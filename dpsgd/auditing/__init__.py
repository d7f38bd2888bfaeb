"""What leaked, from whom, and whether a claimed ε can be refuted: scores in, bounds out."""
