"""What befalls many cells of a sweep alike is said once, and who was asked to end did not fail."""

import dataclasses
import io
import json
from types import SimpleNamespace

import pytest
from planted_runs import RUN_KEYS, plant
from rich.console import Console

from dpsgd import runs
from dpsgd.experiment.sweep.ended import (
    FAILED,
    FINISHED,
    KILLED,
    NOT_RUN,
    STOPPED,
    Ended,
    not_run,
    write_ended,
)
from dpsgd.experiment.sweep.failed import Failed, print_failed
from dpsgd.experiment.sweep.following import following
from dpsgd.experiment.sweep.halt import Halt
from dpsgd.experiment.sweep.index import Index
from dpsgd.experiment.sweep.outcomes import outcome
from dpsgd.experiment.sweep.states import Following, States

BROKEN = "ConfigError: clip.norm=0: must be above 0"


def ended(status, error, line=""):
    return Ended(None, status, error, line, None, False)


def lines_of(tmp_path, all_ended):
    said: list[str] = []
    with following(tmp_path, {f"{i}": f"seed={i}" for i in range(99)}, said.append):
        for job, one in enumerate(all_ended):
            write_ended(tmp_path, str(job), one)
    return said


def table(all_ended, width=80):
    console = Console(file=io.StringIO(), width=width, highlight=False)
    settings = SimpleNamespace(release=False)
    failed = [
        Failed(
            SimpleNamespace(  # pyright: ignore[reportArgumentType]
                label=f"seed={i}", run_key=f"{i:016x}", folder=plant_nothing(i),
                cell=SimpleNamespace(settings=settings),
            ),
            one,
        )
        for i, one in enumerate(all_ended)
    ]  # fmt: skip
    print_failed(console, failed, len(failed), ["-m", "seed=range(12)"])
    return console.file.getvalue()  # pyright: ignore[reportAttributeAccessIssue]


def plant_nothing(i):
    return SimpleNamespace(parent="runs", name=f"{i:016x}")


def test_an_error_of_twelve_cells_is_two_lines(tmp_path):
    said = lines_of(tmp_path, [ended(FAILED, BROKEN)] * 12 + [ended(FAILED, "another")])
    assert len(said) == 3
    assert said.count(f"11 more cells: {BROKEN}") == 1
    assert sum(line.endswith(BROKEN) for line in said) == 2


def test_finished_cells_have_a_line_each_and_those_never_started_none(tmp_path):
    done = [ended(FINISHED, "", f"line {i}") for i in range(3)]
    assert sorted(lines_of(tmp_path, [*done, *[not_run("stopped")] * 20])) == [
        "line 0", "line 1", "line 2",
    ]  # fmt: skip


def test_the_table_has_a_row_for_each_fate():
    text = table([ended(KILLED, STOPPED)] * 2 + [not_run("before it began")] * 10)
    assert text.count("before it began") == 1
    assert "2 cells, first seed=0" in text
    assert "10 cells, first seed=2" in text
    assert "12 of 12 cells did not finish" in text


def test_a_sweep_that_was_only_stopped_sends_nobody_to_a_traceback():
    stopped = table([ended(KILLED, STOPPED), not_run("before it began")])
    assert "traceback" not in stopped
    assert "the same command" in stopped
    broken = table([ended(FAILED, BROKEN), not_run("before it began")])
    assert "traceback" in broken
    assert "hydra.sweeper.only=" in broken


@pytest.mark.parametrize(
    ("status", "stopped_by", "states"),
    [("KILLED", "SIGTERM", States(0, 0, 0, 1)), ("KILLED", "KeyboardInterrupt", States(0, 0, 0, 1)),
     ("KILLED", "SIGKILL", States(0, 0, 1, 0)), ("FAILED", "ValueError", States(0, 0, 1, 0))],
)  # fmt: skip
def test_who_was_asked_to_end_did_not_fail(tmp_path, status, stopped_by, states):
    key = RUN_KEYS[0]
    cells = Following(tmp_path, [key])
    folder = plant(tmp_path, key, status)
    file = folder / "status.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"stopped_by": stopped_by}))
    assert cells.look() == states


@pytest.mark.parametrize("status", ["FAILED", "KILLED"])
def test_a_run_that_did_not_finish_is_listed_by_its_name(tmp_path, capsys, status):
    folder = plant(tmp_path, RUN_KEYS[0], status)
    Index(tmp_path).begin(folder, "flat C=0.25 ε=3 s7")
    runs.main(["list", "--runs-dir", str(tmp_path)])
    assert "flat C=0.25 ε=3 s7" in capsys.readouterr().out


def test_records_say_whether_anything_went_wrong():
    assert not_run("why").stopped
    assert ended(KILLED, STOPPED).stopped
    assert not ended(KILLED, "SIGKILL").stopped
    assert not dataclasses.replace(ended(FAILED, BROKEN)).stopped
    assert not_run("why").status == NOT_RUN


def test_a_cell_whose_job_was_left_is_what_its_folder_says_of_this_sweep(tmp_path):
    def says(stopped_by):
        folder = plant(tmp_path / "runs", RUN_KEYS[0], "KILLED")
        file = folder / "status.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | {"stopped_by": stopped_by}))
        cell = SimpleNamespace(run_key=RUN_KEYS[0], folder=folder, config={})
        return outcome(cell, sweep, "why")  # pyright: ignore[reportArgumentType]

    sweep = tmp_path / "sweep"
    sweep.mkdir()
    assert says("SIGTERM").error == "why"  # no sweep leads here, so that it is of another one
    Halt(sweep).own()
    assert says("SIGTERM").stopped
    assert says("SIGTERM").status == KILLED
    assert says("SIGKILL").error == "SIGKILL"
