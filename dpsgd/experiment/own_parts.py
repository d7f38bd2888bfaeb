"""What a private loop of one's own is made of: its budget, its sampler, its synthetic rows."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from dpsgd.accounting import Relation
from dpsgd.clipping.rule import ClipRule
from dpsgd.engine.gradients import Combine
from dpsgd.engine.probing import quiet
from dpsgd.engine.rows import Batch, take, tensors, tree_map_rows
from dpsgd.errors import ConfigError
from dpsgd.sampling import CappedUsers, Owners, Poisson, Sampler, Sampling

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
    rule: ClipRule, budget: Budget, records: int | Tensor, users: int | None, sampling: Sampling
) -> Sampler:
    """Return the sampler of ``records`` records, or of ``users`` users that own them."""
    if rule.unit == "record" and not isinstance(sampling, CappedUsers):
        if users is not None or isinstance(records, Tensor):
            raise ConfigError(
                "users", users, "needs a rule with unit=user, or sampling=poisson_capped_users; "
                "records are units here",
            )  # fmt: skip
        return sampling.records(records, budget.batch)
    if users is None or not isinstance(records, Tensor):
        raise ConfigError(
            "users", users, "to protect users needs records=[owner of each] and users=count"
        )
    if len(records) and not 0 <= int(records.min()) <= int(records.max()) < users:
        raise ConfigError("records", "owners", f"must be users 0 to {users - 1}")
    if rule.unit == "record":
        return sampling.records(len(records), budget.batch, Owners(records.cpu(), users))
    return sampling.users(records.cpu(), users, budget.batch)


def sampling_of(sampling: Sampling | None, most: int | None, combine: Combine | None) -> Sampling:
    """Return ``sampling``, or Poisson with this cap and combination if there is none.

    Raises ConfigError for a cap or combination beside a ``sampling``, which has its own.
    """
    if sampling is None:
        return Poisson("poisson", most, combine or "average")
    for key, value in (("max_records_per_user", most), ("combine", combine)):
        if value is not None:
            raise ConfigError(key, value, "is a setting of sampling here: part('sampling/...')")
    return sampling


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
