"""The canaries of an audited cell: units of its sampler beside those of the data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from dpsgd.auditing.settings import CanaryAudit, GradientAudit, MembershipAudit, NoAudit
from dpsgd.experiment.parts import plain
from dpsgd.experiment.settings import Cell
from dpsgd.sampling import CappedUsers
from dpsgd.sampling.sampler import Owners
from dpsgd.training.canaries import check_fits


def canaries_in(cell: Cell) -> int:
    """Return how many units of a cell's sampler are canaries, whatever their coins."""
    return cell.audit.canaries if isinstance(cell.audit, GradientAudit) else 0


def check_canaries(cell: Cell, model: nn.Module) -> None:
    """Raise ConfigError if a model has no room for a cell's canaries."""
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    if trained:
        check_fits(canaries_in(cell), trained)


def records_of_each(cell: Cell) -> int:
    """Return how many records one canary brings: as many as a user may, where those are drawn and
    clipped one by one and users protected, else 1.
    """
    sampling = cell.sampling
    return sampling.max_records_per_user if isinstance(sampling, CappedUsers) else 1


def with_more(owners: Owners | None, more: int, each: int) -> Owners | None:
    """Return the owners of the records and of ``more`` owners' ``each`` records."""
    if owners is None or not more:
        return owners
    own = torch.arange(owners.count, owners.count + more).repeat_interleave(each)
    return Owners(torch.cat([owners.user, own]), owners.count + more)


def info_with_canaries(cell: Cell, info: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return what a rule may know of each unit ``[units, ...]``, with rows for the canaries.

    A canary is in no slice that is counted, and in the first group of a rule that needs one.
    """
    more = canaries_in(cell) * records_of_each(cell)
    if not more:
        return dict(info)
    found: dict[str, Tensor] = {}
    for key, value in info.items():
        rows = value.new_zeros((more, *value.shape[1:]))
        if key == cell.clip.partition:
            rows[:, 0] = True
        found[key] = torch.cat([value, rows])
    return found


def audit_lines(ledger: Mapping[str, Any]) -> list[str]:
    """Return what a ledger's page says of who has a coin; nothing of a run that is not audited."""
    audit = ledger.get("audit")
    if audit is None:
        return []
    who = {
        GradientAudit.__name__: f"{audit.get('canaries')} synthetic units beside the data's",
        CanaryAudit.__name__: "a share of the training records, made into canaries",
        MembershipAudit.__name__: "every training record",
    }[str(audit["_target_"]).rpartition(".")[2]]
    return [
        f"Audited (audit={audit['name']}): coins decide who is trained on, of {who}. n, and with "
        "it q and δ, counts all of them, whatever their coins."
    ]


def audit_block(cell: Cell) -> dict[str, Any]:
    """Return what the ledger says before training of how a run is audited; nothing of none."""
    return {} if isinstance(cell.audit, NoAudit) else {"audit": plain(cell.audit)}
