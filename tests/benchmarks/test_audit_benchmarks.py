"""The benchmarks of audits: every rule has a row, and tables say what was found."""

import pytest

from benchmarks import audit_bounds, audit_cost, audit_faults
from benchmarks.audit_planted import FAULTS
from dpsgd.experiment.options import config_folder

RUN = {
    "audit_refuted": False, "epsilon": 3.0, "audit_correct": 160, "audit_guesses": 200,
    "audit_epsilon": 1.0, "audit_epsilon_gaussian": 1.5,
}  # fmt: skip


def test_every_rule_and_every_sampler_has_a_row():
    rows = [row.settings for row in audit_bounds.asked()]
    rules = {row.get("clip", "flat") for row in rows}
    samplers = {row.get("sampling", "poisson") for row in rows}
    for group, found in (("clip", rules - {"none"}), ("sampling", samplers)):
        options = {file.stem for file in (config_folder("conf") / group).glob("*.yaml")}
        assert found == options - {"none"}


def test_bounds_are_means_with_their_range_and_share_of_epsilon():
    runs = [RUN, RUN | {"audit_epsilon_gaussian": 0.9, "audit_refuted": True}]
    found = audit_bounds.summary({"flat": runs})["flat"]
    assert (found["gaussian"], found["least"], found["most"]) == (1.2, 0.9, 1.5)
    assert found["share"] == pytest.approx(0.4)
    assert found["refuted"] == 1
    assert max(map(len, audit_bounds.lines({"flat": found}))) <= 80


def test_refuted_runs_are_counted_by_fault():
    found = audit_faults.summary({name: [RUN, RUN | {"audit_refuted": True}] for name in FAULTS})
    assert {row["refuted"] for row in found.values()} == {1}
    table = audit_faults.lines(found)
    assert len(table) == 1 + len(FAULTS)
    assert max(map(len, table)) <= 80


def test_cost_is_the_median_of_ratios_within_a_turn():
    times = {name: [1.0, 2.0, 10.0] for name in audit_cost.AUDITS} | {"gradient": [1.1, 2.2, 30.0]}
    found = audit_cost.summary(times)
    assert found["none"]["ratio"] == 1.0
    assert round(found["gradient"]["ratio"], 6) == 1.1
