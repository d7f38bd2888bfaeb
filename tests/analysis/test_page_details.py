from __future__ import annotations

import shlex

import numpy as np
import pytest
from hydra import compose, initialize_config_dir
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf
from planted_cells import TAIL_LABEL, cell, set_value, write
from planted_details import CONFIG, LEDGER, PER_LABEL, STEPS, gradients, write_details

from analysis import schema
from analysis.cells import read_cells
from analysis.page.command import command, overrides, text
from analysis.page.details import Budget
from analysis.page.ledgers import ledger_summary
from analysis.page.measured import GRADIENTS_FILE, MOST_POINTS, measured
from analysis.page.norms import norm_windows
from analysis.page.payload import payload
from analysis.page.reliability import BINS, reliability
from analysis.slices import SliceColumn, slice_columns
from dpsgd.experiment.options import config_folder
from dpsgd.python import resolved

VALUES = [None, True, False, 0, 1, 3.0, 1e-05, "8", "tanh", "null", "true", "inf", "", "two words",
          "it's", "a\\", "a\\'b", "$HOME", "`x`", "猫", "a/b.c", "x=y", "a,b", [128, "8"],
          {"kind": "a b"}]  # fmt: skip


def _columns(tmp_path):
    content = cell()
    for name in "0123456789":
        set_value(content, {"slice": name, "metric": "recall"}, 0.5, PER_LABEL)
    set_value(content, {"slice": "head", "metric": "recall"}, 0.5, 9 * PER_LABEL)
    set_value(content, {"slice": "tail", "metric": "recall"}, 0.5, PER_LABEL)
    return slice_columns(read_cells(write(tmp_path / "cells", content)).table)


@pytest.mark.parametrize("value", VALUES, ids=str)
def test_a_value_is_read_back_by_hydra_as_it_was(value):
    (parsed,) = OverridesParser.create().parse_overrides([f"key={text(value)}"])
    found = parsed.value()
    plain = getattr(found, "text", found)
    assert plain == value or [str(entry) for entry in plain] == [str(v) for v in value]


@pytest.mark.parametrize("value", VALUES, ids=str)
def test_a_shell_reads_the_words_of_the_command(tmp_path, value):
    write_details(tmp_path, config={**CONFIG, "unit_name": value, "clip": {"name": "flat"}})
    words = command(tmp_path)
    assert words is not None
    assert f"unit_name={text(value)}" in [
        *shlex.split(" ".join(words)),
        *(f"unit_name={text(value)}" for _ in [0] if isinstance(value, dict)),
    ]


def test_the_command_names_every_setting_of_the_result(tmp_path):
    write_details(tmp_path)
    words = command(tmp_path)
    assert words is not None
    assert words[:6] == ["python", "-m", "dpsgd.run", "clip=flat", "data=mnist_tail", "model=mlp"]
    said = shlex.split(" ".join(words))
    for word in ("clip.norm=1.0", "data.class='8'", "model.hidden=[128]", "seed=0", "delta=null"):
        assert word in said
    assert not [word for word in said if word.startswith(("runs_dir", "tracker"))]


@pytest.mark.parametrize(
    "settings",
    [
        {"clip": "automatic", "clip.norm": 1e-5, "data": "digits", "seed": 3},
        {"clip": "per_layer", "slices": "table", "unit_name": "a 'b' $c", "noise_multiplier": 1.5},
        {"mechanism": "neither", "model": "cnn", "data.class": "4", "telemetry": "off"},
    ],
    ids=str,
)
def test_the_command_composes_the_configuration_it_was_read_from(settings):
    config = resolved(settings)
    with initialize_config_dir(str(config_folder("conf")), version_base="1.3"):
        again = compose("config", overrides=list(overrides(config)))
    found = OmegaConf.to_container(again, resolve=True)
    assert isinstance(found, dict)
    for key, value in config.items():
        if key not in ("runs_dir", "tracker", "hydra", "sweep", "device"):
            assert found[key] == value


def test_parts_within_parts_are_added_where_the_option_lacks_them():
    config = {
        "slices": {"name": "table", "kinds": {"age": {"_target_": "x.Bins", "edges": [1, 2]}}}
    }
    assert list(overrides(config)) == [
        "slices=table",
        "++slices.kinds.age._target_=x.Bins",
        "++slices.kinds.age.edges=[1,2]",
    ]


def test_norms_are_means_over_runs_at_their_steps(tmp_path):
    columns = _columns(tmp_path)
    for run in "ab":
        write_details(tmp_path / run)
    found = norm_windows([tmp_path / run for run in "ab"], columns, 12)
    assert found is not None
    assert found["step"] == list(STEPS)
    before = found["quantiles"][:, 0]
    planted = np.outer(schema.QUANTILES, STEPS) / 1000
    np.testing.assert_allclose(before, np.broadcast_to(planted, before.shape))
    assert found["quantiles"][:, 1].max() == 1.0
    assert found["threshold"].tolist() == [1.0] * len(STEPS)
    assert found["release"] == "private"


