"""From the slices of records to those of units."""

from __future__ import annotations

import numpy as np


def by_user(membership: np.ndarray, user: np.ndarray, n_users: int) -> np.ndarray:
    """Return ``[n_users, slices]``: a user is in every slice that any of its records is in.

    ``membership`` is boolean ``[records, slices]``, ``user`` ``[records]``. A user without records
    is in no slice but the first, which is that of all.
    """
    found = np.zeros((n_users, membership.shape[1]), dtype=bool)
    np.logical_or.at(found, user, membership)
    found[:, 0] = True
    return found
