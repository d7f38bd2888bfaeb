"""Copies of runs in MLflow: what a run is there, how it gets there, and who carries it.

The run folder is the truth and MLflow a copy: everything here may fail or be slow, and no training
waits for it. What trains talks to a process beside it (``child``, ``serving``, ``following``).
"""
