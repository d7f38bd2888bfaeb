"""How far the clipped mean is from the raw one, and how loud the noise is."""

from __future__ import annotations

import torch
from torch import Tensor

from dpsgd.training.step import Step


def compare(result: Step, raw_sum: dict[str, Tensor], expected_units: float) -> dict[str, float]:
    """Return cosine and relative length of the clipped mean against the raw mean, the noise's norm
    and the signal-to-noise ratio ‖clipped mean‖/‖noise‖; what is 0/0 is left out.
    """
    clipped = torch.cat([v.flatten() for v in result.mean.values()]).double()
    raw = torch.cat([raw_sum[name].flatten() for name in result.mean]).double() / expected_units
    length, raw_length = float(clipped.norm()), float(raw.norm())
    values: dict[str, float] = {}
    if length > 0 and raw_length > 0:
        values["cosine"] = float(clipped @ raw) / (length * raw_length)
        values["relative_length"] = length / raw_length
    if result.noise is not None:
        noise = float(result.noise.vector.double().norm())
        values["noise_norm"] = noise
        values["snr"] = length / noise
    return values
