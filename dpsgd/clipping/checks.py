"""A rule looks at one unit at a time: tried before training, and on half of every batch."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, cast

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

SMALLEST, LARGEST = 1e-30, 1e30
"""What a rule may declare as its scale. Weights C/n and noise σC/m are float32, which holds 1.2e-38
to 3.4e38: norms from 1e-6 to 1e6, and as many units, leave so much.
"""


def check_rule(rule: ClipRule, groups: Groups, expected_units: float) -> None:
    """Raise ConfigError unless the rule keeps its contract on synthetic norms.

    Weights and queries of a unit must not depend on the units beside it, and every unit must be
    inside the envelope that the rule declares; for norms of float32 the weights must be float32,
    of the same shape, and the scale of a size that such weights can have.
    """
    if not rule.bounded:
        return
    generator = torch.Generator().manual_seed(0)
    size = (ROWS, len(groups))
    norms = 10 ** (12 * torch.rand(size, generator=generator, dtype=torch.float64) - 6)
    norms[0] = 0.0
    info: Info = {} if rule.partition is None else {rule.partition: _one_hot(generator)}
    state = rule.bind(groups, 0.0, expected_units)
    _check_size(rule, rule.scale(state), state.get("threshold"))
    _check_weights(rule, norms.float(), rule.weights(norms.float(), state, info))
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


def _check_size(rule: ClipRule, scale: Tensor, threshold: Tensor | None) -> None:
    """Raise ConfigError for a scale, or a threshold of one group, that float32 cannot hold, naming
    the setting that makes it.
    """
    values = (scale,) if threshold is None else (scale, threshold)
    found = [float(value) for some in values for value in some.flatten()]
    outside = [value for value in found if not SMALLEST <= value <= LARGEST]
    if not outside:
        return
    allowed = f"must be from {SMALLEST:g} to {LARGEST:g}"
    why = "weights and noise are float32, which holds no others with their full precision"
    for key, value in _numbers(rule):
        if not SMALLEST <= value <= LARGEST:
            raise ConfigError(key, value, allowed, why)
    raise ConfigError(
        "clip", rule.name, f"declares a scale of {outside[0]:g}, which {allowed}", why
    )  # fmt: skip


def _check_weights(rule: ClipRule, norms: Tensor, weights: object) -> None:
    """Raise ConfigError unless ``weights`` are numbers that the gradients can be multiplied by."""
    if not isinstance(weights, Tensor):
        raise ConfigError(
            "clip", rule.name, f"gives weights of {type(weights).__name__}, and must give a tensor"
        )
    if weights.shape != norms.shape:
        raise ConfigError(
            "clip", rule.name,
            f"gives weights of shape {tuple(weights.shape)} for norms of shape "
            f"{tuple(norms.shape)}, and must give one for each",
        )  # fmt: skip
    if weights.dtype != norms.dtype:
        raise ConfigError(
            "clip", rule.name,
            f"gives weights of {_name(weights.dtype)} for norms of {_name(norms.dtype)}, and must "
            "keep their kind",
            "end its weights with: return weights.to(norms.dtype)",
        )  # fmt: skip


def _numbers(rule: ClipRule) -> Iterator[tuple[str, float]]:
    """Yield the settings of a rule that are numbers, by their keys."""
    if not dataclasses.is_dataclass(rule):
        return
    for field in dataclasses.fields(cast(Any, rule)):
        value: Any = getattr(rule, field.name)
        key = field.name.rstrip("_")
        if isinstance(value, float):
            yield key, value
        elif isinstance(value, Mapping):
            inner = cast(Mapping[str, Any], value)
            yield from ((f"{key}.{k}", v) for k, v in inner.items() if isinstance(v, float))


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _close(first: Tensor, second: Tensor) -> bool:
    return first.shape == second.shape and torch.allclose(
        first, second, rtol=1e-6, atol=0.0, equal_nan=True
    )


def _one_hot(generator: torch.Generator) -> Tensor:
    chosen = torch.randint(3, (ROWS,), generator=generator)
    return torch.eye(3, dtype=torch.bool)[chosen]
