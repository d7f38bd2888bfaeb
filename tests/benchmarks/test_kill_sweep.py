"""A small sweep that is killed and goes on, as the recorded benchmark does it more often."""

import json
from types import SimpleNamespace

import pytest

from analysis import schema
from benchmarks import kill_sweep

KEY = "0123456789abcdef"

SMALL = ("--kills", "1", "--seed", "3", "seed=0", "steps=300", "checkpoint=0.05")


@pytest.mark.slow
def test_a_killed_sweep_ends_as_one_that_nobody_killed(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["kill_sweep", *SMALL])
    with pytest.raises(SystemExit) as ended:
        kill_sweep.main()
    said = capsys.readouterr().out
    assert ended.value.code == 0, said
    assert "undisturbed: 3 cells" in said
    assert "what went wrong: nothing" in said


def test_a_cell_that_differs_or_ran_twice_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(kill_sweep, "verify", lambda folder, **_: SimpleNamespace(holds=True))
    for name, weights, ends in (("whole", b"1", 1), ("broken", b"2", 2)):
        run = tmp_path / name / "runs" / KEY
        run.mkdir(parents=True)
        for file in kill_sweep.COMPARED:
            (run / file).write_bytes(weights if file == schema.MODEL_FILE else b"same")
        (run / schema.CELL_FILE).write_text('{"seconds": 1, "epsilon": 3}')
        (run / schema.STATUS_FILE).write_text('{"status": "FINISHED"}')
        row = json.dumps({"run_key": KEY, "status": "FINISHED"}) + "\n"
        (tmp_path / name / "runs" / schema.INDEX_FILE).write_text(row * ends)
    found = kill_sweep._faults(tmp_path / "whole", tmp_path / "broken")
    assert found == [f"{KEY}: {schema.MODEL_FILE}", f"{KEY} finished 2 times"]
    assert kill_sweep._faults(tmp_path / "whole", tmp_path / "whole") == []
