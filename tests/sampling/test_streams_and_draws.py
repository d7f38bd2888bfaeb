import numpy as np
import pytest
import torch
from scipy import stats

from dpsgd.clipping.groups import Groups
from dpsgd.errors import ConfigError, PrivacyError
from dpsgd.noise import gaussian_noise
from dpsgd.randomness import Streams
from dpsgd.sampling import Poisson


def test_a_stream_is_its_key_purpose_and_step():
    a, b = Streams.from_seed(0, "run"), Streams.from_seed(0, "run")
    draw = torch.randn(8, generator=a.generator("noise", 3))
    assert torch.equal(draw, torch.randn(8, generator=b.generator("noise", 3)))
    others = [
        a.generator("noise", 4), a.generator("sampling", 3),
        Streams.from_seed(1, "run").generator("noise", 3),
        Streams.from_seed(0, "run2").generator("noise", 3),
        Streams(a.key, a.run_key, 1).generator("noise", 3),
    ]  # fmt: skip
    assert all(not torch.equal(draw, torch.randn(8, generator=g)) for g in others)


def test_stream_ids_tell_cells_apart_and_hide_the_key():
    ids = {Streams.from_seed(s, k).stream_id for s in range(5) for k in ("a", "b")}
    assert len(ids) == 10


def test_noise_of_a_keyed_stream_is_standard_normal():
    draws = torch.cat(
        [torch.randn(20_000, generator=Streams.from_seed(0, "x").generator("noise", t))
         for t in range(5)]
    )  # fmt: skip
    assert stats.kstest(draws.numpy(), "norm").pvalue > 1e-3


def test_other_streams_do_not_touch_global_random_state():
    before = torch.get_rng_state(), np.random.get_state()[1].copy()
    streams = Streams.from_seed(0, "x")
    torch.randn(3, generator=streams.generator("noise", 1))
    streams.numpy("evaluation").random(3)
    assert torch.equal(before[0], torch.get_rng_state())
    assert (before[1] == np.random.get_state()[1]).all()


def test_poisson_draws_each_unit_with_probability_q():
    sampler = Poisson("poisson", None, "average").records(103, 50)
    streams = Streams.from_seed(0, "x")
    counts = np.zeros(103)
    sizes = []
    for step in range(2000):
        draw = sampler.draw(streams.generator("sampling", step))
        counts[draw.records.numpy()] += 1
        sizes.append(draw.units)
    q = 50 / 103
    assert sampler.sampling_probability == q
    assert abs(counts / 2000 - q).max() < 5 * np.sqrt(q * (1 - q) / 2000)
    assert np.var(sizes) == pytest.approx(103 * q * (1 - q), rel=0.15)


def test_empty_draws_happen_and_are_draws():
    sampler = Poisson("poisson", None, "average").records(100, 1)
    streams = Streams.from_seed(0, "x")
    sizes = [sampler.draw(streams.generator("sampling", t)).units for t in range(200)]
    assert sum(size == 0 for size in sizes) > 36


@pytest.mark.parametrize("batch", [0, -1, 101])
def test_a_batch_that_no_q_gives_is_refused(batch):
    with pytest.raises(ConfigError, match="batch="):
        Poisson("poisson", None, "average").records(100, batch)


def test_noise_has_the_standard_deviation_of_its_group():
    groups = Groups(("a", "b"), (("wa",), ("wb",)), (40_000, 40_000))
    like = {"wa": torch.zeros(200, 200), "wb": torch.zeros(40_000)}
    noise = gaussian_noise(like, groups, [0.5, 3.0], torch.Generator())
    assert noise["wa"].shape == (200, 200)
    for name, std in (("wa", 0.5), ("wb", 3.0)):
        assert float(noise[name].std()) == pytest.approx(std, rel=0.03)


@pytest.mark.parametrize("bad", [0.0, -1.0, float("inf"), float("nan")])
def test_a_step_with_such_a_scale_is_refused(bad):
    groups = Groups(("a",), (("w",),), (2,))
    with pytest.raises(PrivacyError, match="'a'"):
        gaussian_noise({"w": torch.zeros(2)}, groups, [bad], torch.Generator())


def test_every_word_of_the_digest_is_in_the_state_of_the_generator_once():
    streams = Streams.from_seed(3, "run")
    digest = streams._digest("noise", 7, 2496)
    state = streams.generator("noise", 7).get_state().numpy()[24 : 24 + 8 * 624].view("<u8")
    assert sorted(state.tolist()) == sorted(np.frombuffer(digest, "<u4").tolist())
