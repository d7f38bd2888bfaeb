"""The cryptographic source: its key stream, its distributions, and streams that never meet."""

from itertools import combinations

import numpy as np
import pytest
import torch
from randomgen import ChaCha
from scipy import stats

from dpsgd import part
from dpsgd.clipping.groups import Groups
from dpsgd.errors import PrivacyError
from dpsgd.noise import gaussian_noise, query_noise
from dpsgd.randomness import Streams
from dpsgd.sampling.units import coins
from dpsgd.sources import Cryptographic, normal, permutation, uniform

CPU = torch.device("cpu")
KEY = bytes(range(32))
DOUBLE = torch.float64
N = 200_000
SAME_BY_CHANCE = 1e-6
"""A test below says no by chance once in a million keys, and the keys here are fixed."""


def streams(key=KEY, run_key="run"):
    return Streams(key, run_key, secret=True)


def test_the_key_stream_is_that_of_the_published_vector():
    # RFC 8439, A.1, test vector 1: the key 0, the counter 0, twenty rounds.
    found = ChaCha(key=0, counter=0, rounds=20).random_raw(8).astype("<u8").tobytes().hex()
    assert found == (
        "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
        "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586"
    )


def test_the_key_enters_whole_and_unhashed():
    number = int.from_bytes(KEY, "little")
    expected = np.random.Generator(ChaCha(key=number, rounds=20)).random(5)
    assert (Cryptographic(KEY).uniform(5) == expected).all()
    for size in (0, 31, 33):
        with pytest.raises(ValueError, match="32 bytes"):
            Cryptographic(bytes(size))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_normals_are_normal_and_uniforms_uniform(dtype):
    source = streams().source("noise", 1)
    drawn = normal(source, N, dtype, CPU)
    assert drawn.dtype == dtype
    assert stats.kstest(drawn.double().numpy(), "norm").pvalue > SAME_BY_CHANCE
    assert stats.kstest(drawn.double().numpy() * 1.05, "norm").pvalue < SAME_BY_CHANCE
    assert abs(float(drawn.double().var()) - 1) < 5 * np.sqrt(2 / N)
    assert stats.kstest(uniform(source, N).numpy(), "uniform").pvalue > SAME_BY_CHANCE
    # What follows a draw is as independent of it as what stands beside it.
    assert abs(np.corrcoef(drawn[:-1], drawn[1:])[0, 1]) < 5 / np.sqrt(N)


def test_every_order_is_as_likely():
    source = streams().source("shuffle", 0)
    orders = [tuple(permutation(source, 4).tolist()) for _ in range(24 * 400)]
    counts = list(map(orders.count, dict.fromkeys(orders)))
    assert len(counts) == 24
    assert stats.chisquare(counts).pvalue > SAME_BY_CHANCE


def correlated(sources):
    """The pairs of sources whose normal numbers go together more than chance lets them."""
    drawn = [normal(source, 20_000, DOUBLE, CPU).numpy() for source in sources]
    return [
        (i, j)
        for i, j in combinations(range(len(drawn)), 2)
        if abs(np.corrcoef(drawn[i], drawn[j])[0, 1]) > 6 / np.sqrt(20_000)
    ]


def test_streams_of_other_steps_purposes_runs_and_keys_are_independent():
    other = bytes([1, *KEY[1:]])
    found = [streams().source(p, t) for p in ("noise", "sampling", "choice") for t in (0, 1, 2)]
    found += [streams(run_key="another").source("noise", 1), streams(other).source("noise", 1)]
    found.append(Streams(KEY, "run", 1, secret=True).source("noise", 1))
    assert correlated(found) == []


def test_the_same_stream_twice_is_seen():
    one, two, three = (streams().source("noise", t) for t in (1, 2, 1))
    assert correlated([one, two, three]) == [(0, 2)]


def test_a_torch_source_is_what_torch_draws():
    one, two = (Streams.from_seed(0, "x").source("noise", 1) for _ in range(2))
    expected = torch.randn(7, generator=two)
    assert torch.equal(normal(one, 7, torch.float32, CPU), expected)
    assert torch.equal(uniform(one, 7), torch.rand(7, generator=two, dtype=DOUBLE))
    assert torch.equal(permutation(one, 7), torch.randperm(7, generator=two))


def test_noise_and_coins_come_from_it_with_their_scale():
    groups = Groups(("a", "b"), (("x",), ("y",)), (N, N))
    like = {"x": torch.zeros(N), "y": torch.zeros(N)}
    noise = gaussian_noise(like, groups, [0.5, 3.0], streams().source("noise", 1))
    for name, std in (("x", 0.5), ("y", 3.0)):
        assert stats.kstest(noise[name].numpy() / std, "norm").pvalue > SAME_BY_CHANCE
    answer = query_noise(torch.zeros(N), [2.0], streams().source("noise", 2))
    assert stats.kstest(answer.double().numpy() / 2, "norm").pvalue > SAME_BY_CHANCE
    fell = len(coins(N, 0.1, streams().source("sampling", 1)))
    assert stats.binomtest(fell, N, 0.1).pvalue > SAME_BY_CHANCE


@pytest.mark.parametrize("option", ["poisson", "poisson_truncated", "shuffled", "full"])
def test_every_sampler_draws_by_it_and_by_step_alone(option):
    batch = 100.0 if option == "full" else 20.0
    sampler = part(f"sampling/{option}").records(100, batch)
    ahead, again = sampler.draws(streams()), sampler.draws(streams())
    other = sampler.draws(streams(bytes(32)))
    drawn = [ahead(step).records for step in (1, 2, 3)]
    assert all(torch.equal(again(step).records, drawn[step - 1]) for step in (3, 1, 2))
    if option != "full":
        assert any(not torch.equal(other(step).records, drawn[step - 1]) for step in (1, 2, 3))


def test_no_stream_of_a_released_run_starts_without_a_key_and_none_shows_it():
    keyless = Streams.keyless("run")
    for use in (lambda: keyless.source("noise"), lambda: keyless.generator("dropout"),
                lambda: keyless.numpy("evaluation"), lambda: keyless.stream_id):  # fmt: skip
        with pytest.raises(PrivacyError, match="needs a key"):
            use()
    assert KEY.hex() not in repr(streams())
    assert repr(KEY) not in repr(streams())
    assert streams().stream_id != streams(bytes(32)).stream_id
