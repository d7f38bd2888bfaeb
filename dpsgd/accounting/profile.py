"""The privacy profile of an event: δ at many ε, by its privacy loss distribution."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpsgd.accounting.accountant import Relation, neighbouring_relation
from dpsgd.accounting.library import DpEvent, pld_deltas
from dpsgd.accounting.loss import loss_size
from dpsgd.accounting.pld import PROVED, spacing
from dpsgd.accounting.proved import proved_event

_GRID = 1e-3
"""Of losses: ten times that of certificates, for a tenth of their time. It overstates δ, by some
1e-5: that refutes no more, and is far below what an audit can tell.
"""


def privacy_profile(
    event: DpEvent, relation: Relation, epsilons: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return an upper bound on δ at each of ``epsilons``: the event is (ε_i, δ_i)-private for all.

    Together they bound the trade-off curve (Dong, Roth and Su, JRSS-B 2022, proposition 2.5).
    Raises ConfigError for an event or relation that ``accountant=pld`` refuses.
    """
    neighbours = neighbouring_relation(relation)
    event = proved_event("pld", event, relation, PROVED)
    grid = spacing(loss_size(event, neighbours), _GRID)
    return pld_deltas(event, neighbours, epsilons, grid)
