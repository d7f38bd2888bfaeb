"""What an accountant is asked about: who is drawn, for how many steps, at which δ, with looks."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from dpsgd.accounting import DpEvent, check_delta, default_delta
from dpsgd.data.bundle import Bundle
from dpsgd.errors import ConfigError
from dpsgd.experiment.canaries import canaries_in, records_of_each, with_more
from dpsgd.experiment.decisions import looks_of, protected_besides, with_looks
from dpsgd.experiment.settings import Cell
from dpsgd.sampling.sampler import Owners, Sampler
from dpsgd.training.looks import Looks


@dataclass(frozen=True)
class Schedule:
    """A cell's draws and looks, fixed before training. ``looks`` are those at the validation split,
    None without decisions.
    """

    cell: Cell
    sampler: Sampler
    steps: int
    delta: float
    delta_why: str
    looks: Looks | None

    def event(self, noise_multiplier: float, steps: int) -> DpEvent:
        """Return what ``steps`` steps cost, with all looks that are planned for so many."""
        return with_looks(self.sampler.event(noise_multiplier, steps), self.looks, steps)


def scheduled(cell: Cell, bundle: Bundle) -> Schedule:
    """Return what a cell does with its data, as far as privacy is concerned. Raises ConfigError."""
    settings = cell.settings
    sampler = _sampler(cell, bundle)
    steps = settings.steps or sampler.steps(settings.epochs)
    delta = settings.delta or default_delta(sampler.n_units)
    looks = looks_of(cell, bundle, sampler.unit, steps)
    check_delta(delta, sampler.n_units + protected_besides(looks))
    why = "configured" if settings.delta else "n_units^-1.1, rounded down to one digit"
    return Schedule(cell, sampler, steps, delta, why, looks)


def _sampler(cell: Cell, bundle: Bundle) -> Sampler:
    batch, user = cell.settings.batch, bundle.train.user
    more, each = canaries_in(cell), records_of_each(cell)
    owners = None if user is None else Owners(torch.from_numpy(user), len(bundle.users))
    try:
        if cell.clip.unit == "record":
            records = len(bundle.train) + more * each
            return cell.sampling.records(records, batch, with_more(owners, more, each))
        if owners is None:
            raise ConfigError(
                "clip.unit", "user",
                f"data={bundle.name} knows of no users; name their column (data.user=...), or "
                "partition the records: users=dirichlet",
            )  # fmt: skip
        return cell.sampling.users(owners.user, owners.count + more, batch)
    except ConfigError as error:
        outer = error.key in ("batch", "clip.unit")
        raise error if outer else error.under("sampling") from None
