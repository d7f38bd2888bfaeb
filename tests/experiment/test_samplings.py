"""Every sampling scheme trains, from the command line's settings and in a loop of one's own."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from dpsgd import Budget, ConfigError, PrivateTraining, part, train

CONF = Path(__file__).parents[2] / "conf" / "sampling"
OPTIONS = [path.stem for path in sorted(CONF.glob("*.yaml"))]
N = 1334  # training records of the digits
USERS = {"users": "dirichlet", "users.count": 60}
NEEDS = {
    "full": {"batch": float(N)},
    "shuffled": {"relation": "replace_one"},
    "poisson_capped_users": USERS,
}
SAYS = {
    "poisson": "every record flips its own coin in every step (Poisson)",
    "poisson_truncated": "a random subset of 111 is kept, which ε accounts for",
    "full": "every record is in every step",
    "shuffled": "No amplification is claimed",
    "poisson_capped_users": "ε is of a user with all its records",
}


def _train(folder, option, **changes):
    base = {
        "debug": "fast", "sampling": option, "tracker": "none", "telemetry": "off",
        "noise_multiplier": 4.0, "epsilon": None, "runs_dir": str(folder), "slices": "label",
    }  # fmt: skip
    settings = base | NEEDS.get(option, {}) | changes
    if settings.get("users") == "given":
        del settings["users.count"]
    return train(settings)


@pytest.mark.parametrize("option", OPTIONS)
def test_a_cell_trains_and_its_page_says_how_it_drew(option, tmp_path):
    run = _train(tmp_path, option)
    page = " ".join((run.folder / "ledger.md").read_text(encoding="utf-8").split())
    assert SAYS[option] in page
    assert run.cell["steps"] == 3
    assert 0 < run.cell["epsilon"] < 3
    unit = "user" if option == "poisson_capped_users" else "record"
    assert run.ledger["unit"] == run.cell["unit"] == unit
    assert f"n = {60 if unit == 'user' else N} units" in page
    assert run.ledger["sampler"]["scheme"] == option
    relation = {
        "shuffled": "as many records each, one of which is another",
        "poisson_capped_users": "one user more, with all its records",
    }
    assert relation.get(option, "one has one record more") in page


@pytest.mark.parametrize("option", [o for o in OPTIONS if o != "poisson_capped_users"])
def test_users_as_units_train_too(option, tmp_path):
    batch = {"full": 60.0}.get(option, 12.0)
    cap = {"clip": "user_level", "batch": batch, "sampling.max_records_per_user": 5}
    run = _train(tmp_path, option, **USERS, **cap)
    assert run.ledger["unit"] == "user"
    assert run.ledger["n_units"] == 60


@pytest.mark.parametrize(
    ("option", "changes", "message"),
    [
        ("shuffled", {"relation": "add_or_remove_one"}, "relation=add_or_remove_one"),
        ("shuffled", {"accountant": "rdp"}, "accountant=rdp: cannot account"),
        ("poisson_capped_users", {"relation": "replace_one"}, "relation=replace_one"),
        ("poisson_capped_users", {"clip": "user_level"}, "clip.unit=user"),
        ("poisson_capped_users", {"users": "given"}, "sampling=poisson_capped_users"),
        ("poisson_truncated", {"accountant": "rdp"}, "accountant=rdp: cannot account"),
        ("full", {"batch": 64.0}, "batch=64"),
        ("poisson", {"accountant": "rdp", "relation": "replace_one"}, "accountant=rdp"),
    ],
)
def test_what_cannot_be_right_is_refused_before_a_run_exists(option, changes, message, tmp_path):
    with pytest.raises(ConfigError) as caught:
        _train(tmp_path, option, **changes)
    assert str(caught.value).startswith(message)
    assert not list(tmp_path.glob("*/ledger.json"))


def test_a_budget_ends_fixed_batches_at_the_end_of_an_epoch(tmp_path):
    changes = {"epsilon": 3.0, "steps": 200, "batch": 200.0}
    run = _train(tmp_path, "shuffled", **changes)
    assert run.cell["stopped_by"] == "budget"
    assert run.cell["steps"] % (N // 200) == 0
    assert run.cell["epsilon"] <= 3.0


def test_rules_enter_through_sigma_alone(tmp_path):
    """ε of one σ is one number, whatever the rule and whatever it asks: the product needs none."""
    rules = {"flat": {}, "per_layer": {}, "adaptive": {}, "group_thresholds": {}}
    found = {
        rule: _train(tmp_path, "poisson_capped_users", clip=rule, **changes).cell["epsilon"]
        for rule, changes in rules.items()
    }
    assert len(set(found.values())) == 1


@pytest.mark.parametrize("option", OPTIONS)
def test_a_loop_of_ones_own_draws_by_every_scheme(option):
    torch.manual_seed(0)
    x, y, owners = torch.rand(200, 6), torch.randint(3, (200,)), torch.arange(200) // 4
    relation = "replace_one" if option == "shuffled" else "add_or_remove_one"
    budget = Budget(0.5, 1e-3, 3, 200.0 if option == "full" else 20.0, relation)
    people = {"records": owners, "users": 50} if option == "poisson_capped_users" else {}
    model = nn.Linear(6, 3)
    private = PrivateTraining(
        model, part("clip/flat"), budget, **({"records": 200} | people),
        sampling=part(f"sampling/{option}"),
    )  # fmt: skip
    for records in private:
        private.step(x[records], y[records])
        assert model.weight.grad.abs().min() > 0
    assert private.epsilon <= 0.5
    assert private.ledger["sampler"]["name"] == option
    assert private.ledger["n_units"] == (50 if people else 200)
    assert private.ledger["unit"] == ("user" if people else "record")


def test_a_sampling_holds_its_own_settings():
    with pytest.raises(ConfigError, match="max_records_per_user=3"):
        PrivateTraining(
            nn.Linear(2, 2), part("clip/user_level"), Budget(2.0, 1e-2, 3, 5.0),
            torch.arange(20), users=20, sampling=part("sampling/shuffled"), max_records_per_user=3,
        )  # fmt: skip
