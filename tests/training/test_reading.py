"""Scores of canaries: noise that is fresh is read as it comes, noise that comes back is undone."""

import math

import pytest
import torch

from dpsgd.training.reading import Reading

COUNT, STEPS, Q, SIGMA = 400, 60, 0.2, 1.5


def updates(noise_of, probability=Q, seed=0):
    """Coins, and what is read of each step at every canary's place."""
    generator = torch.Generator().manual_seed(seed)
    included = torch.rand(COUNT, generator=generator) < 0.5
    found = []
    for step in range(STEPS):
        drawn = (torch.rand(COUNT, generator=generator) < probability) & included
        noise = torch.Generator().manual_seed(1000 * seed + noise_of(step))
        found.append(drawn.double() + SIGMA * torch.randn(COUNT, generator=noise).double())
    return included, found


def read(found, probability=Q, variance=SIGMA**2):
    reading = Reading(COUNT, probability)
    for update in found:
        reading.add(update, variance)
    return reading.scores


def right(scores, included):
    order = scores.argsort(stable=True)
    half = COUNT // 10
    hits = int((~included[order[:half]]).sum()) + int(included[order[-half:]].sum())
    return hits / (2 * half)


def plain(found, probability=Q):
    ratios = [torch.expm1((2 * x - 1) / (2 * SIGMA**2)) for x in found]
    return sum(torch.log1p(probability * ratio) for ratio in ratios)


def test_fresh_noise_is_read_as_the_likelihood_ratio_of_every_update():
    for seed in range(10):
        _, found = updates(lambda step: step, seed=seed)
        torch.testing.assert_close(read(found), plain(found))


@pytest.mark.parametrize("noise_of", [lambda step: 0, lambda step: step // 2], ids=["one", "pairs"])
def test_noise_that_comes_back_hides_nothing(noise_of):
    included, found = updates(noise_of)
    assert right(read(found), included) > 0.98
    assert right(plain(found), included) < 0.9


def test_who_is_always_drawn_is_not_seen_by_increments():
    included, found = updates(lambda step: 0, probability=1.0)
    once = Reading(COUNT, 1.0)
    once.add(found[0], SIGMA**2)
    torch.testing.assert_close(read(found, 1.0), once.scores)
    assert right(once.scores, included) < 0.95


@pytest.mark.parametrize("probability", [Q, 1.0])
def test_next_to_no_noise_gives_scores_that_can_be_ordered(probability):
    included, found = updates(lambda step: step, probability)
    scores = read([update.round() for update in found], probability, 1e-9)
    assert not scores.isnan().any()
    assert right(scores, included) >= 0.5


def test_a_reading_goes_on_from_its_state():
    _, found = updates(lambda step: step // 2)
    first, second = Reading(COUNT, Q), Reading(COUNT, Q)
    for place, update in enumerate(found):
        first.add(update, SIGMA**2)
        if place == 30:
            second.restore(first.state())
        elif place > 30:
            second.add(update, SIGMA**2)
    assert torch.equal(first.scores, second.scores)
    fresh = Reading(COUNT, Q)
    fresh.restore(Reading(COUNT, Q).state())
    fresh.add(found[0], SIGMA**2)
    assert math.isfinite(float(fresh.scores.sum()))
