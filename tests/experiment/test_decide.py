"""Decisions during training cost what they cost: nothing where validation is public, and inside ε
for every look that was planned where it is not.
"""

import math

import numpy as np
import pytest
from deciding import DECIDE, EARLY, PRIVATE, SHARED, TINY, planned, tiny
from scipy import optimize, special

from analysis import schema
from dpsgd import ConfigError, part
from dpsgd.accounting import PLD, RDP, format_epsilon
from dpsgd.data.bundle import holdout_is_public
from dpsgd.experiment.choosing import choice, choice_text
from dpsgd.experiment.composition import total
from dpsgd.experiment.identity import cell_config, key_of, run_key
from dpsgd.experiment.ledger import composed_event, ledger_of
from dpsgd.experiment.prepared import prepare
from dpsgd.experiment.settings import baseline, read_cell
from dpsgd.python import resolved

FULL = {"sampling": "full", "batch": 1334}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """One folder for all: what an accountant answered, and what was trained, is kept."""
    return tmp_path_factory.mktemp("runs")


def exact(mu, delta):
    """ε of a Gaussian whose means are μ standard deviations apart (Balle and Wang, 2018)."""

    def excess(epsilon):
        above = epsilon + special.log_ndtr(-mu / 2 - epsilon / mu)
        return special.ndtr(mu / 2 - epsilon / mu) - math.exp(above) - delta

    return optimize.brentq(excess, 0.0, 100.0)


def of_looks(run):
    return run.evaluation[run.evaluation["metric"] == schema.LOOK]


def entry_of_looks(ledger):
    (found,) = [one for one in ledger["entries"] if one["draw_id"] == "looks"]
    return found


@pytest.mark.parametrize(("relation", "apart"), [("add_or_remove_one", 1), ("replace_one", 2),
                                                 ("replace_special", 1)])  # fmt: skip
def test_steps_and_looks_together_cost_what_one_gaussian_says(relation, apart, runs):
    plan = planned(runs, **PRIVATE, **FULL, relation=relation)
    assert plan.prepared.looks.decide.looks(12) == (2, 4, 6, 8, 10, 12)
    mu = apart * math.sqrt(12 / plan.noise_multiplier**2 + 6 / 10.0**2)
    assert plan.epsilon == pytest.approx(exact(mu, plan.prepared.delta), rel=2e-3)
    assert 2.99 < plan.epsilon <= 3.0
    assert entry_of_looks(ledger_of(plan))["noise_multiplier"] == 10.0


@pytest.mark.parametrize("name", ["pld", "rdp", "prv", "moments"])
def test_every_accountant_certifies_steps_and_looks_together(name, runs):
    plan = planned(runs, **PRIVATE, accountant=name)
    assert 2.99 < plan.epsilon <= 3.0
    # Two upper bounds of the same composition; without the looks PLD would be clearly lower.
    pld = PLD("pld", 1e-4)
    relation, delta = "add_or_remove_one", plan.prepared.delta
    whole = pld.epsilon(composed_event(ledger_of(plan)), relation, delta)
    steps = pld.epsilon(plan.prepared.sampler.event(plan.noise_multiplier, 12), relation, delta)
    assert steps < 0.99 * whole <= plan.epsilon


def test_accountants_that_cannot_answer_for_replace_one_do_not_certify_looks(runs):
    for name in ("rdp", "prv", "moments"):
        with pytest.raises(ConfigError, match=f"accountant={name}.*replace_one"):
            planned(runs, **PRIVATE, **FULL, accountant=name, relation="replace_one")


@pytest.mark.parametrize("changes", [
    {"sampling": "poisson_truncated"}, {"sampling": "shuffled", "relation": "replace_one"},
    {"sampling": "poisson_capped_users", "batch": 10} | SHARED,
])  # fmt: skip
def test_looks_compose_with_what_every_sampler_states(changes, runs):
    plan = planned(runs, **(PRIVATE if "data" not in changes else DECIDE), **changes)
    assert 2.99 < plan.epsilon <= 3.0
    ledger = ledger_of(plan)
    found = PLD("pld", 1e-4).epsilon(
        composed_event(ledger), plan.prepared.cell.settings.relation, plan.prepared.delta
    )
    assert found == pytest.approx(plan.epsilon, rel=1e-6)


