"""Scores of canaries: noise that is fresh is read as it comes, noise that comes back is undone."""

import math

import pytest
import torch

from dpsgd.training.reading import Reading

COUNT, STEPS, Q, SIGMA = 400, 60, 0.2, 1.5


def updates(noise_of, probability=Q, seed=0, records=1):
    """Coins, and what is read of each step at every canary's place, and how often it was drawn."""
    generator = torch.Generator().manual_seed(seed)
    included = torch.rand(COUNT, generator=generator) < 0.5
    found = []
    for step in range(STEPS):
        drawn = (torch.rand(COUNT, records, generator=generator) < probability).sum(1)
        noise = torch.Generator().manual_seed(1000 * seed + noise_of(step))
        normal = SIGMA * torch.randn(COUNT, generator=noise).double()
        found.append(((drawn * included).double() + normal, drawn))
    return included, found


def read(found, probability=Q, variance=SIGMA**2, records=1):
    reading = Reading(COUNT, probability, records)
    for update, drawn in found:
        reading.add(update, variance, drawn)
    return reading.scores


def right(scores, included):
    order = scores.argsort(stable=True)
    half = COUNT // 10
    hits = int((~included[order[:half]]).sum()) + int(included[order[-half:]].sum())
    return hits / (2 * half)


def plain(found, probability=Q):
    ratios = [torch.expm1((2 * x - 1) / (2 * SIGMA**2)) for x, _ in found]
    return sum(torch.log1p(probability * ratio) for ratio in ratios)


def test_fresh_noise_is_read_as_the_likelihood_ratio_of_every_update():
    for seed in range(10):
        _, found = updates(lambda step: step, seed=seed)
        torch.testing.assert_close(read(found), plain(found))


@pytest.mark.parametrize("probability", [Q, None], ids=["by chance", "told"])
@pytest.mark.parametrize("noise_of", [lambda step: 0, lambda step: step // 2], ids=["one", "pairs"])
def test_noise_that_comes_back_hides_nothing(noise_of, probability):
    included, found = updates(noise_of)
    assert right(read(found, probability), included) > 0.98
    assert right(plain(found), included) < 0.9


def test_whoever_is_told_of_the_draws_knows_more():
    included, found = updates(lambda step: step)
    told = read(found, None)
    assert right(told, included) > right(read(found), included)
    never = [(update, torch.zeros_like(drawn)) for update, drawn in found]
    assert not read(never, None).any()


def test_several_records_are_read_as_the_mixture_that_they_are():
    included, found = updates(lambda step: step, 0.05, records=4)
    assert right(read(found, 0.05, records=4), included) > 0.85
    one, two = (torch.tensor([value], dtype=torch.float64) for value in (1.0, 2.0))
    once, twice = Reading(1, 0.05, 2), Reading(1, 0.05, 2)
    once.add(one, 1e-3, torch.ones(1))
    twice.add(two, 1e-3, torch.ones(1))
    assert float(once.scores) == pytest.approx(1 / 2e-3 + math.log(2 * 0.05 * 0.95))
    assert float(twice.scores) == pytest.approx(4 / 2e-3 + math.log(0.05**2))


def test_who_is_always_drawn_is_not_seen_by_increments():
    included, found = updates(lambda step: 0, probability=1.0)
    once = Reading(COUNT, 1.0, 1)
    once.add(found[0][0], SIGMA**2, found[0][1])
    torch.testing.assert_close(read(found, 1.0), once.scores)
    assert right(once.scores, included) < 0.95


@pytest.mark.parametrize("probability", [Q, 1.0, None])
def test_next_to_no_noise_gives_scores_that_can_be_ordered(probability):
    included, found = updates(lambda step: step, probability or Q)
    rounded = [(update.round(), drawn) for update, drawn in found]
    scores = read(rounded, probability, 1e-9)
    assert not scores.isnan().any()
    assert right(scores, included) >= 0.5


@pytest.mark.parametrize("probability", [Q, None])
def test_a_reading_goes_on_from_its_state(probability):
    _, found = updates(lambda step: step // 2)
    first, second = Reading(COUNT, probability, 1), Reading(COUNT, probability, 1)
    for place, (update, drawn) in enumerate(found):
        first.add(update, SIGMA**2, drawn)
        if place == 30:
            second.restore(first.state())
        elif place > 30:
            second.add(update, SIGMA**2, drawn)
    assert torch.equal(first.scores, second.scores)
    fresh = Reading(COUNT, Q, 1)
    fresh.restore(Reading(COUNT, Q, 1).state())
    fresh.add(*found[0][:1], SIGMA**2, found[0][1])
    assert torch.equal(fresh.scores, read(found[:1]))
