import numpy as np
import pytest
from sklearn import metrics as sk

from analysis import schema
from dpsgd.metrics import ece, ece_calibrated, evaluate
from dpsgd.metrics.intervals import percentiles, resample_weights, wilson
from dpsgd.slices import SliceTable


def test_a_confidence_of_one_is_in_the_last_bin():
    assert ece(np.array([0.95, 1.0]), np.array([1.0, 0.0]), bins=10) == pytest.approx(0.475)


def test_ece_equals_a_slow_loop():
    rng = np.random.default_rng(0)
    confidence, correct = rng.random(300), (rng.random(300) < 0.5).astype(float)
    total = 0.0
    for b in range(15):
        inside = (confidence >= b / 15) & ((confidence < (b + 1) / 15) | (b == 14))
        if inside.any():
            total += abs(correct[inside].mean() - confidence[inside].mean()) * inside.mean()
    assert ece(confidence, correct) == pytest.approx(total)


@pytest.mark.parametrize(("n", "expected"), [(30, 0.147), (100, 0.085), (1000, 0.028)])
def test_a_calibrated_model_shows_an_ece_that_falls_with_n(n, expected):
    rng = np.random.default_rng(0)
    means = [ece_calibrated(rng.uniform(0.53, 1, n), rng).mean() for _ in range(20)]
    assert np.mean(means) == pytest.approx(expected, rel=0.06)


def _rows(n=200, k=4):
    rng = np.random.default_rng(1)
    logits = rng.normal(size=(n, k))
    probabilities = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    labels = rng.integers(0, k - 1, n)  # the last class is absent
    membership = np.column_stack([np.ones(n, bool), labels[:, None] == np.arange(k)])
    keys = (("all", "all"), *(("label", str(i)) for i in range(k)))
    return probabilities, labels, SliceTable(keys, membership)


def _evaluate(rows, **changes):
    options = {"step": 5, "split": "test", "release": "public", "min_n": 10} | changes
    return evaluate(*rows, (2,), generator=np.random.default_rng(0), **options)


def _get(table, kind, name, metric):
    chosen = (table["slice_kind"] == kind) & (table["slice"] == name) & (table["metric"] == metric)
    (row,) = table[chosen].to_dict("records")
    return row


def test_values_equal_scikit_learn():
    rows = _rows()
    probabilities, labels, _ = rows
    table = _evaluate(rows)
    predicted = probabilities.argmax(1)
    value = lambda metric: _get(table, "all", "all", metric)["value"]  # noqa: E731
    assert value("accuracy") == pytest.approx(sk.accuracy_score(labels, predicted))
    recall = sk.recall_score(labels, predicted, average="macro", labels=[0, 1, 2], zero_division=0)
    assert value("recall") == pytest.approx(recall) == pytest.approx(value("macro_accuracy"))
    assert value("nll") == pytest.approx(sk.log_loss(labels, probabilities, labels=range(4)))
    one_hot = np.eye(4)[labels]
    assert value("brier") == pytest.approx(((probabilities - one_hot) ** 2).sum(1).mean())
    by_class = [(predicted[labels == c] == c).mean() for c in range(3)]
    assert value("tail_worst") == pytest.approx(min([*by_class, value("accuracy")]))
    assert value("tail_band") == pytest.approx(by_class[2])


def test_an_absent_class_is_no_accuracy_at_all():
    table = _evaluate(_rows())
    for metric in schema.METRICS_BY_SLICE:
        row = _get(table, "label", "3", metric)
        assert row["n"] == 0
        assert np.isnan([row["value"], row["lo"], row["hi"]]).all()


def test_every_value_is_inside_its_interval_and_names_its_n():
    table = _evaluate(_rows())
    table = table[table["value"].notna() & ~table["metric"].isin(["ece", "tail_worst"])]
    assert (table["lo"] <= table["value"] + 1e-9).all()
    assert (table["value"] <= table["hi"] + 1e-9).all()
    assert (table["n"] > 0).all()


def test_columns_and_dtypes_are_the_schema():
    table = _evaluate(_rows())
    assert list(table.columns) == list(schema.EVALUATION)
    assert set(table["metric"]) == {*schema.METRICS_BY_SLICE, *schema.METRICS_OVERALL}


def test_small_slices_have_no_ece():
    rows = _rows(n=6)
    row = _get(_evaluate(rows), "all", "all", "ece")
    assert np.isnan(row["value"])
    assert row["n"] == 6


def test_the_same_generator_gives_the_same_rows():
    assert _evaluate(_rows()).equals(_evaluate(_rows()))


def test_probabilities_that_are_not_finite_are_an_error():
    probabilities, labels, slices = _rows()
    probabilities[3, 0] = np.nan
    with pytest.raises(ValueError, match="1 of 200 rows"):
        _evaluate((probabilities, labels, slices))


def test_intervals_cover():
    rng = np.random.default_rng(0)
    covered = np.zeros(2)
    for _ in range(200):
        correct = (rng.random(60) < 0.8).astype(float)
        low, high = wilson(int(correct.sum()), 60)
        covered[0] += low <= 0.8 <= high
        low, high = percentiles(resample_weights(60, rng) @ correct / 60)
        covered[1] += low <= 0.8 <= high
    assert (covered / 200 >= 0.9).all()
