# pyright: reportGeneralTypeIssues=false, reportArgumentType=false
# pyright: reportAttributeAccessIssue=false
from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from planted_cells import baseline, cell, slices, sweep, write

from analysis import schema
from analysis.atlas import main

ROOT = Path(__file__).parents[2]
MAP = ("--figures", "map")
PNG = b"\x89PNG\r\n\x1a\n"


def test_the_atlas_is_written_below_the_runs(tmp_path, capsys):
    write(tmp_path, *sweep(["flat"], [1.0], 2))
    assert main([str(tmp_path), *MAP]) == 0
    out = tmp_path / "atlas"
    assert (out / "figures" / "map.png").read_bytes().startswith(PNG)
    assert "<svg" in (out / "figures" / "map.svg").read_text(encoding="utf-8")
    rows = pd.read_csv(out / "figures" / "map.csv")
    assert rows["rule"].tolist() == ["none", "flat"]
    table = pd.read_parquet(out / "cells.parquet")
    assert table["run_key"].nunique() == 4
    said = capsys.readouterr().out
    for words in (
        "cells read   4",
        "left out     none",
        "baselines    2",
        "ε = 3",
        "map.png .svg .pdf .csv",
    ):
        assert words in said


def test_a_second_call_reads_the_same_cells(tmp_path, capsys):
    write(tmp_path, cell())
    main([str(tmp_path), *MAP])
    first = capsys.readouterr().out
    main([str(tmp_path), *MAP])
    assert capsys.readouterr().out == first


def test_another_folder_can_be_chosen(tmp_path):
    write(tmp_path / "runs", cell())
    assert main([str(tmp_path / "runs"), "--out", str(tmp_path / "a" / "b"), *MAP]) == 0
    assert (tmp_path / "a" / "b" / "cells.parquet").exists()
    assert not (tmp_path / "runs" / "atlas").exists()


def test_what_was_left_out_is_counted_and_named_in_80_columns(tmp_path, capsys):
    write(tmp_path, cell(), *(cell(seed=s, status="FAILED") for s in range(1, 60)))
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / schema.STATUS_FILE).write_text('{"status": "RUNNING"}')
    assert main([str(tmp_path), *MAP]) == 0
    said = capsys.readouterr().out
    assert "left out     60" in said
    assert "status FAILED: flat-1_0-1, " in said
    assert all(f"flat-1_0-{seed}" in said for seed in range(1, 60))
    assert "status RUNNING, no cell.json: half" in said
    lines = said.split(f"below        {tmp_path}")[0].splitlines()
    assert max(map(len, lines)) <= 80


def test_no_folder_is_one_line_and_exit_code_2(tmp_path, capsys):
    assert main([str(tmp_path / "nowhere")]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert "no such folder" in said.err


def test_no_finished_cell_is_one_line_and_exit_code_2(tmp_path, capsys):
    write(tmp_path, cell(status="RUNNING"))
    assert main([str(tmp_path), *MAP]) == 2
    said = capsys.readouterr()
    assert said.err.count("\n") == 1
    assert "no finished cell (1 left out; flat-1_0-0: status RUNNING)" in said.err
    assert not (tmp_path / "atlas").exists()


def test_an_empty_folder_is_exit_code_2(tmp_path, capsys):
    assert main([str(tmp_path), *MAP]) == 2
    assert "no cells" in capsys.readouterr().err


def test_a_place_that_cannot_be_written_is_exit_code_2(tmp_path, capsys):
    write(tmp_path, cell())
    (tmp_path / "taken").write_text("a file")
    assert main([str(tmp_path), "--out", str(tmp_path / "taken")]) == 2
    assert "taken" in capsys.readouterr().err


def test_every_data_set_and_model_has_a_map_of_its_own(tmp_path):
    few = slices(["a", "b"], [])
    write(tmp_path, *(cell(seed=s, places=few) for s in (0, 1)))
    write(tmp_path, cell(seed=2, model="my/net", data="数据", places=few))
    assert main([str(tmp_path), *MAP]) == 0
    figures = {path.name for path in (tmp_path / "atlas" / "figures").glob("*.png")}
    assert figures == {"map.png", "map-数据-my_net-2.png"}


def test_cells_without_any_guarantee_are_still_drawn(tmp_path, capsys):
    write(tmp_path, baseline(), cell(mechanism="clip_only"))
    assert main([str(tmp_path), *MAP]) == 0
    assert "2 not private" in capsys.readouterr().out


def test_help_says_what_is_read_and_written(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--help"])
    assert stop.value.code == 0
    said = capsys.readouterr().out
    assert "cells.parquet" in said
    assert "Exit code" in said


def _python(*arguments: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    clean = {"PATH": "/usr/bin:/bin", "HOME": "/tmp", **environment}  # noqa: S108
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=clean, capture_output=True, check=False
    )


def test_the_atlas_imports_neither_torch_nor_training_code():
    forbidden = ["torch", "dpsgd", "mlflow", "hydra", "matplotlib.pyplot"]
    code = (
        "import sys, analysis.atlas, analysis.table, analysis.figures.map;"
        f"print([name for name in {forbidden} if name in sys.modules])"
    )
    assert _python("-c", code).stdout.strip() == b"[]"


def test_the_command_works_on_a_terminal_without_greek_letters(tmp_path):
    write(tmp_path, cell(places=slices(["猫"], [])))
    done = _python("-m", "analysis.atlas", str(tmp_path), *MAP, PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert b"? = 3 (pld, ? = 1e-4, record): 1 cell" in done.stdout


def test_every_figure_is_written_three_times_over(tmp_path, capsys):
    write(tmp_path, *sweep(["flat"], [1.0], 2))
    assert main([str(tmp_path), "--figures", "stability,tail_curves"]) == 0
    names = sorted(path.name for path in (tmp_path / "atlas" / "figures").iterdir())
    stems = [f"{stem}.{end}" for stem in ("stability", "tail_curves")
             for end in ("pdf", "png", "svg")]  # fmt: skip
    assert names == stems
    assert (tmp_path / "atlas" / "figures" / "stability.pdf").read_bytes().startswith(b"%PDF")
    assert "figures/stability.png .svg .pdf" in " ".join(capsys.readouterr().out.split())


def test_an_unknown_figure_is_named_with_those_there_are(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main([str(tmp_path), "--figures", "mapp"])
    assert "no figure 'mapp'; there are map, norms" in capsys.readouterr().err


def test_a_sweep_holds_its_keys_and_baselines_and_what_is_not_begun_is_said(tmp_path, capsys):
    cells = sweep(["flat"], [0.5, 1.0], 1)
    write(tmp_path, *cells)
    (tmp_path / "sweeps").mkdir()
    listed = {"name": "small", "keys": [cells[0]["run_key"], "later"],
              "baselines": [baseline()["run_key"]]}  # fmt: skip
    (tmp_path / "sweeps" / "small.json").write_text(json.dumps(listed))
    assert main([str(tmp_path), "--sweep", "small", *MAP]) == 0
    said = capsys.readouterr().out
    assert "cells read   2" in said
    assert "not begun: no such folder: later" in said


@pytest.mark.parametrize("content", [None, "[1]", "{", "{}"])
def test_a_sweep_that_is_not_there_or_lists_nothing_is_exit_code_2(tmp_path, capsys, content):
    write(tmp_path, cell())
    (tmp_path / "sweeps").mkdir()
    if content is not None:
        (tmp_path / "sweeps" / "broken.json").write_text(content)
    assert main([str(tmp_path), "--sweep", "broken", *MAP]) == 2
    assert capsys.readouterr().err.count("\n") == 1
