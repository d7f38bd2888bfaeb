"""Accuracy, calibration and tail metrics by slice, with intervals."""

from dpsgd.metrics.calibration import ece, ece_calibrated
from dpsgd.metrics.table import evaluate

__all__ = ["ece", "ece_calibrated", "evaluate"]
