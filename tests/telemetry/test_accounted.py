"""Accounted telemetry: what it writes follows from noised answers alone, and covers the truth."""

import dataclasses
import math
from functools import cache

import numpy as np
import pytest
import torch
from scipy import stats

from analysis import schema
from dpsgd import part
from dpsgd.clipping.joint import Joint
from dpsgd.python import train
from dpsgd.telemetry.accounted import Accounted
from dpsgd.telemetry.counts import PURPOSE
from dpsgd.telemetry.recorder import StepFacts

KEYS = (("all", "all"), ("label", "a"), ("label", "b"))
EXPECTED, SIGMA = 100.0, 1.5
TRUE = torch.tensor([[40.0, 60.0], [39.0, 21.0], [1.0, 39.0]])
"""Clipped and not clipped by slice, in every step."""


@cache
def configured(option):
    return part(option)


def started(**changes):
    telemetry = dataclasses.replace(configured("telemetry/accounted"), window=4, **changes)
    rule = telemetry.joint(configured("clip/flat"), slices=3, groups=1, most=2)
    return telemetry.start(rule, ("all",), KEYS, SIGMA, EXPECTED)


def feed(recorder, steps, seed=0):
    generator = torch.Generator().manual_seed(seed)
    for step in range(1, steps + 1):
        noise = math.sqrt(recorder.variance) * torch.randn(TRUE.shape, generator=generator)
        answer = {PURPOSE: (TRUE + noise).flatten() / EXPECTED}
        # What is raw is not there at all: whoever looks at it fails.
        recorder.add(StepFacts(step, *(None,) * 4, threshold=1.0, answers=answer))
    recorder.finish()
    return recorder


def test_the_noise_of_a_count_is_that_of_the_release():
    recorder = started(share=0.2)
    assert recorder.variance == pytest.approx(SIGMA**2 * 2 / 0.2)


def test_windows_add_up_and_the_last_may_be_short():
    recorder = feed(started(share=0.5), 10)
    fractions = [r for r in recorder.rows if r["stat"] == "clip_fraction" and r["slice"] == "all"]
    assert [row["step"] for row in fractions] == [4, 8, 10]
    units = [r["value"] for r in recorder.rows if r["stat"] == "units" and r["slice"] == "all"]
    sd = math.sqrt(2 * recorder.variance)
    for found, steps in zip(units, (4, 4, 2), strict=True):
        assert abs(found - 100 * steps) < 4 * sd * math.sqrt(steps)
    assert recorder.totals()[0]["value"] == pytest.approx(0.4, abs=0.05)


def test_every_row_is_accounted_and_none_is_raw():
    recorder = feed(started(), 9)
    assert {row["release"] for row in recorder.rows + recorder.totals()} == {"accounted"}
    assert {row["stat"] for row in recorder.rows} == {"clip_fraction", "units", "threshold"}
    assert {row["metric"] for row in recorder.totals()} == {"clip_fraction"}
    assert not recorder.wants_bias(25)


def test_intervals_hold_the_truth_and_grow_with_the_noise():
    held, widths = [], {}
    for share in (0.05, 0.5):
        for seed in range(60):
            totals = feed(started(share=share), 8, seed).totals()
            true = (TRUE[:, 0] / TRUE.sum(1)).tolist()
            held += [r["lo"] <= t <= r["hi"] for r, t in zip(totals, true, strict=True)]
            widths.setdefault(share, []).append(totals[0]["hi"] - totals[0]["lo"])
    assert stats.binom.cdf(sum(held), len(held), 0.95) > 1e-3
    assert np.mean(widths[0.05]) > 2 * np.mean(widths[0.5])


def test_a_slice_that_is_too_small_says_so():
    recorder = started()
    nothing = torch.zeros(3, 2)
    nothing[0] = torch.tensor([500.0, 500.0])
    for step in range(1, 5):
        answers = {PURPOSE: nothing.flatten() / EXPECTED}
        recorder.add(StepFacts(step, *(None,) * 4, threshold=1.0, answers=answers))
    some, none = (
        next(r for r in recorder.rows if r["stat"] == "clip_fraction" and r["slice"] == name)
        for name in ("all", "a")
    )
    assert some["lo"] < some["value"] < some["hi"]
    assert math.isnan(none["value"])
    assert (none["lo"], none["hi"], none["n"]) == (0.0, 1.0, 0)
    assert recorder.clip_fraction == pytest.approx(0.5)


@pytest.mark.parametrize(
    "changes", [{"share": 0.0}, {"share": 1.0}, {"window": 0}, {"most_memberships": -1}]
)
def test_settings_without_sense_are_refused(changes):
    with pytest.raises(ValueError, match=next(iter(changes))):
        part("telemetry/accounted", **changes)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return train({
        "debug": "fast", "tracker": "none", "telemetry": "accounted", "clip": "adaptive",
        "telemetry.share": 0.5, "runs_dir": str(tmp_path_factory.mktemp("runs")),
    })  # fmt: skip


def test_a_run_writes_nothing_raw_about_training_records(run):
    assert set(run.telemetry["release"]) == {"accounted"}
    assert set(run.telemetry["stat"]) == {"clip_fraction", "units", "threshold"}
    assert list(run.telemetry.columns) == list(schema.TELEMETRY)
    metrics = run.cell["metrics"]
    rows = zip(*(metrics[c] for c in ("split", "metric", "release")), strict=True)
    of_train = {(metric, release) for split, metric, release in rows if split == "train"}
    assert of_train == {("clip_fraction", "accounted")}
    assert not any("telemetry.parquet" in line for line in run.ledger["not_covered"])


def test_its_ledger_says_what_the_counts_take(run):
    shares = {entry["purpose"]: entry["share"] for entry in run.ledger["entries"]}
    assert shares == run.ledger["shares"]
    assert shares[PURPOSE] == 0.5
    assert sum(shares.values()) == pytest.approx(1.0)
    assert set(shares) == {"gradient", "clip query", PURPOSE}
    assert "1.414 times" in run.ledger["telemetry"]
    assert run.ledger["scale"] == [pytest.approx(0.1 / math.sqrt(shares["gradient"]))]


def test_telemetry_inside_epsilon_costs_no_epsilon(run, tmp_path):
    without = train({
        "debug": "fast", "tracker": "none", "telemetry": "off", "clip": "adaptive",
        "runs_dir": str(tmp_path),
    })  # fmt: skip
    for key in ("epsilon", "noise_multiplier", "steps"):
        assert without.cell[key] == run.cell[key]


def test_an_accounted_rule_is_a_joint_of_the_configured_one():
    rule = Accounted("accounted", 0.1, 5, None, None, of_groups=True).joint(
        part("clip/per_layer"), slices=4, groups=3, most=2
    )
    assert isinstance(rule, Joint)
    assert rule.queries[0].columns == 2 * 4 * (3 + 1)
    assert rule.queries[0].sensitivity == pytest.approx(math.sqrt(2 * 4))
