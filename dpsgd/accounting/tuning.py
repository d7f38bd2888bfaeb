"""What choosing among runs on the same data costs (Papernot and Steinke, ICLR 2022)."""

from __future__ import annotations

import math
from typing import Literal, get_args

from dpsgd.accounting.library import DpEvent, RepeatAndSelectDpEvent, SelfComposedDpEvent
from dpsgd.errors import ConfigError

Runs = Literal["truncated_negative_binomial", "poisson"]
"""How the number of runs is drawn."""


def best_of_random(event: DpEvent, runs: Runs, mean_runs: float, eta: float | None) -> DpEvent:
    """Return the event of releasing only the best of a random number of runs of ``event``.

    Right only if the number of runs is drawn, secretly, from this distribution, every run takes
    settings drawn independently and at random from a list fixed in advance, and the score that
    chooses is public or released inside ``event``. A fixed grid, all of whose cells are run, is
    :func:`every_run`. Accountants of Rényi DP answer for it: ``rdp`` and ``moments``.

    Args:
        event: one run, its score included.
        runs: ``truncated_negative_binomial`` (their Theorem 2) or ``poisson`` (Theorem 6).
        mean_runs: the expected number of runs. A Poisson number may be 0: nothing is released.
        eta: the shape η of the truncated negative binomial: 1 is geometric, 0 logarithmic, smaller
            costs less and varies more; None for ``poisson``.

    Raises:
        ConfigError: an unknown distribution, a mean or an η that it cannot have.

    """
    if runs not in get_args(Runs):
        raise ConfigError("runs", runs, f"one of {', '.join(get_args(Runs))}")
    least = 0.0 if runs == "poisson" else 1.0
    if not (mean_runs > least and math.isfinite(mean_runs)):
        raise ConfigError("mean_runs", mean_runs, f"a finite number above {least:g}")
    if runs == "poisson":
        if eta is not None:
            raise ConfigError("eta", eta, "null: a Poisson number has no shape")
        return RepeatAndSelectDpEvent(event, float(mean_runs), math.inf)
    if eta is None or not (eta >= 0 and math.isfinite(eta)):
        raise ConfigError("eta", eta, "a finite number >= 0, such as 0, 0.5 or 1")
    return RepeatAndSelectDpEvent(event, float(mean_runs), float(eta))


def every_run(event: DpEvent, runs: int) -> DpEvent:
    """Return the event of ``runs`` runs of ``event``, each of them released: plain composition.

    Also what a choice among a fixed list costs, for then all of them count.

    Raises:
        ConfigError: for fewer than one run.

    """
    if runs < 1:
        raise ConfigError("runs", runs, "a whole number >= 1")
    return SelfComposedDpEvent(event, int(runs))
