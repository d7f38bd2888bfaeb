"""What a private loop of one's own is made of: its budget, its sampler, its synthetic rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from dpsgd.accounting import Relation
from dpsgd.clipping.rule import ClipRule
from dpsgd.engine.gradients import Combine
from dpsgd.engine.probing import quiet
from dpsgd.engine.rows import Batch, take, tensors, tree_map_rows
from dpsgd.errors import ConfigError
from dpsgd.sampling.poisson import Poisson

PROBED = 32
"""Rows of the synthetic batch that the model must pass before its first private step."""


@dataclass(frozen=True)
class Budget:
    """What a run may spend: ε at δ over ``steps`` steps of ``batch`` expected units.

    ``delta`` None is n_units^-1.1 rounded down to one digit.
    """

    epsilon: float
    delta: float | None
    steps: int
    batch: float
    relation: Relation = "add_or_remove_one"


def sampler_of(
    rule: ClipRule, budget: Budget, records: int | Tensor, users: int | None, most: int | None,
    combine: Combine,
) -> Any:  # fmt: skip
    """Return the sampler of ``records`` records, or of ``users`` users that own them."""
    poisson = Poisson("poisson", most, combine)
    if rule.unit == "record":
        if users is not None or isinstance(records, Tensor):
            raise ConfigError("users", users, "needs a rule with unit=user; records are units here")
        return poisson.records(records, budget.batch)
    if users is None or not isinstance(records, Tensor):
        raise ConfigError("users", users, "unit=user needs records=[owner of each] and users=count")
    if len(records) and not 0 <= int(records.min()) <= int(records.max()) < users:
        raise ConfigError("records", "owners", f"must be users 0 to {users - 1}")
    return poisson.users(records.cpu(), users, budget.batch)


def synthetic(model: nn.Module, inputs: Batch, targets: Batch) -> tuple[Batch, Batch]:
    """Return rows and targets in the shape of these, on their devices, never of their values."""
    generator = torch.Generator().manual_seed(0)
    rows = tree_map_rows(lambda value: _like(value, 2, generator), inputs)
    with torch.no_grad():
        outputs = quiet(model)(take(rows, slice(2)))
    # Of several outputs the fewest classes: a number below that is a class of each.
    classes = min(value.shape[-1] for value in tensors(outputs))
    return rows, tree_map_rows(lambda value: _like(value, classes, generator), targets)


def _like(values: Tensor, classes: int, generator: torch.Generator) -> Tensor:
    size = (PROBED, *values.shape[1:])
    if values.is_floating_point():
        drawn = torch.rand(size, generator=generator, dtype=values.dtype)
    else:
        drawn = torch.randint(classes, size, generator=generator).to(values.dtype)
    return drawn.to(values.device)


def device_of(model: nn.Module, device: str) -> str:
    """Return ``device``. Raises ConfigError if the model is on another."""
    found = next(model.parameters()).device
    if found.type != torch.device(device).type:
        raise ConfigError("device", device, f"the model is on {found}; say device={found}")
    return device
