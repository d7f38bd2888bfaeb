"""Predictions of a model on a split."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

CHUNK = 4096


def probabilities(model: nn.Module, inputs: Tensor, device: str) -> np.ndarray:
    """Return class probabilities ``[n, classes]`` float32; the model's mode is left as it was."""
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            parts = [
                torch.softmax(model(chunk.to(device)).float(), dim=1).cpu()
                for chunk in inputs.split(CHUNK)
            ]
    finally:
        model.train(was_training)
    return torch.cat(parts).numpy()
