"""What a job of a released cell leaves in files and tables that are not private."""

import json

import pytest

from dpsgd.experiment.sweep import job
from dpsgd.experiment.sweep.children import ChildResult

RECORD = "the record of Ann Example, born 1980"


def ended(tmp_path, monkeypatch, release, *, raises=False):
    """What is kept of a job whose child raised an error that quotes a record."""

    def in_child(target, *args, log, private, end):
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(RECORD)
        if raises:
            raise ValueError(RECORD)
        return ChildResult(1, 1, None, ("ConfigError", f"data: {RECORD}"), {})

    monkeypatch.setattr(job, "in_child", in_child)
    monkeypatch.setattr(job, "follow_leader", lambda sweep: None)
    told = job.run_in_child({"release": release}, tmp_path / "runs", tmp_path / "sweep", "one")
    stored = json.loads((tmp_path / "sweep" / "ended" / "one.json").read_text())
    assert stored == told
    return told


@pytest.mark.parametrize("raises", [False, True])
def test_of_a_released_cell_that_failed_only_the_kind_of_error_leaves(
    tmp_path, monkeypatch, raises
):
    told = ended(tmp_path, monkeypatch, release=True, raises=raises)
    assert RECORD not in json.dumps(told)
    assert told["error"].startswith("ValueError: " if raises else "ConfigError: ")
    assert told["log"].endswith("log.private.txt")
    assert told["log"] in told["error"]


def test_of_any_other_its_message_is_shown(tmp_path, monkeypatch):
    assert ended(tmp_path, monkeypatch, release=False)["error"] == f"ConfigError: data: {RECORD}"
