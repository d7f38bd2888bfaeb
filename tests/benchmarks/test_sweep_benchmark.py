"""The benchmark of sweeps measures what it says."""

import json

import pytest

from benchmarks.sweep import lines, main, measured

TINY = ["debug=fast", "tracker=none", "telemetry=off", "accountant=rdp"]


@pytest.fixture(scope="module")
def numbers(tmp_path_factory):
    words = ["-m", "seed=0,1", "baselines=false"]
    return measured(tmp_path_factory.mktemp("sweep"), words, TINY)


def test_every_cell_is_counted_and_its_parts_add_up(numbers):
    assert numbers["cells"] == 2
    parts = ("training", "evaluation", "ledger, tables and files", "start, data, checks, tracker")
    assert sum(numbers[f"  {part}"] for part in parts) >= numbers["seconds a cell"] * 0.99
    assert 0 < numbers["share of training and evaluation"] < 1
    assert 0 < numbers["  before the first cell trains"] < numbers["seconds"]
    assert numbers["cells a minute"] == pytest.approx(120 / numbers["seconds"])


def test_the_command_can_be_repeated_and_all_fits_a_terminal(numbers):
    text = lines(numbers)
    assert text[0].startswith("python -m dpsgd.run -m seed=0,1 ")
    assert all(len(line) <= 80 for line in text[1:])


def test_a_sweep_that_fails_is_no_measurement(tmp_path):
    with pytest.raises(RuntimeError, match=r"clip\.norm"):
        measured(tmp_path, ["-m", "clip.norm=-1"], TINY)


def test_planted_cells_are_found_finished(tmp_path, capsys):
    file = tmp_path / "numbers.json"
    main(["--planted", "40", "--out", str(file)])
    found = json.loads(file.read_text(encoding="utf-8"))
    assert found["command"] == "40 cells, 38 of them finished"
    assert found["missing"] == 2
    assert capsys.readouterr().out.startswith(found["command"])