def test_a_budget_pays_for_the_looks_too(runs):
    fixed = {
        "noise_multiplier": 0.8,
        "epsilon": 1.98,
        "steps": 40,
        "data.holdout": "private",
        "accountant": "rdp",
    }
    without = planned(runs, **fixed)
    plan = planned(runs, **fixed, **DECIDE)
    assert plan.stopped_by == without.stopped_by == "budget"
    assert plan.steps < without.steps
    assert plan.epsilon <= 1.98
    prepared = plan.prepared
    more = prepared.event(0.8, plan.steps + 1)
    assert RDP("rdp", None).epsilon(more, "add_or_remove_one", prepared.delta) > 1.98


def test_public_looks_cost_nothing_and_the_ledger_says_what_was_read(runs):
    run, without = tiny(runs, **DECIDE), tiny(runs)
    assert run.cell["noise_multiplier"] == without.cell["noise_multiplier"]
    assert [one["purpose"] for one in run.ledger["entries"]] == ["gradient"]
    line = "read from validation data, declared public"
    assert [entry for entry in run.ledger["not_covered"] if line in entry and "decision" in entry]
    page = (run.folder / "ledger.md").read_text()
    assert "## Decisions during training" in page
    assert "no ε is spent" in page
    assert "n = 179 records in the validation split, declared public" in page
    assert set(of_looks(run)["release"]) == {"public"}
    assert "decisions" not in without.ledger
    assert "Decisions" not in (without.folder / "ledger.md").read_text()


def test_the_released_parameters_are_those_of_the_best_look(runs):
    run = tiny(runs, **DECIDE, **{"optim.lr": 3.0})
    found = of_looks(run)
    best = found.loc[found["value"].idxmax()]
    assert run.cell["step_released"] == best["step"]
    final = run.evaluation[run.evaluation["metric"] != schema.LOOK]
    assert set(final["step"]) == {best["step"]}
    of_all = (final["split"] == "validation") & (final["slice_kind"] == "all")
    (accuracy,) = final[of_all & (final["metric"] == "accuracy")]["value"]
    assert accuracy == pytest.approx(best["value"])


def test_stopping_saves_time_and_no_epsilon(runs):
    patient = tiny(runs, **PRIVATE, **{"decide.patience": None})
    early = tiny(runs, **PRIVATE, **EARLY)
    assert early.cell["stopped_by"] == "early stopping"
    assert (early.cell["steps_taken"], early.cell["steps"]) == (4, 12)
    assert (patient.cell["stopped_by"], patient.cell["steps_taken"]) == ("steps", 12)
    assert early.cell["epsilon"] == patient.cell["epsilon"]
    assert early.cell["noise_multiplier"] == patient.cell["noise_multiplier"]
    assert entry_of_looks(early.ledger)["steps"] == 6
    assert [one["steps"] for one in early.ledger["entries"]] == [12, 6]
    assert list(of_looks(early)["step"]) == [2, 4]


def test_the_entry_says_what_the_looks_decide(runs):
    for purpose, changes in {
        "early stopping": {"decide.select": False},
        "selection": {"decide.patience": None},
        "validation": {},
    }.items():
        plan = planned(runs, **PRIVATE, **changes)
        assert entry_of_looks(ledger_of(plan))["purpose"] == purpose


def test_a_look_is_shown_with_the_interval_of_its_noise(runs):
    run = tiny(runs, **PRIVATE, **{"decide.patience": None})
    found = of_looks(run)
    half = 1.96 * 10.0 * 0.5 / 179
    assert np.allclose(found["hi"] - found["lo"], 2 * half, rtol=1e-3)
    assert set(found["release"]) == {"accounted"}
    assert set(found["n"]) == {179}


