from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from planted_bundles import with_users

from dpsgd.errors import ConfigError
from dpsgd.slices.units import by_user
from dpsgd.slices.user_size import UserSize

SIZES = UserSize((2, 3, 5))
NAMES = (
    "users with <2 records",
    "users with 2 records",
    "users with 3–4 records",
    "users with ≥5 records",
)


def test_a_record_counts_by_the_training_records_of_its_user():
    train = [0, 1, 1, 2, 2, 2, 3, 3, 3, 3, 3]
    data = with_users(train, [0, 1, 2, 3, 4], users=5)
    names, membership = SIZES.assign(data.train, data)
    assert names == NAMES
    assert membership.argmax(1).tolist() == [0, 1, 1, 2, 2, 2, 3, 3, 3, 3, 3]
    # One record each in test: their size is that of training, none for user 4.
    names, membership = SIZES.assign(data.test, data)
    assert names == NAMES
    assert membership.argmax(1).tolist() == [0, 1, 2, 3, 0]
    assert (membership.sum(1) == 1).all()


def test_the_name_of_one_record_is_singular():
    data = with_users([0], [], users=1)
    assert UserSize((1, 2)).assign(data.train, data)[0][1] == "users with 1 record"


def test_records_without_users_are_in_no_slice():
    data = with_users([0, 0], None, users=1)
    names, membership = SIZES.assign(data.test, data)
    assert names == NAMES
    assert membership.shape == (2, 4)
    assert not membership.any()


def test_training_records_without_users_are_refused_with_what_to_do():
    data = with_users(None, None, users=0)
    with pytest.raises(ConfigError, match=r"(?s)needs users.*data\.user"):
        SIZES.assign(data.train, data)


@pytest.mark.parametrize("edges", [(), (0,), (-1, 2), (3, 3), (5, 2)])
def test_edges_of_user_sizes_increase_from_one(edges):
    with pytest.raises(ConfigError) as caught:
        UserSize(edges)
    assert caught.value.key == "edges"


@given(st.data())
def test_a_user_is_in_every_slice_of_its_records_and_in_no_other(data):
    n_users = data.draw(st.integers(1, 5))
    user = np.array(data.draw(st.lists(st.integers(0, n_users - 1), max_size=12)), dtype=np.int64)
    slices = data.draw(st.integers(1, 4))
    bits = st.lists(st.booleans(), min_size=slices, max_size=slices)
    rows = data.draw(st.lists(bits, min_size=len(user), max_size=len(user)))
    membership = np.array(rows, dtype=bool).reshape(len(user), slices)
    found = by_user(membership, user, n_users)
    assert found.shape == (n_users, slices)
    assert found.dtype == bool
    for one in range(n_users):
        for place in range(1, slices):
            assert found[one, place] == any(membership[user == one, place])


def test_a_user_without_records_is_in_the_slice_of_all_alone():
    found = by_user(np.array([[True, True]]), np.array([1]), 3)
    assert found.tolist() == [[True, False], [True, True], [True, False]]
