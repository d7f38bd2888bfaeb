from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch

from dpsgd.telemetry.bias import compare

SHAPES = {"first.weight": (4, 3), "first.bias": (4,), "deep.last.weight": (2, 4)}
UNITS = 5.0


def _values(seed):
    generator = torch.Generator().manual_seed(seed)
    return {name: torch.randn(shape, generator=generator) for name, shape in SHAPES.items()}


def _compared(mean, raw, noise):
    return compare(SimpleNamespace(mean=mean, noise=noise), raw, UNITS)


def test_every_layer_is_compared_by_itself_and_all_of_them_together():
    found = _compared(_values(0), _values(1), _values(2))
    assert list(found) == ["all", "first", "deep.last"]
    for group, names in {"all": SHAPES, "deep.last": ["deep.last.weight"]}.items():
        clipped, raw, noise = (
            torch.cat([values[name].flatten() for name in names]).double()
            for values in (_values(0), _values(1), _values(2))
        )
        assert found[group]["cosine"] == pytest.approx(
            float(torch.cosine_similarity(clipped, raw, dim=0))
        )
        length = float(clipped.norm())
        assert found[group]["relative_length"] == pytest.approx(length / float(raw.norm()) * UNITS)
        assert found[group]["snr"] == pytest.approx(length / float(noise.norm()))


def test_squared_noise_of_the_layers_adds_up_to_that_of_all():
    found = _compared(_values(0), _values(1), _values(2))
    layers = [found[group]["noise_norm"] ** 2 for group in ("first", "deep.last")]
    assert math.sqrt(sum(layers)) == pytest.approx(found["all"]["noise_norm"])


def test_a_layer_without_a_gradient_has_no_direction():
    raw = _values(1) | {"deep.last.weight": torch.zeros(2, 4)}
    mean = _values(0) | {"deep.last.weight": torch.zeros(2, 4)}
    assert set(_compared(mean, raw, _values(2))["deep.last"]) == {"noise_norm", "snr"}


def test_a_model_of_one_layer_has_no_layers_of_its_own():
    one = {"weight": torch.ones(3)}
    assert list(_compared(one, one, None)) == ["all"]
