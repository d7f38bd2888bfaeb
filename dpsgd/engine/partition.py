"""From a model to its clip groups."""

from __future__ import annotations

from torch import nn

from dpsgd.clipping.groups import Groups
from dpsgd.clipping.rule import Granularity
from dpsgd.errors import ConfigError


def clip_groups(model: nn.Module, granularity: Granularity) -> Groups:
    """Partition the trainable parameters of ``model``: one group, one a module, or one a tensor.

    A tied parameter belongs to the module that names it first. Raises ConfigError for a model with
    nothing to train.
    """
    members: dict[str, list[str]] = {}
    sizes: dict[str, int] = {}
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        module = name.rpartition(".")[0] or "(model)"
        group = {"all": "all", "layer": module, "tensor": name}[granularity]
        members.setdefault(group, []).append(name)
        sizes[group] = sizes.get(group, 0) + parameter.numel()
    if not members:
        raise ConfigError("model", type(model).__name__, "has no trainable parameter")
    return Groups(tuple(members), tuple(tuple(m) for m in members.values()), tuple(sizes.values()))
