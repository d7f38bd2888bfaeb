"""Poisson over users: a user's coin is its own, its records come after it and stay its own."""

import numpy as np
import pytest
import torch

from dpsgd.errors import ConfigError
from dpsgd.randomness import Streams
from dpsgd.sampling import Poisson

STREAMS = Streams.from_seed(0, "users")
# User 0 has 5,000 records, user 1 none, users 2 and 3 three each; in no order.
USER = torch.cat([torch.zeros(5000), torch.tensor([2, 3, 2, 3, 3, 2])]).long()
USER = USER[torch.randperm(len(USER), generator=torch.Generator().manual_seed(0))]


def _sampler(cap=10, batch=2.0, user=USER, n=4):
    return Poisson("poisson", cap, "average").users(user, n, batch)


def _draws(sampler, steps):
    return [sampler.draw(STREAMS.generator("sampling", t)) for t in range(steps)]


def test_a_draw_holds_at_most_the_cap_of_each_user_and_nobody_elses_records():
    for draw in _draws(_sampler(), 200):
        owners = USER[draw.records]
        assert torch.equal(owners, draw.members[draw.unit])
        assert (draw.unit.diff() >= 0).all()
        assert len(draw.records.unique()) == len(draw.records)
        sizes = torch.bincount(draw.unit, minlength=draw.units).tolist()
        expected = {0: 10, 1: 0, 2: 3, 3: 3}
        assert sizes == [expected[int(member)] for member in draw.members]


def test_every_user_is_drawn_with_probability_q_whatever_the_number_of_its_records():
    steps = 4000
    counts = np.zeros(4)
    for draw in _draws(_sampler(batch=1.0), steps):
        counts[draw.members.numpy()] += 1
    assert abs(counts / steps - 0.25).max() < 5 * np.sqrt(0.25 * 0.75 / steps)


def test_capped_records_are_chosen_uniformly():
    user = torch.zeros(20, dtype=torch.int64)
    counts = torch.zeros(20)
    for draw in _draws(_sampler(cap=5, batch=1.0, user=user, n=1), 4000):
        counts[draw.records] += 1
    assert (counts / 4000 - 0.25).abs().max() < 5 * np.sqrt(0.25 * 0.75 / 4000)


def test_without_a_cap_all_records_of_a_user_come():
    draw = _sampler(cap=None, batch=4.0).draw(STREAMS.generator("sampling", 0))
    assert draw.members.tolist() == [0, 1, 2, 3]
    assert len(draw.records) == len(USER)


def test_another_users_records_change_nothing_about_who_is_drawn():
    fewer = USER[USER != 2]
    for a, b in zip(_draws(_sampler(), 50), _draws(_sampler(user=fewer), 50), strict=True):
        assert torch.equal(a.members, b.members)


def test_users_of_one_record_are_records():
    user = torch.arange(50)
    users = Poisson("poisson", None, "sum").users(user, 50, 8.0)
    records = Poisson("poisson", None, "sum").records(50, 8.0)
    for a, b in zip(_draws(users, 50), _draws(records, 50), strict=True):
        assert torch.equal(a.records, b.records)
        assert torch.equal(a.unit, b.unit)
    assert repr(users.event(1.0, 3)) == repr(records.event(1.0, 3))


def test_a_cap_on_records_as_units_is_refused():
    with pytest.raises(ConfigError, match="max_records_per_user=3"):
        Poisson("poisson", 3, "average").records(100, 10)


@pytest.mark.parametrize(("cap", "batch"), [(0, 2.0), (-1, 2.0), (10, 5.0), (10, 0.0)])
def test_caps_and_batches_without_sense_are_refused(cap, batch):
    with pytest.raises(ConfigError):
        _sampler(cap, batch)
