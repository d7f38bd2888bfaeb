"""The private step inside a loop of one's own."""

import json

import pytest
import torch
from torch import nn

from dpsgd import Budget, ConfigError, PrivacyError, PrivateTraining, part
from dpsgd.training.loss import cross_entropy

X, Y = torch.rand(200, 6), torch.randint(3, (200,))
BUDGET = Budget(epsilon=2.0, delta=1e-3, steps=5, batch=20)


def _private(model=None, budget=BUDGET, rule="flat", records=200, **options):
    torch.manual_seed(0)
    model = model or nn.Linear(6, 3)
    return model, PrivateTraining(model, part(f"clip/{rule}"), budget, records=records, **options)


def test_a_loop_trains_within_its_budget_and_leaves_a_ledger(tmp_path):
    model, private = _private(ledger=tmp_path)
    written = json.loads((tmp_path / "ledger.json").read_text())
    assert 2.0 * (1 - 1e-3) <= private.epsilon <= 2.0
    assert written["entries"][0]["noise_multiplier"] == private.noise_multiplier
    before = model.weight.detach().clone()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    steps = 0
    for records in private:
        losses = private.step(X[records], Y[records])
        assert losses.shape == (len(records),)
        optimizer.step()
        steps += 1
    assert steps == 5
    assert not torch.equal(before, model.weight)
    assert list(private) == []


def test_the_ledger_of_another_release_is_not_written_over(tmp_path):
    _, first = _private(ledger=tmp_path)
    with pytest.raises(PrivacyError, match="ledger of another release: its ε = "):
        _private(ledger=tmp_path)
    stored = json.loads((tmp_path / "ledger.json").read_text(encoding="utf-8"))
    assert stored["stream_id"] == first.ledger["stream_id"]
    for _ in range(2):  # the same seed and fingerprint are the same release
        _private(ledger=tmp_path / "seeded", seed=3, fingerprint="x")


@pytest.mark.parametrize("seed", [None, 3])
def test_a_seed_repeats_and_no_seed_does_not(seed):
    def noise():
        model, private = _private(seed=seed, fingerprint="x")
        for records in private:
            private.step(X[records], Y[records])
            break
        return model.weight.grad

    assert torch.equal(noise(), noise()) == (seed is not None)
    _, private = _private(seed=seed, fingerprint="x")
    assert ("void" in private.ledger["randomness"]) == (seed is not None)


def test_a_draw_without_a_step_is_refused():
    _, private = _private()
    with pytest.raises(PrivacyError, match="no private step taken"):
        for _ in private:
            pass


def test_a_step_without_a_draw_and_rows_of_no_draw_are_refused():
    _, private = _private()
    with pytest.raises(PrivacyError, match="no batch was drawn"):
        private.step(X[:3], Y[:3])
    for records in private:
        with pytest.raises(PrivacyError, match="draw of"):
            private.step(X, Y)
        private.step(X[records], Y[records])


def test_an_empty_draw_is_a_step_of_pure_noise():
    model, private = _private(budget=Budget(2.0, 1e-3, steps=200, batch=1.0))
    empty = 0
    for records in private:
        private.step(X[records], Y[records])
        empty += not len(records)
        assert float(model.weight.grad.abs().min()) > 0
    assert empty > 30


def test_users_are_units_with_a_cap_and_the_noise_is_that_of_users():
    # One user with 5,000 records and 9 with one each: at most 10 of the first enter.
    owner = torch.cat([torch.zeros(5000), torch.arange(1, 10)]).long()
    x, y = torch.rand(len(owner), 4), torch.zeros(len(owner), dtype=torch.int64)
    model = nn.Linear(4, 2)
    private = PrivateTraining(
        model, part("clip/user_level", norm=0.5), Budget(3.0, 1e-2, steps=300, batch=5.0), owner,
        users=10, max_records_per_user=10, seed=1, fingerprint="planted",
    )  # fmt: skip
    assert private.ledger["unit"] == "user"
    grads = []
    for records in private:
        assert int((owner[records] == 0).sum()) <= 10
        private.step(x[records], y[records])
        grads.append(model.weight.grad.flatten().clone())
    found = torch.stack(grads).var(0).mean().sqrt()
    # Noise σ·C/m, and the users' own spread, each at most C/m·√q(1-q)·√10, on top of it.
    noise = private.noise_multiplier * 0.5 / 5.0
    assert noise * 0.95 <= float(found) <= noise * 1.25


