"""A draw in micro-batches is the same step, and holds one of them at a time."""

import weakref
from dataclasses import dataclass

import pytest
import torch
from planted_training import ENGINES, engine, net, recorder, rows, rules, run, split, step, trainer

from dpsgd import Budget, PrivateTraining, part
from dpsgd.clipping.flat import Flat
from dpsgd.clipping.rule import clip_factor
from dpsgd.errors import PrivacyError
from dpsgd.randomness import Streams
from dpsgd.training.micro import shares
from dpsgd.training.step import private_step

USERS = torch.arange(20).repeat_interleave(6)[torch.randperm(120, generator=torch.Generator())]
OWN = torch.tensor([0, 0, 0, 0, 0, 1, 3, 3, 4, 5, 5, 5])  # user 0 has most; 2 and 6 have no record
COUNT = 7


@pytest.mark.parametrize("most", [1, 2, 3, 5, 11, 12, 99, None])
@pytest.mark.parametrize("rule", ["flat", "per_layer", "adaptive"])
@pytest.mark.parametrize("unit", [None, OWN])
@pytest.mark.parametrize("name", ENGINES)
def test_any_size_gives_the_step_of_the_whole_draw(name, unit, rule, most):
    x, y = rows(12)
    chosen, rule = engine(name), rules("record" if unit is None else "user")[rule]
    whole = step(chosen, rule, x, y, unit, COUNT, raw=True)
    parts = step(chosen, rule, x, y, unit, COUNT, most=most, raw=True)
    assert whole.norms.shape[0] == (12 if unit is None else COUNT)
    assert float(whole.norms.min()) == 0 or unit is None
    for key in ("norms", "weights", "losses", "answer"):
        found, right = getattr(parts, key), getattr(whole, key)
        assert torch.allclose(found, right, rtol=1e-12, atol=1e-12), key
    for key in ("mean", "raw"):
        for name_, right in getattr(whole, key).items():
            assert torch.allclose(getattr(parts, key)[name_], right, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("most", [1, 2, 3, 5, 12])
def test_a_unit_is_never_split(most):
    found = list(shares(OWN, COUNT, most))
    assert sum(s.count for s in found) == COUNT
    assert [i for s in found for i in range(s.rows.start, s.rows.stop)] == list(range(12))
    first = 0
    for share in found:
        assert torch.equal(share.unit + first, OWN[share.rows])
        assert len(share.unit) <= most or share.count == 1
        first += share.count
    owners = [set(OWN[s.rows].tolist()) for s in found]
    assert sum(map(len, owners)) == len(set().union(*owners))


def test_shares_are_as_large_as_they_may_be():
    sizes = [len(s.unit) for s in shares(torch.arange(10), 10, 4)]
    assert sizes == [4, 4, 2]
    assert [s.count for s in shares(torch.empty(0, dtype=torch.int64), 0, 4)] == [0]
    assert [s.count for s in shares(torch.empty(0, dtype=torch.int64), 3, 4)] == [3]


class _Watched:
    """An engine that fails if what it captured before is still alive."""

    def __init__(self, inner):
        self._inner, self.before = inner, []

    def __getattr__(self, name):
        return getattr(self._inner, name)

    def capture(self, *args):
        assert all(ref() is None for ref in self.before)
        gradients = self._inner.capture(*args)
        self.before.append(weakref.ref(gradients))
        return gradients


@pytest.mark.parametrize("name", ENGINES)
def test_one_micro_batch_is_alive_at_a_time(name):
    x, y = rows(12)
    watched = _Watched(engine(name))
    step(watched, rules()["flat"], x, y, most=5, raw=True)
    assert len(watched.before) == 3
    watched = _Watched(engine(name))
    run(trainer(watched, micro_batch=9, steps=2))
    assert len(watched.before) > 4


def test_noise_is_drawn_once_a_step():
    x, y = rows(12)
    whole, parts = (step(engine(), rules()["flat"], x, y, most=n, sigma=2.0) for n in (None, 2))
    for name, noise in whole.noise.items():
        assert torch.equal(parts.noise[name], noise)


def test_a_step_without_a_micro_batch_is_refused():
    rule, generator = rules()["flat"], torch.Generator()
    with pytest.raises(PrivacyError, match="one micro-batch at least"):
        private_step(
            [], rule, {"threshold": torch.ones(1)}, None, {}, clipping=True, noise_multiplier=1.0,
            expected_units=1.0, generator=generator,
        )  # fmt: skip


def _near(first, second):
    return all(torch.allclose(first[k], second[k], rtol=1e-4, atol=1e-6) for k in first)


@pytest.mark.parametrize("users", [None, USERS])
def test_training_in_micro_batches_ends_at_the_same_parameters(users):
    of = split(users=None if users is None else users.numpy())
    losses, whole, telemetry = run(trainer(engine(), users=users), of)
    others, parts, rows_of = run(trainer(engine(), users=users, micro_batch=4), of)
    assert torch.allclose(torch.tensor(losses), torch.tensor(others), rtol=1e-4)
    assert _near(whole, parts)
    keys = [(r["step"], r["group"], r["stat"], r["n"]) for r in telemetry.rows]
    assert keys == [(r["step"], r["group"], r["stat"], r["n"]) for r in rows_of.rows]
    assert {"cosine", "snr"} <= {r["stat"] for r in rows_of.rows}


def test_dropout_goes_on_from_one_micro_batch_to_the_next():
    masks = []

    def seen(module, args, output):
        masks.append(output.detach() != 0)

    trained = trainer(engine(), micro_batch=10, dropout=0.5, steps=1)
    trained.model[2].register_forward_hook(seen)
    before = torch.get_rng_state()
    run(trained)
    assert torch.equal(torch.get_rng_state(), before)
    full = [m for m in masks if m.shape == (10, 6) and not m.all()]
    assert len(full) >= 2
    assert not torch.equal(full[0], full[1])
    whole, parts = (run(trainer(engine(), micro_batch=n, dropout=0.5))[1] for n in (None, 8))
    assert _near(whole, parts)


def test_a_loop_of_ones_own_takes_micro_batches(monkeypatch):
    one = Streams.from_seed(1, "one stream for both")
    monkeypatch.setattr(PrivateTraining, "_keyed", lambda *_: one)

    def gradients(micro_batch):
        torch.manual_seed(0)
        model, (x, y) = net(), rows(60)
        private = PrivateTraining(
            model, part("clip/flat", norm=0.5), Budget(3.0, 1e-3, steps=3, batch=20), 60, seed=1,
            fingerprint="x", engine=part("engine/bookkeeping", micro_batch=micro_batch),
        )  # fmt: skip
        found = []
        for records in private:
            losses = private.step(x[records], y[records])
            assert len(losses) == len(records)
            found.append([p.grad.clone() for p in model.parameters()])
        return found

    for whole, parts in zip(gradients(None), gradients(3), strict=True):
        assert all(torch.allclose(a, b, atol=1e-12) for a, b in zip(whole, parts, strict=True))


@dataclass(frozen=True)
class BySlice(Flat):
    """A rule that clips the units of one slice at half the norm."""

    def weights(self, norms, state, info):
        return clip_factor(norms, state["threshold"] / (1 + info["slice"].double()))


@pytest.mark.parametrize("non_finite", ["stop", "drop"])
@pytest.mark.parametrize("most", [1, 5])
def test_every_unit_keeps_its_own_slices(most, non_finite):
    x, y = rows(12)
    if non_finite == "drop":
        x[4] = float("nan")
    rule, info = BySlice("mine", "record", 0.05), {"slice": torch.arange(12)[:, None] % 3 == 1}
    options = {"info": info, "non_finite": non_finite}
    whole, parts = (step(engine(), rule, x, y, most=n, **options) for n in (None, most))
    assert torch.allclose(whole.weights, parts.weights, rtol=1e-12)
    lengths = (whole.norms * whole.weights).flatten()
    right = torch.where(info["slice"].flatten(), 0.025, 0.05).double()
    assert torch.allclose(lengths[lengths > 0], right[lengths > 0], rtol=1e-4)


@dataclass(frozen=True)
class BatchMax(Flat):
    """A rule that looks at its neighbours."""

    def weights(self, norms, state, info):
        return (0.1 / norms.max().clamp_min(1e-9)).expand_as(norms)


def test_a_rule_that_looks_at_others_is_found_in_micro_batches_too():
    x, y = rows(12)
    for most in (None, 1, 4):
        with pytest.raises(PrivacyError, match="depends on the other units"):
            step(engine(), BatchMax("mine", "record", 1.0), x, y, most=most)


def test_the_recorder_gets_every_unit_of_the_draw():
    trained = trainer(engine(), micro_batch=7)
    record = recorder(trained)
    run(trained, record=record)
    counts = [r["n"] for r in record.rows if r["stat"] == "units"]
    assert sum(counts) == sum(
        trained.sampler.draw(trained.streams.generator("sampling", s)).units for s in range(1, 7)
    )
