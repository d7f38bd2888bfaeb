from __future__ import annotations

import io

import numpy as np
import pandas as pd
import pytest
from planted_predictions import by_label, evaluated, predictions, row, value

from analysis import schema
from dpsgd.metrics import evaluate
from dpsgd.slices import SliceTable

ODD_NAMES = ("NA", "cat (small)", "8$/x", "猫", "nan", "null", "a=b, c", " ")


def test_columns_and_dtypes_are_those_of_the_schema():
    frame = evaluated(*predictions(80, 4), tail=(3,))
    assert list(frame.columns) == list(schema.EVALUATION)
    for name, dtype in schema.EVALUATION.items():
        assert frame[name].dtype == pd.Series(dtype=dtype).dtype, name


def test_every_slice_has_every_metric_once():
    frame = evaluated(*predictions(80, 4), tail=(3,))
    by_slice = frame[~frame["metric"].isin(schema.METRICS_OVERALL)]
    for _, rows in by_slice.groupby(["slice_kind", "slice"]):
        assert sorted(rows["metric"]) == sorted(schema.METRICS_BY_SLICE)
    overall = frame[frame["metric"].isin(schema.METRICS_OVERALL)]
    assert sorted(overall["metric"]) == sorted(schema.METRICS_OVERALL)
    assert set(overall["slice_kind"]) == set(overall["slice"]) == {"all"}
    assert len(frame) == (1 + 4 + 2) * 6 + 3


def test_step_split_and_release_are_as_given():
    frame = evaluated(*predictions(30, 3))
    for name, given in {"step": 7, "split": "test", "release": "public"}.items():
        assert set(frame[name]) == {given}


def test_n_counts_the_examples_of_the_slice():
    probabilities, labels = predictions(90, 3)
    frame = evaluated(probabilities, labels, tail=(2,))
    for k in range(3):
        rows = frame[frame["slice_kind"].eq("label") & frame["slice"].eq(str(k))]
        assert set(rows["n"]) == {(labels == k).sum()}
    assert row(frame, "tail_band")["n"] == (labels == 2).sum()
    assert row(frame, "macro_accuracy")["n"] == 90


def test_slice_names_survive_a_file():
    probabilities, labels = predictions(160, len(ODD_NAMES))
    table = by_label(labels, len(ODD_NAMES))
    keys = (("all", "all"), *(("label", name) for name in ODD_NAMES), *table.keys[-2:])
    frame = evaluated(probabilities, labels, slices=SliceTable(keys, table.membership))
    file = io.BytesIO()
    frame.to_parquet(file, index=False)
    back = pd.read_parquet(io.BytesIO(file.getvalue()))
    for k, name in enumerate(ODD_NAMES):
        assert value(back, "accuracy", "label", name) == pytest.approx(
            (probabilities.argmax(1) == k)[labels == k].mean()
        )


def test_an_absent_class_is_null_and_not_zero():
    probabilities, labels = predictions(90, 4)
    keep = labels != 2
    frame = evaluated(probabilities[keep], labels[keep], tail=(2,))
    absent = frame[frame["slice"].isin(["2", "tail"])]
    assert len(absent) == 2 * len(schema.METRICS_BY_SLICE)
    assert absent[["value", "lo", "hi"]].isna().all(axis=None)
    assert (absent["n"] == 0).all()
    others = [value(frame, "recall", "label", k) for k in "013"]
    assert value(frame, "macro_accuracy") == pytest.approx(np.mean(others))
    assert value(frame, "tail_worst") == pytest.approx(min(others))
    assert row(frame, "tail_band")[["value", "lo", "hi"]].isna().all()
    assert row(frame, "tail_band")["n"] == 0


def test_without_tail_classes_there_is_no_tail_band():
    band = row(evaluated(*predictions(60, 3)), "tail_band")
    assert band[["value", "lo", "hi"]].isna().all()
    assert band["n"] == 0


