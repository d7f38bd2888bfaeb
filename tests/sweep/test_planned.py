"""A plan: every cell once, its baseline before it, and what is done by run key."""

import json

import pytest
from composed import composer, jobs_of

from dpsgd.errors import ConfigError
from dpsgd.experiment.identity import NOT_RESULTS
from dpsgd.experiment.prepared import prepare
from dpsgd.experiment.settings import read_cell
from dpsgd.experiment.sweep.keys import RunKeys
from dpsgd.experiment.sweep.planned import plan_sweep
from dpsgd.experiment.sweep.preflight import preflight

FAST = ("debug=fast", "tracker=none", "accountant=rdp")


def plan_of(tmp_path, *words):
    words = (*FAST, *words)
    return plan_sweep(jobs_of(*words), composer(*words), tmp_path)


def finish(plan, planned, label="x"):
    planned.folder.mkdir(parents=True)
    files = {
        "status.json": {"status": "FINISHED"},
        "cell.json": {
            "run_key": planned.run_key, "label": label,
            "metrics": {name: [] for name in ("split", "slice_kind", "metric", "value")},
        },
    }  # fmt: skip
    for name, content in files.items():
        (planned.folder / name).write_text(json.dumps(content))


def test_every_key_is_that_of_the_cell_alone(tmp_path):
    plan = plan_of(tmp_path, "clip=flat,per_layer", "seed=0,1")
    for planned in plan.cells:
        prepared = prepare(planned.cell)
        assert (planned.run_key, planned.baseline_key) == (prepared.run_key, prepared.baseline_key)
        assert planned.folder == tmp_path / "runs" / planned.run_key


def test_a_baseline_comes_once_and_before_what_is_compared_with_it(tmp_path):
    plan = plan_of(tmp_path, "clip=flat,per_layer", "clip.norm=1,3", "seed=0,1")
    assert len(plan.cells) == 8 + 2
    places = {planned.run_key: place for place, planned in enumerate(plan.cells)}
    assert all(places[p.baseline_key] <= place for place, p in enumerate(plan.cells))
    assert all("mechanism=neither" in planned.words for planned in plan.baselines)


def test_no_baselines_if_nobody_wants_them(tmp_path):
    plan = plan_of(tmp_path, "clip=flat,per_layer", "baselines=false")
    assert len(plan.cells) == 2
    assert not plan.baselines


def test_whether_baselines_are_trained_is_no_result(tmp_path):
    assert "baselines" in NOT_RESULTS
    with_them = plan_of(tmp_path, "clip=flat")
    without = plan_of(tmp_path, "clip=flat", "baselines=false")
    assert without.cells[0].run_key in {planned.run_key for planned in with_them.cells}


def test_a_configuration_of_before_this_key_is_read(tmp_path):
    config = dict(plan_of(tmp_path, "clip=flat").cells[0].config)
    config.pop("baselines")
    assert read_cell(config).settings.baselines


def test_what_is_asked_for_twice_runs_once(tmp_path):
    plan = plan_of(tmp_path, "clip.norm=1,1.0,2", "mechanism=private,neither")
    assert (len(plan.cells), plan.asked) == (3, 6)
    assert plan.merged == 3  # one C, and the baseline of every C
    assert not any(planned.added for planned in plan.cells)


def test_a_release_has_no_baseline_beside_it(tmp_path):
    words = ("release=true", "telemetry=off", "engine.non_finite=drop", "sampling=poisson")
    plan = plan_of(tmp_path, *words, "slices=label", "clip.norm=1,3")
    assert len(plan.cells) == 2


def test_done_is_what_the_runs_folder_holds_finished(tmp_path):
    plan = plan_of(tmp_path, "clip.norm=1,3")
    finish(plan, plan.cells[1])
    again = plan_of(tmp_path, "clip.norm=3,1,10")
    assert [p.run_key for p in again.cells if p.done] == [plan.cells[1].run_key]
    assert len(again.missing) == 3


def test_one_bad_cell_is_named_before_any_starts(tmp_path):
    with pytest.raises(ConfigError, match=r"clip\.norm") as raised:
        plan_of(tmp_path, "clip.norm=1,-3")
    assert "clip.norm=-3" in str(raised.value)
    words = (*FAST, "clip=flat", "sampling=poisson_truncated", "sampling.cap=1")
    keys = RunKeys()
    plan = plan_sweep(jobs_of(*words), composer(*words), tmp_path, keys)
    with pytest.raises(ConfigError, match="no cell was started"):
        preflight(plan.missing, keys, tmp_path)


def test_runs_are_kept_in_one_folder(tmp_path):
    with pytest.raises(ConfigError, match="runs_dir"):
        plan_of(tmp_path, "runs_dir=a,b")
