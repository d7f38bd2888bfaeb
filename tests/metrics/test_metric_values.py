from __future__ import annotations

import numpy as np
import pytest
from planted_predictions import by_label, evaluated, predictions, row, value
from sklearn.metrics import accuracy_score, balanced_accuracy_score, log_loss, recall_score

from dpsgd.metrics import ece

CLASSES, TAIL = 5, (3, 4)


@pytest.fixture(scope="module", params=[np.float32, np.float64])
def planted(request):
    probabilities, labels = predictions(240, CLASSES, seed=2)
    # As rare as a tail is.
    keep = (labels != 4) | (np.arange(240) % 4 == 0)
    probabilities, labels = probabilities[keep].astype(request.param), labels[keep]
    table = by_label(labels, CLASSES, TAIL)
    frame = evaluated(probabilities, labels, tail=TAIL)
    return probabilities, labels, table, frame


def _slices(table):
    return [(*key, table.membership[:, i]) for i, key in enumerate(table.keys)]


def test_accuracy_is_that_of_scikit_learn(planted):
    probabilities, labels, table, frame = planted
    for kind, name, rows in _slices(table):
        known = accuracy_score(labels[rows], probabilities[rows].argmax(1))
        assert value(frame, "accuracy", kind, name) == pytest.approx(known)


def test_recall_is_that_of_scikit_learn_over_the_classes_present(planted):
    probabilities, labels, table, frame = planted
    for kind, name, rows in _slices(table):
        present = np.unique(labels[rows])
        known = recall_score(
            labels[rows], probabilities[rows].argmax(1), labels=present, average="macro"
        )
        assert value(frame, "recall", kind, name) == pytest.approx(known)


def test_recall_of_a_label_is_the_recall_of_that_class_in_the_whole_split(planted):
    probabilities, labels, _, frame = planted
    known = recall_score(labels, probabilities.argmax(1), average=None)
    for k in range(CLASSES):
        assert value(frame, "recall", "label", str(k)) == pytest.approx(known[k])


def test_the_overall_figures_are_those_of_scikit_learn(planted):
    probabilities, labels, _, frame = planted
    predicted = probabilities.argmax(1)
    recalls = recall_score(labels, predicted, average=None)
    assert value(frame, "macro_accuracy") == pytest.approx(
        balanced_accuracy_score(labels, predicted)
    )
    assert value(frame, "tail_band") == pytest.approx(recalls[list(TAIL)].mean())


def test_macro_accuracy_weighs_a_rare_class_like_any_other():
    labels = np.repeat([0, 1], [90, 10])
    frame = evaluated(np.eye(2)[np.zeros(100, dtype=int)], labels)
    assert value(frame, "accuracy") == pytest.approx(0.9)
    assert value(frame, "macro_accuracy") == pytest.approx(0.5)


def test_nll_is_the_log_loss_of_scikit_learn(planted):
    probabilities, labels, table, frame = planted
    as_double = probabilities.astype(np.float64)
    as_double /= as_double.sum(1, keepdims=True)
    for kind, name, rows in _slices(table):
        known = log_loss(labels[rows], as_double[rows], labels=range(CLASSES))
        assert value(frame, "nll", kind, name) == pytest.approx(known, rel=1e-5)


def test_a_probability_of_zero_costs_a_finite_loss():
    labels = np.array([0, 1] * 5)
    frame = evaluated(np.eye(2)[1 - labels], labels)
    assert value(frame, "nll") == pytest.approx(-np.log(1e-12))
    assert value(frame, "brier") == 2.0


def test_brier_is_the_sum_of_squares_over_all_classes(planted):
    probabilities, labels, table, frame = planted
    for kind, name, rows in _slices(table):
        known = [
            sum((float(p[k]) - (k == label)) ** 2 for k in range(CLASSES))
            for p, label in zip(probabilities[rows], labels[rows], strict=True)
        ]
        assert value(frame, "brier", kind, name) == pytest.approx(np.mean(known))


def test_ece_is_that_of_the_slice_alone(planted):
    probabilities, labels, table, frame = planted
    confidence = probabilities.astype(np.float64).max(1)
    correct = probabilities.argmax(1) == labels
    for kind, name, rows in _slices(table):
        assert value(frame, "ece", kind, name) == pytest.approx(
            ece(confidence[rows], correct[rows])
        )


def test_sure_and_wrong_is_an_ece_of_one():
    labels = np.array([0, 1] * 5)
    frame = evaluated(np.eye(2)[1 - labels], labels)
    assert value(frame, "ece") == 1.0
    assert value(frame, "ece_calibrated") == 0.0


def test_a_calibrated_model_lies_within_its_null():
    generator = np.random.default_rng(0)
    inside = 0
    for trial in range(100):
        sure = generator.uniform(0.5, 1, size=200)
        probabilities = np.stack([sure, 1 - sure], axis=1)
        labels = (generator.random(200) > sure).astype(np.int64)
        frame = evaluated(probabilities, labels, seed=trial)
        null = row(frame, "ece_calibrated")
        inside += null["lo"] <= value(frame, "ece") <= null["hi"]
    assert inside >= 90


def test_the_worst_slice_is_the_lowest_accuracy_of_those_large_enough(planted):
    probabilities, labels, _table, _ = planted
    for min_n in (1, 10, 20, 50, 60):
        frame = evaluated(probabilities, labels, tail=TAIL, min_n=min_n)
        large = frame[frame["metric"].eq("accuracy") & (frame["n"] >= min_n)]
        worst = row(frame, "tail_worst")
        assert worst["value"] == pytest.approx(large["value"].min())
        assert worst["n"] in set(large["n"][np.isclose(large["value"], large["value"].min())])


def test_a_tiny_slice_cannot_be_the_worst():
    labels = np.repeat([0, 1], [50, 3])
    frame = evaluated(np.eye(2)[np.zeros(53, dtype=int)], labels, min_n=4)
    assert value(frame, "accuracy", "label", "1") == 0.0
    assert value(frame, "tail_worst") == pytest.approx(50 / 53)
    assert value(evaluated(np.eye(2)[np.zeros(53, dtype=int)], labels, min_n=3), "tail_worst") == 0


def test_with_no_slice_large_enough_there_is_no_worst():
    worst = row(evaluated(*predictions(20, 3), min_n=21), "tail_worst")
    assert worst[["value", "lo", "hi"]].isna().all()
    assert worst["n"] == 0
