"""What choosing among runs would have cost, had their number and settings been drawn at random."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dpsgd.accounting import RDP, Relation, best_of_random, every_run, format_epsilon
from dpsgd.errors import ConfigError
from dpsgd.experiment.ledger import composed_event

MEAN_RUNS = 10
"""How many runs one expects, in what is told."""


@dataclass(frozen=True)
class Choice:
    """ε of one run; of the best of a random number of such runs, of mean ``MEAN_RUNS``, logarithmic
    (η = 0) or geometric (η = 1); and of ``MEAN_RUNS`` runs that are all released. All by ``rdp``,
    which alone knows of such choices.
    """

    one: float
    logarithmic: float
    geometric: float
    every: float


def choice(ledger: Mapping[str, Any], relation: Relation, delta: float) -> Choice:
    """Return what a choice among runs as costly as this one would have cost at ``delta``.

    By Papernot and Steinke (ICLR 2022, Theorem 2), see ``best_of_random`` for what it asks. Raises
    ConfigError where Rényi DP cannot answer for the run.
    """
    event, rdp = composed_event(ledger), RDP("rdp", None)
    events = (
        event,
        best_of_random(event, "truncated_negative_binomial", MEAN_RUNS, 0.0),
        best_of_random(event, "truncated_negative_binomial", MEAN_RUNS, 1.0),
        every_run(event, MEAN_RUNS),
    )
    return Choice(*(rdp.epsilon(one, relation, delta) for one in events))


def choice_text(ledger: Mapping[str, Any], relation: Relation, delta: float) -> str:
    """Return that price as a sentence, or why there is none."""
    name = str(ledger["run_key"])
    try:
        found = choice(ledger, relation, delta)
    except ConfigError as error:
        return f"What that would have cost for {name} is not known: accountant rdp {error.allowed}."
    one, low, high, every = (
        format_epsilon(v) for v in (found.one, found.logarithmic, found.geometric, found.every)
    )
    return (
        f"For runs such as {name} (ε = {one} by rdp) that would have cost, with a secret number of "
        f"runs of mean {MEAN_RUNS}, ε = {low} if it is drawn from a logarithmic distribution "
        f"(η = 0) and {high} from a geometric one (η = 1), where {MEAN_RUNS} runs that are all "
        f"released cost {every}. It cannot be had afterwards for runs that were not drawn so."
    )
