"""Checkpoints inside a cell, and how a run that was ended early goes on."""

from dpsgd.experiment.resume.attempt import Attempt, attempt_of
from dpsgd.experiment.resume.generations import CHECKPOINT_FILES, Generations
from dpsgd.experiment.resume.interrupts import Interrupts, interruptible
from dpsgd.experiment.resume.keeping import Checkpoints

__all__ = [
    "CHECKPOINT_FILES",
    "Attempt",
    "Checkpoints",
    "Generations",
    "Interrupts",
    "attempt_of",
    "interruptible",
]
