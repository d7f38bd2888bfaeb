"""A gradient that is not finite stops the run, or its unit is left out and nothing else changes."""

import math

import numpy as np
import pytest
import torch
from planted_training import ENGINES, engine, net, recorder, rows, rules, run, split, step, trainer

from dpsgd import Budget, PrivacyError, PrivateTraining, part
from dpsgd.training.step import NonFiniteError

OWN = torch.tensor([0, 0, 1, 1, 1, 2, 3, 3])
BAD_ROW = 3  # of user 1


def _planted(value):
    x, y = rows(8)
    x[BAD_ROW, 2] = value
    return x, y


@pytest.mark.parametrize("value", [math.inf, math.nan])
@pytest.mark.parametrize("unit", [None, OWN])
@pytest.mark.parametrize("most", [None, 1, 3])
@pytest.mark.parametrize("rule", ["flat", "per_layer", "adaptive"])
@pytest.mark.parametrize("name", ENGINES)
def test_drop_is_the_draw_without_that_unit(name, rule, most, unit, value):
    x, y = _planted(value)
    chosen, rule = engine(name), rules("record" if unit is None else "user")[rule]
    found = step(chosen, rule, x, y, unit, 4, most=most, sigma=1.0, non_finite="drop", raw=True)
    own = torch.arange(8) if unit is None else unit
    bad = int(own[BAD_ROW])
    kept = own != bad
    fewer = None if unit is None else own[kept] - (own[kept] > bad).long()
    right = step(chosen, rule, x[kept], y[kept], fewer, 3, sigma=1.0, raw=True)
    assert found.dropped == [bad]
    assert found.norms[bad].tolist() == found.weights[bad].tolist() == [0.0] * len(found.norms[bad])
    others = [i for i in range(len(found.norms)) if i != bad]
    assert torch.allclose(found.norms[others], right.norms, rtol=1e-12)
    assert torch.allclose(found.weights[others], right.weights, rtol=1e-12)
    assert torch.allclose(found.answer, right.answer, rtol=1e-12)
    for name_ in right.mean:
        assert torch.allclose(found.mean[name_], right.mean[name_], rtol=1e-9, atol=1e-12)
        assert torch.allclose(found.raw[name_], right.raw[name_], rtol=1e-9, atol=1e-12)
        assert torch.equal(found.noise[name_], right.noise[name_])


@pytest.mark.parametrize("most", [None, 2])
def test_stop_says_which_unit_of_the_draw(most):
    x, y = _planted(math.inf)
    for unit, position in ((None, BAD_ROW), (OWN, 1)):
        with pytest.raises(NonFiniteError, match=f"first at position {position}") as caught:
            step(engine(), rules()["flat"], x, y, unit, 4, most=most)
        assert caught.value.positions == [position]


def test_a_rule_never_sees_what_is_not_finite():
    seen = []

    class Watching(type(rules()["flat"])):
        def weights(self, norms, state, info):
            seen.append(norms.clone())
            return super().weights(norms, state, info)

    x, y = _planted(math.nan)
    step(engine(), Watching("flat", "record", 0.5), x, y, most=2, non_finite="drop")
    assert all(bool(torch.isfinite(n).all()) for n in seen)


def test_a_draw_of_which_nothing_is_left_is_pure_noise():
    x, y = rows(3)
    x[:] = math.inf
    found = step(engine(), rules()["flat"], x, y, sigma=1.0, non_finite="drop")
    assert found.dropped == [0, 1, 2]
    assert all(float(v.abs().max()) == 0 for v in found.mean.values())


def _split_with_bad_rows(users=None):
    of = split(users=users)
    of.inputs[::10, 0] = math.nan
    return of


def test_a_run_stops_and_names_the_example():
    of = _split_with_bad_rows()
    with pytest.raises(PrivacyError, match=r"step 1: .*example 1\d\d0 of train.*non_finite=drop"):
        run(trainer(engine(), micro_batch=5), of)


def test_a_run_that_drops_trains_and_counts_by_slice():
    of, bad = _split_with_bad_rows(), np.arange(120) % 10 == 0
    membership = np.column_stack([np.ones(120, dtype=bool), bad, ~bad])
    keys = [("all", "all"), ("label", "bad"), ("label", "good")]
    trained = trainer(engine(non_finite="drop"), micro_batch=7)
    record = recorder(trained, membership, keys)
    losses, parameters, _ = run(trained, of, record)
    assert all(map(math.isfinite, losses))
    assert all(bool(torch.isfinite(v).all()) for v in parameters.values())
    draws = [trained.sampler.draw(trained.streams.generator("sampling", s)) for s in range(1, 7)]
    drawn = np.concatenate([d.members.numpy() for d in draws])
    figure = {}
    for row in record.rows:
        key = (row["stat"], row["slice"])
        figure[key] = figure.get(key, 0) + (row["value"] or 0)
        assert row["release"] == "private"
        assert row["value"] is None or math.isfinite(row["value"])
    assert figure["dropped", "all"] == figure["dropped", "bad"] == bad[drawn].sum() > 0
    assert ("dropped", "good") not in figure
    # A dropped unit is in no quantile and no clip fraction: slice bad has none left.
    assert ("units", "bad") not in figure
    assert figure["units", "all"] == figure["units", "good"] == (~bad[drawn]).sum()


@pytest.mark.parametrize("mechanism", ["neither", "noise_only", "clip_only"])
def test_diagnostics_drop_too(mechanism):
    trained = trainer(engine(non_finite="drop"), mechanism=mechanism)
    _, parameters, _ = run(trained, _split_with_bad_rows())
    assert all(bool(torch.isfinite(v).all()) for v in parameters.values())


@pytest.mark.parametrize("choice", ["stop", "drop"])
def test_a_row_that_is_looked_at_alone_may_be_one_that_is_not_finite(choice):
    of = split()
    of.inputs[:] = math.nan
    trained = trainer(engine(non_finite=choice), steps=2)
    if choice == "drop":
        losses, _, record = run(trained, of)
        assert all(map(math.isnan, losses))
        assert record.clip_fraction is None
    else:
        with pytest.raises(PrivacyError, match="not finite"):
            run(trained, of)


def test_a_loop_of_ones_own_drops_and_stops():
    x, y = rows(60)
    x[::6] = math.nan
    budget = Budget(3.0, 1e-3, steps=3, batch=30)
    for choice in ("drop", "stop"):
        model = net()
        chosen = part("engine/bookkeeping", non_finite=choice)
        private = PrivateTraining(model, part("clip/flat"), budget, 60, engine=chosen)
        text = " ".join(private.ledger["not_covered"])
        assert ("left out" in text) == (choice == "drop")
        for records in private:
            if choice == "stop":
                with pytest.raises(PrivacyError, match="not finite"):
                    private.step(x[records], y[records])
                break
            assert len(private.step(x[records], y[records])) == len(records)
            assert all(bool(torch.isfinite(p.grad).all()) for p in model.parameters())
        assert (private.dropped > 0) == (choice == "drop")
