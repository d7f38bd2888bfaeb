"""What a sweep prints of a cell and of MLflow fits a terminal of 80 columns."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from dpsgd.experiment.report import one_line
from dpsgd.experiment.track.address import Address
from dpsgd.experiment.track.pushing import _later

LABELS = [
    "flat C=1 ε=3 s0", "flat per user C=0.25 ε=8 s12", "per_layer C=0.1 clip_only ε=∞ s0",
    "adaptive_per_layer per user C=0.1 noise_only ε=0.25 audit=canaries s12",
]  # fmt: skip
KEY = "0123456789abcdef"


def outcome(label, *, repeated):
    rows = [("test", "accuracy", 0.883), ("test", "tail_worst", 0.614), ("train", "kept", 1.0)]
    metrics = {
        "split": [row[0] for row in rows], "slice_kind": ["all"] * 3, "slice": ["all"] * 3,
        "metric": [row[1] for row in rows], "value": [row[2] for row in rows], "n": [9] * 3,
    }  # fmt: skip
    cell = {"label": label, "metrics": metrics}
    return SimpleNamespace(cell=cell, folder=Path("runs") / KEY, repeated=repeated)


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize("repeated", [False, True])
def test_the_line_of_a_cell_fits_with_its_label_its_numbers_and_a_key_that_finds_it(
    label, repeated
):
    text = one_line(outcome(label, repeated=repeated))  # pyright: ignore[reportArgumentType]
    assert max(map(len, text.splitlines())) <= 80
    assert text.startswith(label)
    assert "accuracy 0.883  worst 0.614  kept 100%" in text
    assert KEY[:8] in text
    assert len(text.splitlines()) <= 2


def test_lines_of_cells_with_usual_labels_stand_below_each_other():
    first, second = (one_line(outcome(label, repeated=False)) for label in LABELS[:2])  # pyright: ignore[reportArgumentType]
    assert first.index("accuracy") == second.index("accuracy")


@pytest.mark.parametrize("uri", [None, "http://server:5000"])
def test_mlflow_is_shown_in_lines_that_fit_or_can_be_copied_whole(uri):
    page = Address(uri, "clipping-atlas", Path("/data/runs")).page("12")
    for line in page.splitlines():
        assert len(line) <= 80 or line.startswith("http")


def test_what_is_to_be_pushed_later_is_said_within_80_columns_and_then_the_command():
    address = Address(None, "clipping-atlas", Path("/data/runs"))
    *words, command = _later(f"MLflow: {'a long reason ' * 12}", address).splitlines()
    assert max(map(len, words)) <= 80
    assert command == "  python -m dpsgd.track push /data/runs"