@pytest.mark.parametrize("unit", ["user", "record"])
def test_known_users_are_protected_whatever_is_declared(unit, runs):
    clip = {"clip": "user_level"} if unit == "user" else {}
    run = tiny(runs, **SHARED, **DECIDE, **clip)
    decisions = run.ledger["decisions"]
    assert decisions["release"] == "accounted"
    assert (decisions["unit"], decisions["units"]) == (unit, 12 if unit == "user" else 24)
    assert entry_of_looks(run.ledger)["unit"] == unit
    assert "declared public" in (run.folder / "ledger.md").read_text()


def test_a_diagnostic_has_the_noise_of_its_private_cell(runs):
    private = planned(runs, **PRIVATE)
    noisy = planned(runs, **PRIVATE, mechanism="noise_only")
    assert noisy.noise_multiplier == private.noise_multiplier
    assert noisy.prepared.looks.noise_multiplier == 10.0
    assert noisy.prepared.looks.release == "private"
    assert planned(runs, **PRIVATE, mechanism="clip_only").prepared.looks.noise_multiplier == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (PRIVATE | {"decide.every": 12}, r"^decide.every=12: leaves 1 looks"),
        (PRIVATE | {"decide.select": False, "decide.patience": 5}, r"^decide.every=2: leaves 5"),
        (PRIVATE | {"decide.noise": 1.0}, r"^decide.noise=1.0: 6 looks alone cost"),
        (PRIVATE | {"decide.noise": 0}, r"^decide.noise=0"),
        (PRIVATE | {"decide.select": False, "decide.patience": None}, r"^decide.select=false"),
        (PRIVATE | {"users": "dirichlet", "clip": "user_level"}, r"^decide=validation: .*users"),
        ({"decide": {"_target_": "dpsgd.telemetry.off.Off", "name": "off"}}, r"^decide=Off"),
    ],
)  # fmt: skip
def test_what_cannot_be_right_is_refused_before_training(changes, message, runs):
    with pytest.raises(ConfigError, match=message):
        planned(runs, **changes)


def test_cells_without_decisions_are_the_runs_they_were():
    cell = read_cell(resolved(TINY))
    config = cell_config(cell)
    old = {name: value for name, value in config.items() if name != "decide"}
    assert key_of(old, "x", 1, {}) == key_of(config, "x", 1, {})
    assert read_cell({k: v for k, v in resolved(TINY).items() if k != "decide"}) == cell
    deciding = read_cell(resolved(TINY | DECIDE))
    assert run_key(deciding, "x") != run_key(cell, "x")
    assert run_key(baseline(deciding), "x") == run_key(baseline(cell), "x")


def test_the_total_of_several_runs_counts_their_looks(runs):
    plans = [planned(runs, **PRIVATE, seed=seed) for seed in (0, 1)]
    ledgers = [(runs / plan.prepared.run_key, ledger_of(plan)) for plan in plans]
    one, two = total(ledgers[:1]), total(ledgers)
    assert one.epsilon == pytest.approx(plans[0].epsilon, rel=1e-6)
    bare = [(folder, ledger | {"entries": ledger["entries"][:1]}) for folder, ledger in ledgers]
    assert two.epsilon > total(bare).epsilon > one.epsilon


def test_a_repeated_run_looks_alike(runs, tmp_path):
    first = tiny(runs, **PRIVATE)
    again = tiny(tmp_path, **PRIVATE)
    assert again.folder != first.folder
    assert of_looks(first).equals(of_looks(again))
    assert first.ledger["stream_id"] == again.ledger["stream_id"]


def test_public_is_what_it_is_for_telemetry_too():
    bundle = prepare(read_cell(resolved(TINY | SHARED | DECIDE))).bundle
    assert bundle.holdout == "public"
    assert not holdout_is_public(bundle)
    assert part("decide/none").name == "none"


def test_choosing_among_random_runs_costs_more_than_one_and_less_than_all(runs):
    ledger = ledger_of(planned(runs, **PRIVATE))
    found = choice(ledger, "add_or_remove_one", ledger["delta"])
    assert found.one == pytest.approx(ledger["epsilon_by_accountant"]["rdp"])
    assert found.one < found.logarithmic < found.geometric < found.every
    said = choice_text(ledger, "add_or_remove_one", ledger["delta"])
    assert format_epsilon(found.geometric) in said
    assert "not known" in choice_text(ledger, "replace_one", ledger["delta"])
