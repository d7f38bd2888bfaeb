"""What release=true refuses before training, and why."""

import dataclasses
import math

import numpy as np
import pytest
from releases import configured

from dpsgd import part
from dpsgd.data.notes import COMPUTED, COUNTED, OVERLAPPING
from dpsgd.errors import ConfigError
from dpsgd.experiment.prepared import prepare
from dpsgd.experiment.releasing import check_release_data, stated_notes
from dpsgd.experiment.settings import read_cell

OWNED = {"users": "dirichlet", "users.count": 60}
BY_SIZE = {"slices.kinds.size": {"_target_": "dpsgd.slices.user_size.UserSize", "edges": [5]}}
COLUMN = {"_target_": "dpsgd.slices.column.Column", "columns": ["where"]}


def cell(**changes):
    return read_cell(configured(**changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mechanism": "neither"}, r"^mechanism=neither: must be private"),
        ({"mechanism": "clip_only"}, r"^mechanism=clip_only: must be private"),
        ({"mechanism": "noise_only"}, r"^mechanism=noise_only: must be private"),
        ({"epsilon": None}, r"^epsilon=null: must be a finite"),
        ({"epsilon": math.inf}, r"^epsilon=inf: must be a finite"),
        ({"epsilon": math.inf, "noise_multiplier": None}, r"^epsilon=inf: must be a finite"),
        ({"telemetry": "oracle"}, r"^telemetry=oracle: must be accounted, off or probe"),
        ({"engine.non_finite": "stop"}, r"^engine.non_finite=stop: must be drop"),
        ({"debug.common_noise": True}, r"^debug.common_noise=true"),
        ({"data.holdout": "private"}, r"^data.holdout=private: must be public"),
        (OWNED | BY_SIZE, r"^slices.kinds.size=user_size: must not be made from training"),
        ({"slices.kinds.where": COLUMN}, r"^slices.kinds.where=column: must not be named by"),
        ({"audit": "membership"}, r"^audit=membership: must be none with release"),
        ({"audit": "gradient"}, r"^audit=gradient: must be none with release"),
        ({"audit": "canaries"}, r"^audit=canaries: must be none with release"),
        (
            {"tracker": "mlflow", "tracker.uri": "https://me:word@somewhere"},
            r"^tracker.uri=\(with a password\): must hold no password",
        ),
    ],
)
def test_what_cannot_be_released_is_refused_by_key(changes, message):
    with pytest.raises(ConfigError, match=message) as caught:
        prepare(cell(**changes))
    assert "word@" not in str(caught.value)


def test_an_audit_put_into_a_cell_that_was_read_is_refused_too():
    audited = dataclasses.replace(cell(), audit=part("audit/membership"))
    with pytest.raises(ConfigError, match=r"^audit=membership: must be none with release"):
        prepare(audited)


def test_an_estimate_certifies_no_release():
    estimate = {"_target_": "releases.Estimate", "name": "gdp", "certifies": False}
    with pytest.raises(ConfigError, match=r"^accountant=gdp: .*never certify"):
        cell(accountant=estimate)


def test_what_is_right_passes():
    for changes in ({}, {"telemetry": "off"}, {"telemetry": "probe"}, OWNED, {"epsilon": 0.5}):
        assert prepare(cell(**changes)).cell.settings.release


def test_a_kind_of_slice_of_ones_own_must_say_that_it_looks_at_no_record():
    silent, declared = (
        {"slices.kinds.own": {"_target_": f"releases.{name}"}, "slices.most_memberships": None}
        for name in ("Silent", "Declared")
    )
    with pytest.raises(ConfigError, match=r"^slices.kinds.own=label: must not be made from"):
        cell(**silent)
    prepare(cell(**declared))


def noted(bundle, *notes, **changes):
    return dataclasses.replace(bundle, notes=notes, **changes)


def test_statistics_of_the_data_are_refused_and_counts_of_them_never_said():
    right = cell()
    bundle = prepare(right).bundle
    for note, message in (
        (f"mean and std of age {COMPUTED}", r"^data=digits: must be fully declared.*mean and std"),
        (OVERLAPPING, r"^data.stride="),
    ):
        with pytest.raises(ConfigError, match=message):
            check_release_data(right, noted(bundle, "declared", note))
    counted = noted(bundle, "declared", f"missing in train: age 3; {COUNTED}")
    check_release_data(right, counted)
    assert stated_notes(right, counted) == ["declared"]
    assert stated_notes(cell(release=False), counted) == list(counted.notes)


def test_held_out_records_of_users_are_refused_however_they_are_declared():
    right = cell()
    bundle = prepare(right).bundle
    owned = dataclasses.replace(bundle.test, user=np.zeros(len(bundle.test), dtype=np.int64))
    with pytest.raises(ConfigError, match=r"^data.holdout=public: .*these records have users"):
        check_release_data(right, noted(bundle, "declared", test=owned, users=("someone",)))


def test_a_table_is_released_when_all_of_it_is_declared(tmp_path):
    rows = ["age,dialect,understood"]
    rows += [f"{20 + i % 50},{'north' if i % 3 else 'south'},{'yes' if i % 2 else 'no'}"
             for i in range(200)]  # fmt: skip
    rows += [",north,yes"]
    (tmp_path / "people.csv").write_text("\n".join(rows), encoding="utf-8")
    computed = {
        "data": "table", "data.path": str(tmp_path / "people.csv"), "data.label": "understood",
        "data.numeric": {"age": None}, "data.categorical": {"dialect": None}, "slices": "label",
        "data.train": 0.6, "data.validation": 0.1, "batch": 20,
    }  # fmt: skip
    with pytest.raises(ConfigError, match=r"^data=table: .*names of the classes.*mean and std"):
        prepare(cell(**computed))
    declared = computed | {
        "data.label_map": [["no", "no"], ["yes", "yes"]],
        "data.numeric": {"age": {"mean": 45, "std": 15}},
        "data.categorical": {"dialect": ["north", "south"]},
    }
    prepared = prepare(cell(**declared))
    assert any(note.endswith(COUNTED) for note in prepared.bundle.notes)
    assert not any("missing" in note for note in stated_notes(prepared.cell, prepared.bundle))
