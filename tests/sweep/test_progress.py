"""How far a sweep is, as its cells' folders say."""

import io
import json
from types import SimpleNamespace

import pytest
from rich.console import Console

from dpsgd.experiment.sweep import progress
from dpsgd.experiment.sweep.progress import sweep_progress
from dpsgd.experiment.sweep.states import Following, States

KEYS = [f"{number:016x}" for number in range(20)]


def say(runs, key, status, attempts=1):
    (runs / key).mkdir(parents=True, exist_ok=True)
    content = {"status": status, "attempts": attempts, "started_at": "then"}
    (runs / key / "status.json").write_text(json.dumps(content))


def plan(keys=KEYS):
    return SimpleNamespace(missing=[SimpleNamespace(run_key=key) for key in keys])


def console(*, terminal):
    return Console(file=io.StringIO(), force_terminal=terminal, width=80, highlight=False)


def test_a_cell_goes_from_running_to_its_end(tmp_path):
    following = Following(tmp_path / "runs", KEYS)
    assert following.look() == States(0, 0, 0, 0)  # and no folder yet
    say(tmp_path / "runs", KEYS[0], "RUNNING")
    say(tmp_path / "runs", KEYS[1], "RUNNING")
    assert following.look() == States(0, 2, 0, 0)
    say(tmp_path / "runs", KEYS[0], "FINISHED")
    say(tmp_path / "runs", KEYS[1], "FAILED")
    assert following.look() == following.look() == States(1, 0, 1, 0)
    say(tmp_path / "runs", KEYS[1], "RUNNING", attempts=2)
    assert following.look() == States(1, 1, 0, 0)
    say(tmp_path / "runs", KEYS[1], "KILLED", attempts=2)
    assert following.look() == States(1, 0, 1, 0)


def test_what_folders_said_before_and_other_cells_do_not_count(tmp_path):
    say(tmp_path, KEYS[0], "FAILED")
    say(tmp_path, KEYS[1], "RUNNING")
    say(tmp_path, "f" * 16, "RUNNING")
    (tmp_path / KEYS[2]).mkdir()
    following = Following(tmp_path, KEYS)
    assert following.look() == States(0, 0, 0, 0)
    say(tmp_path, KEYS[0], "RUNNING", attempts=2)
    assert following.look() == States(0, 1, 0, 0)


def test_a_torn_status_is_looked_at_again(tmp_path):
    following = Following(tmp_path, KEYS)
    say(tmp_path, KEYS[0], "FINISHED")
    file = tmp_path / KEYS[0] / "status.json"
    whole = file.read_text()
    file.write_text(whole[:10])
    assert following.look() == States(0, 0, 0, 0)
    file.write_text(whole)
    assert following.look() == States(1, 0, 0, 0)


def test_a_terminal_has_one_line_below_what_else_is_printed(tmp_path):
    shown = console(terminal=True)
    with sweep_progress(shown, plan(KEYS[:4]), tmp_path, 0.01):
        say(tmp_path, KEYS[0], "RUNNING")
        shown.print("a cell in one line")
        for key in KEYS[:3]:
            say(tmp_path, key, "FINISHED")
    text = shown.file.getvalue()
    assert "a cell in one line\n" in text
    assert "0 of 4 finished" in text
    assert "3 of 4 finished, in " in text.splitlines()[-1]


def test_a_log_file_has_a_line_at_a_tenth_and_no_control_letters(tmp_path, monkeypatch):
    monkeypatch.setattr(progress, "SAY_EVERY", 0.0)
    shown = console(terminal=False)
    lines = progress._Lines(shown, 20)
    for number in range(21):
        lines.show(States(number, 1, 0, 0))
    lines.end(States(19, 0, 1, 0))
    text = shown.file.getvalue()
    assert "\x1b" not in text
    assert "\r" not in text
    assert [line.split()[0] for line in text.splitlines()] == [*map(str, range(2, 21, 2)), "19"]
    assert "1 failed" in text.splitlines()[-1]


def test_a_quick_sweep_leaves_one_line_in_a_log(tmp_path):
    shown = console(terminal=False)
    lines = progress._Lines(shown, 20)
    for number in range(21):
        lines.show(States(number, 0, 0, 0))
    lines.end(States(20, 0, 0, 0))
    assert shown.file.getvalue() == "20 of 20 finished, in 1 s\n"


def test_the_line_ends_with_the_sweep_whatever_ends_it(tmp_path):
    shown = console(terminal=True)
    with pytest.raises(KeyboardInterrupt), sweep_progress(shown, plan(), tmp_path, 0.01):
        raise KeyboardInterrupt
    assert "0 of 20 finished, in " in shown.file.getvalue().splitlines()[-1]


def test_nothing_to_do_says_nothing(tmp_path):
    shown = console(terminal=False)
    with sweep_progress(shown, plan([]), tmp_path):
        pass
    assert not shown.file.getvalue()
