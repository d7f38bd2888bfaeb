"""What each scheme draws is what its event says that it draws."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hydra.utils import instantiate
from omegaconf import OmegaConf
from scipy import stats

from dpsgd.accounting.library import NoOpDpEvent
from dpsgd.errors import ConfigError
from dpsgd.randomness import Streams
from dpsgd.sampling import Owners, event_of

CONF = Path(__file__).parents[2] / "conf" / "sampling"
OPTIONS = [path.stem for path in sorted(CONF.glob("*.yaml"))]
STREAMS = Streams.from_seed(0, "schemes")
# 60 users of 1 to 9 records, in no order.
USER = torch.repeat_interleave(torch.arange(60), 1 + torch.arange(60) % 9)
USER = USER[torch.randperm(len(USER), generator=torch.Generator().manual_seed(0))]
OWNERS = Owners(USER, 60)


def _part(option, **changes):
    return instantiate(OmegaConf.load(CONF / f"{option}.yaml"), **changes)


def _samplers(option):
    """Return the sampler of records, and that of users where the scheme has one."""
    part = _part(option)
    full = option == "full"
    yield part.records(len(USER), len(USER) if full else 40.0, OWNERS)
    if option != "poisson_capped_users":
        yield part.users(USER, 60, 60 if full else 12.0)


@pytest.mark.parametrize("option", OPTIONS)
def test_a_draw_depends_on_key_and_step_alone(option):
    for sampler in _samplers(option):
        forwards, alone = sampler.draws(STREAMS), sampler.draws(STREAMS)
        other = sampler.draws(Streams.from_seed(1, "schemes"))
        seen = {step: forwards(step) for step in range(1, 30)}
        for step in (29, 3, 17):
            assert torch.equal(alone(step).records, seen[step].records)
            assert torch.equal(alone(step).members, seen[step].members)
        if option != "full":
            assert not torch.equal(other(3).members, seen[3].members)


@pytest.mark.parametrize("option", OPTIONS)
def test_draws_keep_the_sampler_s_word(option):
    for sampler in _samplers(option):
        drawn = [sampler.draws(STREAMS)(step) for step in range(1, 200)]
        size = np.mean([draw.units for draw in drawn])
        spread = 5 * math.sqrt(sampler.expected_units / len(drawn))
        assert abs(size - sampler.expected_units) <= spread
        assert max(len(draw.records) for draw in drawn) <= sampler.largest_draw
        for draw in drawn:
            assert len(draw.unit) == len(draw.records)
            assert len(draw.records.unique()) == len(draw.records)
            assert (draw.unit.diff() >= 0).all()
            owner = draw.records if sampler.combine is None else USER[draw.records]
            assert torch.equal(owner, draw.members[draw.unit])


@pytest.mark.parametrize("option", OPTIONS)
def test_the_event_is_made_of_the_facts_that_a_ledger_holds(option):
    for sampler in _samplers(option):
        facts = dict(sampler.facts)
        assert event_of(facts, 1.5, 7) == sampler.event(1.5, 7)
        assert event_of(facts, 1.5, 0) == NoOpDpEvent()
        for name in set(facts) - {"n_records"}:
            with pytest.raises(ConfigError):
                event_of({k: v for k, v in facts.items() if k != name}, 1.5, 7)
        for sigma, steps in ((-1.0, 7), (math.nan, 7), (1.0, -1), (1.0, 1.5)):
            with pytest.raises(ConfigError):
                sampler.event(sigma, steps)


def test_a_full_batch_is_everyone():
    for sampler in _samplers("full"):
        for step in (1, 2):
            assert torch.equal(sampler.draws(STREAMS)(step).members, torch.arange(sampler.n_units))
    with pytest.raises(ConfigError, match="batch=100"):
        _part("full").records(100, 40)


def test_a_capped_batch_is_any_subset_of_the_drawn_as_likely_as_any_other():
    sampler = _part("poisson_truncated", cap=2).records(4, 3.0)
    at, steps = sampler.draws(STREAMS), 6000
    drawn = [tuple(at(step).members.tolist()) for step in range(steps)]
    assert max(map(len, drawn)) == 2
    pairs = [d for d in drawn if len(d) == 2]
    counts = [pairs.count(p) for p in sorted(set(pairs))]
    assert len(counts) == 6
    assert stats.chisquare(counts).pvalue > 1e-3
    # Two or more of four coins of ¾ fall with probability 1 - (1 + 12)/256.
    assert len(pairs) / steps == pytest.approx(1 - 13 / 256, abs=0.015)


def test_the_default_cap_is_above_six_standard_deviations():
    sampler = _part("poisson_truncated").records(3636, 256.0)
    assert sampler.cap == math.ceil(256 + 6 * math.sqrt(256 * (1 - 256 / 3636)))
    assert _part("poisson_truncated").records(50, 50.0).cap == 51  # nobody is ever pushed out
    with pytest.raises(ConfigError, match="cap=0"):
        replace(_part("poisson_truncated"), cap=0)


def test_an_epoch_holds_every_unit_once_at_most_in_batches_of_one_size():
    sampler = _part("shuffled").records(103, 10.0)
    at = sampler.draws(STREAMS)
    assert sampler.steps_per_epoch == 10
    assert (sampler.steps(1.0), sampler.steps(1.5), sampler.steps(1.01)) == (10, 15, 11)
    epochs = [torch.cat([at(10 * e + b).records for b in range(1, 11)]) for e in range(60)]
    for seen in epochs:
        assert len(seen) == len(seen.unique()) == 100
    left_out = 60 * 103 - torch.bincount(torch.cat(epochs), minlength=103).sum()
    assert left_out == 180
    # Whoever sits out is drawn anew in every epoch.
    assert torch.bincount(torch.cat(epochs), minlength=103).min() > 50
    assert not torch.equal(at(1).records, at(11).records)


def test_an_epoch_that_was_begun_is_paid_for_in_full():
    sampler = _part("shuffled").records(103, 10.0)
    epochs = [sampler.event(1.0, steps).epochs for steps in (1, 10, 11, 20, 21)]
    assert epochs == [1, 1, 2, 2, 3]
    with pytest.raises(ConfigError, match="whole number"):
        _part("shuffled").records(103, 10.5)


def test_a_users_other_records_are_never_used():
    sampler = _part("poisson_capped_users", max_records_per_user=3).records(len(USER), 40.0, OWNERS)
    at = sampler.draws(STREAMS)
    used = torch.cat([at(step).records for step in range(1, 400)]).unique()
    counts, owned = torch.bincount(USER[used], minlength=60), torch.bincount(USER, minlength=60)
    assert torch.equal(counts, owned.clamp(max=3))
    assert sampler.n_records == len(used)
    assert torch.equal(used, sampler.chosen(STREAMS))


def test_the_choice_of_records_is_uniform_and_knows_no_coin():
    part = _part("poisson_capped_users", max_records_per_user=2)
    sampler = part.records(5, 2.0, Owners(torch.zeros(5, dtype=torch.int64), 1))
    keys = [Streams.from_seed(seed, "choice") for seed in range(4000)]
    chosen = torch.stack([sampler.chosen(key) for key in keys])
    assert stats.chisquare(torch.bincount(chosen.flatten(), minlength=5)).pvalue > 1e-3
    # Every coin is certain at q = 1: had coins chosen, they could not choose two of five.
    assert sampler.sampling_probability == 1.0
    assert [sampler.draws(key)(9).units for key in keys[:20]] == [2] * 20


def test_how_many_of_a_users_records_are_drawn_is_binomial():
    part = _part("poisson_capped_users", max_records_per_user=3)
    sampler = part.records(9, 2.0, Owners(torch.arange(9) // 9, 1))
    at = sampler.draws(STREAMS)
    sizes = [at(step).units for step in range(1, 6001)]
    expected = stats.binom.pmf(range(4), 3, 2 / 3) * len(sizes)
    assert stats.chisquare(np.bincount(sizes, minlength=4), expected).pvalue > 1e-3
    probabilities = sampler.event(1.0, 1).event.sampling_probs
    assert probabilities == pytest.approx(expected / len(sizes), rel=1e-9)


def test_capped_users_count_users_for_delta_and_records_for_the_mean():
    sampler = next(iter(_samplers("poisson_capped_users")))
    assert (sampler.unit, sampler.n_units, sampler.combine) == ("user", 60, None)
    assert sampler.expected_units == 40
    assert sampler.sampling_probability == 40 / sampler.n_records


def test_capped_users_need_owners_and_records_as_units():
    part = _part("poisson_capped_users")
    with pytest.raises(ConfigError, match="users=dirichlet"):
        part.records(100, 10.0)
    with pytest.raises(ConfigError, match=r"clip\.unit=record"):
        part.users(USER, 60, 10.0)
    with pytest.raises(ConfigError, match="at most the number of records, 4 a user"):
        part.records(len(USER), 290.0, OWNERS)
