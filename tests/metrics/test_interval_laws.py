from __future__ import annotations

import numpy as np
import pytest
from planted_predictions import by_label, evaluated, row
from scipy import stats

from analysis import schema
from dpsgd.metrics.intervals import resample_weights, wilson
from dpsgd.slices import SliceTable


def test_wilson_is_that_of_scipy():
    for n in (1, 2, 7, 50, 3000):
        for successes in {0, 1, n // 3, n - 1, n}:
            known = stats.binomtest(successes, n).proportion_ci(0.95, method="wilson")
            assert wilson(successes, n) == pytest.approx((known.low, known.high), abs=1e-12)


def test_wilson_holds_its_own_share_and_stays_in_0_to_1():
    for n in range(1, 60):
        for successes in range(n + 1):
            low, high = wilson(successes, n)
            assert 0 <= low <= successes / n <= high <= 1
            assert low < high


@pytest.mark.parametrize(("successes", "n"), [(0, 0), (3, 2), (-1, 2)])
def test_what_is_no_share_has_no_interval(successes, n):
    with pytest.raises(ValueError, match="no share"):
        wilson(successes, n)


@pytest.mark.parametrize("n", [10, 20, 50, 200])
@pytest.mark.parametrize("share", [0.3, 0.5, 0.8, 0.95])
def test_wilson_covers_the_true_share(n, share):
    chance = stats.binom(n, share).pmf(np.arange(n + 1))
    ends = [wilson(k, n) for k in range(n + 1)]
    holds = [low <= share <= high for low, high in ends]
    assert chance @ np.array(holds) >= 0.9


def test_resampling_draws_n_rows_with_replacement():
    drawn = resample_weights(6, np.random.default_rng(0))
    assert (drawn.sum(1) == 6).all()
    assert (drawn > 1).any()
    # Each row is drawn once on average, with the variance 1 − 1/n of a multinomial count.
    assert drawn.mean(0) == pytest.approx(np.ones(6), abs=0.2)
    assert drawn.var() == pytest.approx(1 - 1 / 6, abs=0.1)


def _confident(generator, n, classes, right):
    """Predictions right with chance ``right[label]``, and surely so; labels in equal numbers."""
    labels = np.arange(n) % classes
    correct = generator.random(n) < np.asarray(right)[labels]
    predicted = np.where(correct, labels, (labels + 1) % classes)
    probabilities = np.full((n, classes), 0.1 / (classes - 1))
    probabilities[np.arange(n), predicted] = 0.9
    return probabilities, labels


def _cover(rows, truth):
    assert all(np.isfinite([r["lo"], r["hi"]]).all() for r in rows)
    return np.mean([r["lo"] <= truth <= r["hi"] for r in rows])


def test_the_intervals_of_an_evaluation_cover_the_truth():
    right = (0.9, 0.8, 0.55)
    mean = float(np.mean(right))
    certain = [right[k] * np.log(1 / 0.9) + (1 - right[k]) * np.log(1 / 0.05) for k in range(3)]
    truth = {
        ("all", "all", "accuracy"): mean,
        ("label", "1", "recall"): right[1],
        ("all", "all", "recall"): mean,
        ("all", "all", "macro_accuracy"): mean,
        ("all", "all", "tail_band"): (right[1] + right[2]) / 2,
        ("all", "all", "nll"): float(np.mean(certain)),
    }
    generator = np.random.default_rng(0)
    found = {key: [] for key in truth}
    table = by_label(np.arange(150) % 3, 3)
    slices = SliceTable((table.keys[0], table.keys[2]), table.membership[:, [0, 2]])
    for trial in range(200):
        probabilities, labels = _confident(generator, 150, 3, right)
        frame = evaluated(probabilities, labels, tail=(1, 2), slices=slices, seed=trial)
        for kind, name, metric in truth:
            found[kind, name, metric].append(row(frame, metric, kind, name))
    for key, expected in truth.items():
        assert _cover(found[key], expected) >= 0.9, key


def test_more_examples_make_narrower_intervals():
    generator = np.random.default_rng(0)
    widths = []
    for n in (60, 240, 960):
        probabilities, labels = _confident(generator, n, 3, (0.9, 0.8, 0.5))
        frame = evaluated(probabilities, labels)
        widths.append((frame["hi"] - frame["lo"]).groupby(frame["metric"]).mean().dropna())
    assert len(widths[0]) == len(schema.METRICS_BY_SLICE) + 2
    assert (widths[0] > widths[1]).all()
    assert (widths[1] > widths[2]).all()


def test_an_interval_is_in_order_and_in_the_range_of_its_metric():
    generator = np.random.default_rng(3)
    probabilities, labels = _confident(generator, 90, 4, (0.9, 0.8, 0.5, 0.0))
    frame = evaluated(probabilities, labels, tail=(3,))
    assert (frame["lo"] <= frame["hi"]).all()
    assert (frame["lo"] >= 0).all()
    shares = frame[~frame["metric"].isin(["nll", "brier"])]
    assert (shares["hi"] <= 1).all()


def test_the_worst_slice_has_the_interval_of_a_minimum():
    # Two slices of equal size and accuracy: the lower of two resampled ones lies below either.
    labels = np.repeat([0, 1, 2], 100)
    correct = np.concatenate([np.tile(np.arange(100) < 70, 2), np.ones(100, bool)])
    predicted = np.where(correct, labels, 2)
    frame = evaluated(np.eye(3)[predicted], labels)
    worst, single = row(frame, "tail_worst"), row(frame, "accuracy", "label", "0")
    assert worst["value"] == 0.7
    assert worst["n"] == 100
    assert worst["lo"] <= 0.7
    assert worst["hi"] < single["hi"]
