from __future__ import annotations

import sys
from pathlib import Path

import pytest

from analysis import schema
from analysis.cells import one_row_each, read_cells
from analysis.conditions import conditions
from benchmarks.atlas import measure
from benchmarks.atlas_planted import plant

sys.path.append(str(Path(__file__).parents[1] / "analysis"))
from planted_cells import sweep, write


def test_planted_cells_are_cells_of_their_own_with_their_baselines(tmp_path):
    source = write(tmp_path / "source", *sweep(["flat", "automatic"], [1.0], 2))
    (source / "flat-1_0-0" / schema.CONFIG_FILE).write_text("x: 1")
    plant(source, tmp_path / "runs", 150)
    read = read_cells(tmp_path / "runs")
    cells = one_row_each(read.table)
    assert (len(cells), read.left_out) == (150, ())
    assert set(cells["baseline_key"]) <= set(cells["run_key"])
    named = conditions(read.table)
    assert named["part"].value_counts().to_dict() == {"private": 140, "baseline": 10}
    assert not any("run=" in word for words in named["settings"] for word in words)
    assert named.groupby("condition")["replicate"].nunique().max() == 10
    assert list((tmp_path / "runs").glob(f"flat-1_0-0-*/{schema.CONFIG_FILE}"))


def test_every_part_of_the_atlas_is_timed(tmp_path, capsys):
    write(tmp_path / "runs", *sweep(["flat"], [1.0], 1))
    measure(tmp_path / "runs", tmp_path / "out")
    said = capsys.readouterr().out
    for part in ("table", "figures", "findings", "page", "2 cells"):
        assert part in said


def test_nothing_to_copy_is_said(tmp_path):
    with pytest.raises(ValueError, match="no finished private cell"):
        plant(tmp_path, tmp_path / "runs", 10)