def test_an_empty_split_is_null_throughout():
    frame = evaluated(np.empty((0, 3)), np.empty(0, dtype=np.int64), tail=(2,))
    assert len(frame) == (1 + 3 + 2) * 6 + 3
    assert frame[["value", "lo", "hi"]].isna().all(axis=None)
    assert (frame["n"] == 0).all()


@pytest.mark.parametrize("correct", [True, False])
def test_one_example_has_a_wide_share_and_no_spread(correct):
    probabilities, labels = predictions(40, 3)
    labels = np.where(labels == 2, 1, labels)
    labels[0] = 2
    probabilities[0] = (0.1, 0.1, 0.8) if correct else (0.8, 0.1, 0.1)
    frame = evaluated(probabilities, labels, min_n=1)
    for metric in ("accuracy", "recall"):
        single = row(frame, metric, "label", "2")
        assert single["value"] == float(correct)
        assert single["n"] == 1
        assert single["hi"] - single["lo"] > 0.7
    nll = row(frame, "nll", "label", "2")
    assert nll["value"] == pytest.approx(-np.log(0.8 if correct else 0.1))
    assert nll[["lo", "hi"]].isna().all()
    # One example drawn again and again would read as certainty.
    assert row(frame, "ece", "label", "2")[["lo", "hi"]].isna().all()


def test_a_slice_below_min_n_has_no_ece_but_its_n():
    probabilities, labels = predictions(200, 3)
    sizes = np.bincount(labels)
    smallest = int(sizes.argmin())
    frame = evaluated(probabilities, labels, min_n=int(sizes[smallest]) + 1)
    for metric in ("ece", "ece_calibrated"):
        hidden = row(frame, metric, "label", str(smallest))
        assert hidden[["value", "lo", "hi"]].isna().all()
        assert hidden["n"] == sizes[smallest]
        assert np.isfinite(value(frame, metric))
    assert np.isfinite(value(frame, "accuracy", "label", str(smallest)))
    at_the_limit = evaluated(probabilities, labels, min_n=int(sizes[smallest]))
    assert np.isfinite(value(at_the_limit, "ece", "label", str(smallest)))


def test_the_same_generator_gives_the_same_rows_and_no_other_randomness_moves():
    probabilities, labels = predictions(120, 4)
    before = np.random.get_state()[1].copy()
    first, again = (evaluated(probabilities, labels, tail=(3,), seed=5) for _ in range(2))
    pd.testing.assert_frame_equal(first, again)
    assert (np.random.get_state()[1] == before).all()
    other = evaluated(probabilities, labels, tail=(3,), seed=6)
    not_null = first["metric"] != "ece_calibrated"
    pd.testing.assert_series_equal(first["value"][not_null], other["value"][not_null])
    assert not first["lo"].equals(other["lo"])


def test_what_is_handed_in_is_left_as_it_was():
    probabilities, labels = predictions(50, 3)
    probabilities = probabilities.astype(np.float32)
    table = by_label(labels, 3)
    copies = probabilities.copy(), labels.copy(), table.membership.copy()
    evaluated(probabilities, labels, slices=table)
    for given, copy in zip((probabilities, labels, table.membership), copies, strict=True):
        assert (given == copy).all()
        assert given.dtype == copy.dtype


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_probabilities_that_are_not_finite_are_refused_with_their_number(bad):
    probabilities, labels = predictions(20, 3)
    probabilities[[2, 2, 11], [0, 1, 2]] = bad
    with pytest.raises(ValueError, match="2 of 20 rows"):
        evaluated(probabilities, labels)


@pytest.mark.parametrize("label", [-1, 3])
def test_a_label_without_a_probability_is_refused(label):
    probabilities, labels = predictions(20, 3)
    table = by_label(labels, 3)
    labels[4] = label
    with pytest.raises(ValueError, match=str(label)):
        evaluate(
            probabilities, labels, table, (), step=0, split="test", release="private",
            generator=np.random.default_rng(0), min_n=1,
        )  # fmt: skip
