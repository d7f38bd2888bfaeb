"""Training: one pure step, the loop around it, evaluation, the optimizer."""
