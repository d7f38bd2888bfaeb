"""Run keys of whole sweeps: those of single cells, with data loaded once."""

import copy
import json

import pytest

from dpsgd.experiment import prepared
from dpsgd.experiment.identity import cell_config, key_of, own_code_of
from dpsgd.experiment.prepared import prepare
from dpsgd.experiment.settings import read_cell
from dpsgd.experiment.sweep import keys
from dpsgd.experiment.sweep.keys import RunKeys
from dpsgd.experiment.version import RESULT_VERSION
from dpsgd.python import resolved

TINY = {"data": "digits", "model": "logistic", "tracker": "none"}


@pytest.fixture(scope="module")
def configuration():
    return resolved(TINY)


def cell_of(configuration, **changes):
    changed = copy.deepcopy(configuration)
    for key, value in changes.items():
        group, _, name = key.partition("__")
        if name:
            changed[group][name] = value
        else:
            changed[group] = value
    return read_cell(changed)


@pytest.fixture
def loads(monkeypatch):
    seen = []

    def load(cell):
        seen.append(keys.data_name(cell))
        return prepared.loaded(cell)

    monkeypatch.setattr(keys, "loaded", load)
    return seen


@pytest.mark.parametrize(
    "changes", [{}, {"seed": 3}, {"clip__norm": 0.5}, {"mechanism": "neither"}, {"data__seed": 1}]
)
def test_they_are_those_of_the_cells_one_by_one(configuration, changes):
    cell = cell_of(configuration, **changes)
    alone = prepare(cell)
    assert RunKeys().of(cell) == (alone.run_key, alone.baseline_key)


def test_data_are_loaded_once_for_the_cells_that_share_them(configuration, loads):
    of = RunKeys().of
    found = {of(cell_of(configuration, seed=seed, clip__norm=c)) for seed in (0, 1) for c in (1, 2)}
    assert len(found) == 4
    assert len(loads) == 1


def test_other_data_and_other_owners_are_other_keys(configuration, loads):
    of = RunKeys().of
    users = resolved(TINY | {"users": "dirichlet"})
    found = [
        of(cell_of(configuration)), of(cell_of(configuration, data__seed=1)),
        of(cell_of(configuration, data__keep=0.5)), of(read_cell(users)),
        of(cell_of(configuration)),
    ]  # fmt: skip
    assert len(set(found)) == 4
    assert found[0] == found[-1]
    assert len(loads) == 4


def test_every_rule_at_every_norm_shares_the_baseline_of_its_seed(configuration):
    of = RunKeys().of
    found = [of(cell_of(configuration, clip__norm=c, epsilon=e)) for c in (1, 2) for e in (1, 3)]
    assert len({key for key, _ in found}) == 4
    assert len({baseline for _, baseline in found}) == 1
    assert of(cell_of(configuration, mechanism="neither")) == (found[0][1], found[0][1])


def test_only_the_data_asked_for_last_are_held(configuration, loads):
    known = RunKeys()
    one, other = cell_of(configuration), cell_of(configuration, data__seed=1)
    assert known.bundle(one) is known.bundle(one)
    known.bundle(other)
    assert known.of(one) == known.of(one)
    assert len(loads) == 2
    assert known.bundle(one).fingerprint != known.bundle(other).fingerprint


def test_a_key_is_the_hash_of_what_the_run_folder_states(configuration):
    cell = cell_of(configuration, seed=2)
    stated = json.loads(json.dumps(cell_config(cell)))
    known = RunKeys()
    data = known.bundle(cell).fingerprint
    assert key_of(stated, data, RESULT_VERSION, own_code_of(cell)) == known.of(cell)[0]
