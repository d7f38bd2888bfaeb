"""Accuracy, calibration and tail metrics by slice, with intervals."""

from dpsgd.metrics.calibration import ece, ece_calibrated
from dpsgd.metrics.scores import Scores
from dpsgd.metrics.table import evaluate, evaluate_scores

__all__ = ["Scores", "ece", "ece_calibrated", "evaluate", "evaluate_scores"]
