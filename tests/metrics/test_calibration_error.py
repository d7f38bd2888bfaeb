from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from dpsgd.metrics import ece, ece_calibrated


def _slow_ece(confidence, correct, bins):
    """Equation 3 of Guo et al. word by word, with 0 in the first bin."""
    total = 0.0
    for b in range(bins):
        inside = [
            i
            for i, c in enumerate(confidence)
            if b / bins < c <= (b + 1) / bins or (b == 0 and c == 0)
        ]
        if inside:
            accuracy = sum(float(correct[i]) for i in inside) / len(inside)
            mean = sum(float(confidence[i]) for i in inside) / len(inside)
            total += len(inside) / len(confidence) * abs(accuracy - mean)
    return total


def test_full_confidence_falls_into_the_last_bin():
    assert ece(np.array([0.95, 1.0]), np.array([True, False]), bins=10) == 0.475


@pytest.mark.parametrize("bins", [1, 2, 10, 15])
@pytest.mark.parametrize("edge", [0.0, 1.0])
def test_both_ends_of_the_scale_count(bins, edge):
    assert ece(np.array([edge]), np.array([1.0 - edge]), bins) == 1.0


@pytest.mark.parametrize("bins", [10, 15, 22, 25])  # k/22 · 22 is rounded below k, k/25 · 25 above
def test_an_edge_belongs_to_the_bin_below_it(bins):
    for k in range(1, bins):
        edge, just_below = k / bins, (k - 0.5) / bins
        both = ece(np.array([edge, just_below]), np.array([1.0, 0.0]), bins)
        # One bin: the gaps 1 − edge and −just_below cancel in part. Two bins: they add up.
        assert both == pytest.approx(abs(1 - edge - just_below) / 2), f"edge {k}/{bins}"


@given(
    arrays.arrays(
        np.float64,
        st.integers(1, 40),
        elements=st.one_of(
            st.floats(0, 1), st.integers(0, 15).map(lambda k: k / 15), st.just(0.7), st.just(1.0)
        ),
    ),
    st.integers(1, 20),
    st.integers(0, 2**32 - 1),
)
def test_ece_is_that_of_the_slow_loop(confidence, bins, seed):
    correct = np.random.default_rng(seed).random(len(confidence)) < 0.5
    assert ece(confidence, correct, bins) == pytest.approx(
        _slow_ece(confidence, correct, bins), abs=1e-12
    )


def test_without_examples_there_is_no_ece():
    nothing = np.array([])
    assert np.isnan(ece(nothing, nothing))
    assert np.isnan(ece_calibrated(nothing, np.random.default_rng(0))).all()


@pytest.mark.parametrize(("n", "expected"), [(30, 0.147), (100, 0.085), (1000, 0.028)])
def test_a_calibrated_model_shows_the_known_ece(n, expected):
    # Confidences of a classifier that is right four times in five: Beta(8, 2).
    generator = np.random.default_rng(0)
    found = [
        ece_calibrated(generator.beta(8, 2, size=n), generator, draws=20).mean() for _ in range(600)
    ]
    assert np.mean(found) == pytest.approx(expected, abs=0.0015)


def test_the_null_is_the_ece_of_labels_drawn_from_the_confidences():
    generator = np.random.default_rng(1)
    confidence = generator.beta(3, 1, size=80)
    drawn = [_slow_ece(confidence, generator.random(80) < confidence, 15) for _ in range(800)]
    null = ece_calibrated(confidence, generator, draws=2000)
    assert null.mean() == pytest.approx(np.mean(drawn), rel=0.04)
    assert np.percentile(null, 97.5) == pytest.approx(np.percentile(drawn, 97.5), rel=0.06)


def test_certainty_has_no_calibration_error_by_chance():
    assert not ece_calibrated(np.ones(20), np.random.default_rng(0)).any()
