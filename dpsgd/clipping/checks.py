"""A rule looks at one unit at a time: tried before training, and on half of every batch."""

from __future__ import annotations

import torch
from torch import Tensor

from dpsgd.clipping.envelope import envelope
from dpsgd.clipping.groups import Groups
from dpsgd.clipping.joint import Joint
from dpsgd.clipping.rule import ClipRule, Info, State
from dpsgd.errors import ConfigError, PrivacyError

ROWS = 16
SLACK = 1e-6
"""Float rounding: the step multiplies every weight by 1 − 1e-5."""


def check_rule(rule: ClipRule, groups: Groups, expected_units: float) -> None:
    """Raise ConfigError unless the rule keeps its contract on synthetic norms.

    Weights and queries of a unit must not depend on the units beside it, and every unit must be
    inside the envelope that the rule declares.
    """
    if not rule.bounded:
        return
    generator = torch.Generator().manual_seed(0)
    size = (ROWS, len(groups))
    norms = 10 ** (12 * torch.rand(size, generator=generator, dtype=torch.float64) - 6)
    norms[0] = 0.0
    info: Info = {} if rule.partition is None else {rule.partition: _one_hot(generator)}
    state = rule.bind(groups, 0.0, expected_units)
    try:
        for some in (norms, norms[1:], norms.flip(0)):
            beside = {key: value[: len(some)] for key, value in info.items()}
            answers = rule.weights(some, state, beside), rule.query(some, state, beside)
            check_units_apart(rule, state, some, beside, *answers)
    except PrivacyError as error:
        raise ConfigError("clip", rule.name, str(error).partition(": ")[2]) from None
    left = envelope(rule, norms, state, info)
    if not bool((left <= 1 + SLACK).all()):
        raise ConfigError(
            "clip", rule.name,
            "leaves the envelope that it declares: Σ_g (w_g·n_g/scale_g)² is "
            f"{float(left.max()):.3g} for some norms, and must be at most 1",
        )  # fmt: skip


def is_shipped(rule: ClipRule) -> bool:
    """Whether the rule is this project's own, which its tests hold to the contract; any other is
    looked at in every step. A rule with queries beside it is shipped if all of them are.
    """
    if isinstance(rule, Joint):
        own = (type(query).__module__.startswith("dpsgd.") for query in rule.queries)
        return is_shipped(rule.rule) and all(own)
    return type(rule).__module__.startswith("dpsgd.clipping.")


def check_units_apart(
    rule: ClipRule, state: State, norms: Tensor, info: Info, weights: Tensor,
    query: Tensor | None,
) -> None:  # fmt: skip
    """Raise PrivacyError if ``weights`` or ``query``, the rule's answers for all units of a batch,
    change for every other one when the rest is taken away, the unit of the largest norm among them.
    ``query`` None: nothing is asked.
    """
    if len(norms) < 2:
        return
    largest = int(norms[:, 0].argmax())
    half = slice((largest + 1) % 2, None, 2)
    fewer, beside = norms[half], {key: value[half] for key, value in info.items()}
    answers = {"weight": (weights[half], rule.weights(fewer, state, beside))}
    if query is not None and query.shape[-1]:
        answers["query"] = (query[half], rule.query(fewer, state, beside))
    for what, (among, alone) in answers.items():
        if not (torch.equal(among, alone) or _close(among, alone)):
            raise PrivacyError(
                f"clip={rule.name}: the {what} of a unit depends on the other units of the batch, "
                "so that no noise covers what one unit changes"
            )


def _close(first: Tensor, second: Tensor) -> bool:
    return first.shape == second.shape and torch.allclose(
        first, second, rtol=1e-6, atol=0.0, equal_nan=True
    )


def _one_hot(generator: torch.Generator) -> Tensor:
    chosen = torch.randint(3, (ROWS,), generator=generator)
    return torch.eye(3, dtype=torch.bool)[chosen]
