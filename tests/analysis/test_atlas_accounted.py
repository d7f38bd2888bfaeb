"""Maps of cells whose clip fractions were counted inside ε, or measured on public examples."""

from __future__ import annotations

import math

import numpy as np
import pytest
from matplotlib.text import Text
from planted_cells import TAIL_LABEL, baseline, cell, write

from analysis.cells import read_cells
from analysis.figures.map import figure
from analysis.figures.map_view import map_view

HALF = 0.06


def counted(seed=0, **changed):
    """A cell without kept, whose clip fractions have intervals; nothing can be said of the tail."""
    content = cell(seed=seed, telemetry="accounted", **changed)
    rows = list(zip(*content["metrics"].values(), strict=True))
    kept = [row for row in rows if row[3] != "kept"]
    found = [
        row
        if row[3] != "clip_fraction"
        else (*row[:4], None, 0, 0.0, 1.0, "accounted")
        if row[2] == TAIL_LABEL
        else (*row[:6], row[4] - HALF, row[4] + HALF, "accounted")
        for row in kept
    ]
    content["metrics"] = dict(
        zip(content["metrics"], map(list, zip(*found, strict=True)), strict=True)
    )
    return content


def columns(content, rows):
    return dict(zip(content["metrics"], map(list, zip(*rows, strict=True)), strict=True))


def off(content):
    """The same cell without anything about training."""
    rows = zip(*content["metrics"].values(), strict=True)
    found = [row for row in rows if row[0] != "train"]
    return content | {"metrics": columns(content, found)}


def probed(content):
    metrics = content["metrics"]
    of_train = [split == "train" for split in metrics["split"]]
    splits = ["probe" if own else s for own, s in zip(of_train, metrics["split"], strict=True)]
    releases = ["public" if own else r for own, r in zip(of_train, metrics["release"], strict=True)]
    return content | {"metrics": metrics | {"split": splits, "release": releases}}


def drawn(tmp_path, *cells):
    table = read_cells(write(tmp_path, *cells)).table
    (family,) = map_view(table).families
    (caption,) = [t for t in figure(table).texts if t.get_gid() == "caption"]
    return family, caption.get_text().replace("\n", " ")


@pytest.mark.parametrize("seeds", [1, 4])
def test_an_accounted_map_shows_its_intervals_and_no_kept(tmp_path, seeds):
    cells = [counted(seed) for seed in range(seeds)]
    family, caption = drawn(tmp_path, *cells, *(off(baseline(seed)) for seed in range(seeds)))
    assert [panel.title for panel in family.panels] == [
        "Clip fraction",
        "Recall − baseline recall",
        "ECE",
    ]
    panel = family.panels[0]
    row = [r.part for r in family.rows].index("private")
    names = [column.name for column in family.columns]
    assert panel.sd[row, names.index("0")] == pytest.approx(HALF / math.sqrt(seeds))
    assert np.isnan(panel.mean[row, names.index(TAIL_LABEL)])
    assert "Clip fraction: noised, and inside ε; below the number ± half its 95 %" in caption
    assert "Kept" not in caption
    assert "too few examples" in caption


def test_rows_of_both_kinds_each_say_what_they_are(tmp_path):
    _, caption = drawn(tmp_path, counted(), cell(clip_norm=0.5, telemetry="oracle"), baseline())
    assert "Kept and clip fraction: diagnostic, not private" in caption
    assert "Clip fraction: noised, and inside ε" in caption


def test_public_examples_are_drawn_under_their_name(tmp_path):
    family, caption = drawn(tmp_path, probed(cell(telemetry="probe")), off(baseline()))
    assert [panel.title for panel in family.panels][:2] == ["Kept", "Clip fraction"]
    assert "Kept and clip fraction of validation examples: public" in caption


def test_every_text_of_an_accounted_map_is_printed(tmp_path):
    table = read_cells(write(tmp_path, counted(), off(baseline()))).table
    texts = {text.get_text() for text in figure(table).findobj(Text)}
    assert "±.06" in texts
    assert "–" in texts
