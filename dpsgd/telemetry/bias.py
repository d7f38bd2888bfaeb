"""How far the clipped mean is from the raw one, and how loud the noise is: in all, and by layer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor

from analysis import schema
from dpsgd.telemetry.recorder import Bias
from dpsgd.training.step import Step


def compare(result: Step, raw_sum: Mapping[str, Tensor], expected_units: float) -> Bias:
    """Return cosine and relative length of the clipped mean against the raw mean, the noise's norm
    and the signal-to-noise ratio ‖clipped mean‖/‖noise‖; what is 0/0 is left out.

    Of all parameters (``all``), and then of every layer, which is a module with parameters of its
    own, as in ``clip_groups``; of a model with one layer only of all.
    """
    layers: dict[str, list[str]] = {}
    for name in result.mean:
        layers.setdefault(name.rpartition(".")[0] or "(model)", []).append(name)
    groups = {schema.GROUP_ALL: list(result.mean)} | (layers if len(layers) > 1 else {})
    return {
        group: _compared(
            _joined(result.mean, names),
            _joined(raw_sum, names) / expected_units,
            None if result.noise is None else _joined(result.noise, names),
        )
        for group, names in groups.items()
    }


def _joined(values: Mapping[str, Tensor], names: Iterable[str]) -> Tensor:
    parts: Sequence[Tensor] = [values[name].flatten() for name in names]
    return torch.cat(list(parts)).double()


def _compared(clipped: Tensor, raw: Tensor, noise: Tensor | None) -> dict[str, float]:
    length, raw_length = float(clipped.norm()), float(raw.norm())
    values: dict[str, float] = {}
    if length > 0 and raw_length > 0:
        values["cosine"] = float(clipped @ raw) / (length * raw_length)
        values["relative_length"] = length / raw_length
    if noise is not None:
        loud = float(noise.norm())
        values["noise_norm"] = loud
        values["snr"] = length / loud
    return values