def test_fewer_windows_keep_the_first_and_the_last_step(tmp_path):
    write_details(tmp_path / "a")
    found = norm_windows([tmp_path / "a"], _columns(tmp_path), 2)
    assert found is not None
    assert found["step"] == [STEPS[0], STEPS[-1]]


def test_reliability_counts_every_example_of_a_slice_once(tmp_path):
    columns = _columns(tmp_path)
    write_details(tmp_path / "a")
    found = reliability([tmp_path / "a"], columns)
    assert found is not None
    n, confidence, accuracy = found[[c.name for c in columns].index(TAIL_LABEL)]
    assert n.sum() == PER_LABEL
    (filled,) = np.flatnonzero(n)
    assert confidence[filled] == pytest.approx(0.8)
    assert accuracy[filled] == pytest.approx(2 / 3)
    assert found[0, 0].sum() == 10 * PER_LABEL


def test_a_diagram_that_would_miss_members_is_not_shown(tmp_path):
    write_details(tmp_path / "a")
    larger = SliceColumn(
        "label", TAIL_LABEL, "label", TAIL_LABEL, PER_LABEL + 1, PER_LABEL + 1, True
    )
    found = reliability([tmp_path / "a"], [larger])
    assert found is not None
    assert found[0, 0].sum() == 0


def test_files_that_are_missing_or_cut_short_are_no_error(tmp_path):
    columns = _columns(tmp_path)
    for name in (schema.TELEMETRY_FILE, schema.PREDICTIONS_FILE, schema.LEDGER_FILE,
                 schema.CONFIG_FILE, GRADIENTS_FILE):  # fmt: skip
        (tmp_path / name).write_bytes(b"PAR1 {")
    for folder in (tmp_path, tmp_path / "none"):
        assert norm_windows([folder], columns, 12) is None
        assert reliability([folder], columns) is None
        assert ledger_summary(folder) is None
        assert command(folder) is None
        assert measured([("run", folder)], frozenset()) == []


def test_epsilon_of_a_ledger_is_rounded_up(tmp_path):
    write_details(tmp_path)
    found = ledger_summary(tmp_path)
    assert found is not None
    assert found["epsilon"] == 2.999
    assert found["accountants"]["rdp"] == 3.349
    assert found["delta"] == LEDGER["delta"]
    assert found["not_covered"] == LEDGER["not_covered"]


def test_measured_norms_are_joint_and_the_tail_is_not_thinned_away(tmp_path):
    gradients(5000).to_parquet(tmp_path / GRADIENTS_FILE, index=False)
    (found,) = measured([("run a", tmp_path)], frozenset({"tail"}))
    assert len(found["rare"]) == MOST_POINTS
    assert sum(found["rare"]) == MOST_POINTS // 10
    norms = dict(zip(found["rare"], found["norm"], strict=True))
    assert norms == {1: 5, 0: 1}
    assert set(zip(found["rare"], found["weight"], strict=True)) == {(1, 0.5), (0, 20)}


def test_what_a_file_says_of_its_sides_is_taken(tmp_path):
    rows = gradients(20)
    rows.assign(side=["tail", *["head"] * 18, None]).to_parquet(tmp_path / GRADIENTS_FILE)
    (found,) = measured([("run a", tmp_path)], frozenset({"tail"}))
    assert found["rare"] == [1] + [0] * 19


def test_the_room_is_shared_among_conditions(tmp_path):
    content = cell()
    write(tmp_path, content)
    write_details(tmp_path / content["run_key"])
    (family,) = payload(read_cells(tmp_path).table, tmp_path, [], [])["families"]
    assert family["norms"][0]["step"] == list(STEPS)
    assert len(family["reliability"][0]) == len(family["slices"]) * 3 * BINS
    assert family["texts"][family["ledgers"][0]["not_covered"]] == LEDGER["not_covered"]
    assert "clip=flat" in family["commands"][0]


def test_more_conditions_have_fewer_windows_until_there_are_none():
    windows = [Budget.of(count, 3 * count, 14).windows for count in (10, 200, 2500, 4000)]
    assert windows == sorted(windows, reverse=True)
    assert windows[-2:] == [2, 0]
    assert Budget.of(10, 30, 14).notes() == []
    assert Budget.of(4000, 12_000, 14).notes()


def test_of_very_many_runs_only_some_seeds_are_read():
    assert Budget.of(100, 300, 14).seeds >= 3
    assert Budget.of(2000, 6000, 14).seeds == 1
