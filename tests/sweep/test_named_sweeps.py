"""Every sweep in ``sweeps/`` is the cells that it says it is, and all of them can run."""

import collections

import pytest
from composed import SWEEPS, composer, jobs_of

from dpsgd.experiment.options import config_folder
from dpsgd.experiment.sweep.keys import RunKeys
from dpsgd.experiment.sweep.planned import plan_sweep
from dpsgd.experiment.sweep.preflight import preflight

CELLS = {
    "atlas": 99,
    "attribution": 97,
    "epsilon": 39,
    "memorisation": 76,
    "smoke": 6,
    "tail": 33,
    "users": 30,
}
BASELINES = {
    "atlas": 3,
    "attribution": 1,
    "epsilon": 3,
    "memorisation": 4,
    "smoke": 2,
    "tail": 3,
    "users": 6,
}


@pytest.fixture(scope="module")
def keys():
    return RunKeys()


@pytest.fixture(scope="module")
def atlas(keys, tmp_path_factory):
    return planned(keys, tmp_path_factory.mktemp("atlas"), "sweep=atlas", "seed=0")


def planned(keys, tmp_path, *words):
    return plan_sweep(jobs_of(*words), composer(*words), tmp_path, keys)


def test_a_new_sweep_is_counted_here():
    assert sorted(CELLS) == SWEEPS


@pytest.mark.parametrize("name", SWEEPS)
def test_a_named_sweep_is_its_cells_each_once_and_all_can_run(name, keys, tmp_path):
    # RDP solves faster than PLD for a noise that is about the same.
    plan = planned(keys, tmp_path, f"sweep={name}", "accountant=rdp")
    assert (len(plan.cells), len(plan.baselines), plan.merged) == (CELLS[name], BASELINES[name], 0)
    assert all(cell.added for cell in plan.baselines)
    preflight(plan.missing, keys, tmp_path / "cache")


def test_the_atlas_has_every_rule_that_protects_records(atlas):
    rules = {file.stem for file in (config_folder("conf") / "clip").glob("*.yaml")}
    found = {cell.cell.clip.name for cell in atlas.cells if not cell.added}
    assert found == rules - {"none", "user_level"}


def test_a_rule_is_swept_over_what_it_does_not_make_up_for(atlas):
    by_rule = collections.defaultdict(list)
    for cell in atlas.cells:
        by_rule[cell.cell.clip.name].append(cell.cell.clip)
    assert [rule.norm for rule in by_rule["flat"]] == [0.03, 0.1, 0.3, 1, 3, 10]
    assert [rule.quantile for rule in by_rule["adaptive"]] == [0.2, 0.5, 0.8]
    assert len(by_rule["automatic"]) == len(by_rule["global"]) == 1


def test_the_command_line_replaces_a_sweeps_own_values(keys, tmp_path):
    words = ("sweep=atlas", "clip=flat,automatic", "clip.norm=0.5,2", "seed=7")
    plan = planned(keys, tmp_path, *words)
    found = {(cell.cell.clip.name, cell.cell.clip.norm) for cell in plan.cells if not cell.added}
    # A C that was asked for by name holds for every rule.
    assert found == {(rule, norm) for rule in ("flat", "automatic") for norm in (0.5, 2)}
    assert {cell.cell.settings.seed for cell in plan.cells} == {7}
    assert len(plan.cells) == 5


def test_one_delta_covers_both_units(keys, tmp_path):
    plan = planned(keys, tmp_path, "sweep=users")
    units = {cell.cell.clip.unit for cell in plan.cells}
    assert units == {"record", "user"}
    assert len({cell.cell.settings.delta for cell in plan.cells if cell.cell.private}) == 1


def test_attribution_has_all_four_mechanisms_of_every_rule_and_c(keys, tmp_path):
    plan = planned(keys, tmp_path, "sweep=attribution")
    of = collections.defaultdict(set)
    for cell in plan.cells:
        of[cell.cell.settings.mechanism].add(str(cell.cell.clip))
    assert of["private"] == of["clip_only"] == of["noise_only"]
    assert len(of["neither"]) == 1