def test_a_step_that_failed_after_its_noise_is_not_repeated():
    model, private = _private()
    records = next(iter(private))
    private.rule = _Fails(private.rule)
    with pytest.raises(RuntimeError, match="update"):
        private.step(X[records], Y[records])
    assert model.weight.grad is None
    with pytest.raises(PrivacyError, match="noise twice"):
        private.step(X[records], Y[records])
    with pytest.raises(PrivacyError, match="noise twice"):
        next(iter(private))


class _Fails:
    """A rule whose update fails."""

    def __init__(self, rule):
        self._rule = rule

    def __getattr__(self, name):
        return getattr(self._rule, name)

    def update(self, state, answer):
        raise RuntimeError("update")


@pytest.mark.parametrize("change", ["seed", "fingerprint", "weights"])
def test_other_data_weights_or_seeds_have_other_streams(change):
    def stream(seed=1, fingerprint="a", scale=1.0):
        torch.manual_seed(0)
        model = nn.Linear(6, 3)
        with torch.no_grad():
            model.weight *= scale
        options = {"seed": seed, "fingerprint": fingerprint}
        return _private(model, **options)[1].ledger["stream_id"]

    other = {"seed": {"seed": 2}, "fingerprint": {"fingerprint": "b"}, "weights": {"scale": 2.0}}
    assert stream() == stream()
    assert stream() != stream(**other[change])


def test_a_loss_over_the_batch_is_found_whatever_the_model_draws():
    def balanced(outputs, targets):
        share = torch.bincount(targets, minlength=3)[targets] / len(targets)
        return cross_entropy(outputs, targets) / share

    model = nn.Sequential(nn.Linear(6, 4), nn.Dropout(0.5), nn.Linear(4, 3))
    _, private = _private(model, loss=balanced)
    records = next(iter(private))
    with pytest.raises(ConfigError, match="other rows"):
        private.step(X[records], Y[records])


def test_the_key_is_in_no_text():
    _, private = _private()
    assert str(private.streams.key) not in repr(private.streams)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rule": "none"}, "bounds nothing"),
        ({"rule": "group_thresholds"}, "needs slices"),
        ({"rule": "user_level"}, "users"),
        ({"users": 3}, "records are units"),
        ({"budget": Budget(2.0, 0.5, 5, 20.0)}, "delta"),
        ({"budget": Budget(2.0, 0.0, 5, 20.0)}, "delta"),
        ({"seed": 1}, "fingerprint"),
        ({"budget": Budget(2.0, 1e-3, 5, 300.0)}, "batch"),
    ],
)
def test_what_makes_no_sense_is_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        _private(**options)


def test_a_model_that_mixes_rows_is_refused_at_its_first_step():
    model = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))
    _, private = _private(model)
    records = next(iter(private))
    with pytest.raises(ConfigError, match="BatchNorm1d"):
        private.step(X[records], Y[records])


class Other(nn.Linear):
    """The same parameters and the same words, and another function."""

    def forward(self, x):
        return -super().forward(x)

    def __repr__(self):
        return nn.Linear(6, 3).__repr__()


def other_loss(outputs, targets):
    return 2 * cross_entropy(outputs, targets)


@pytest.mark.parametrize(
    ("model", "options"),
    [
        (nn.Sequential(nn.Linear(6, 3), nn.Tanh()), {}),
        (Other(6, 3), {}),
        (nn.Linear(6, 3), {"loss": other_loss}),
    ],
)
def test_another_model_or_loss_of_one_seed_draws_other_noise(model, options):
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    same = (
        nn.Sequential(nn.Linear(6, 3), nn.ReLU())
        if isinstance(model, nn.Sequential)
        else nn.Linear(6, 3)
    )

    def stream(one, **more):
        return _private(one, seed=3, fingerprint="x", **more)[1].ledger["stream_id"]

    with torch.no_grad():
        for parameter in same.parameters():
            parameter.zero_()
    assert stream(model, **options) != stream(same)
