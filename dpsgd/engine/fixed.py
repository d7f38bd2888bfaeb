"""What training must not change: everything in a model but its trainable parameters."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (torch leaves parts of these calls untyped)
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from dpsgd.errors import ConfigError, PrivacyError


@dataclass(frozen=True)
class FixedState:
    """A copy of a model's buffers and frozen parameters.

    A frozen parameter or buffer that a forward pass writes to carries raw data into ``model.pt``,
    outside ε.
    """

    values: dict[str, Tensor]

    @classmethod
    def of(cls, model: nn.Module) -> FixedState:
        """Copy. Raises ConfigError for state that is not a tensor (``get_extra_state``)."""
        return cls({name: value.clone() for name, value in _fixed(model).items()})

    def changed(self, model: nn.Module) -> list[str]:
        """Return the names of what is not as it was."""
        now = _fixed(model)
        return [
            name
            for name in {**self.values, **now}
            if name not in now
            or name not in self.values
            or not torch.equal(now[name], self.values[name].to(now[name].device))
        ]

    def check(self, model: nn.Module) -> None:
        """Raise PrivacyError if anything changed."""
        changed = self.changed(model)
        if changed:
            raise PrivacyError(
                f"{changed[0]!r} is not trained and changed during training: it carries data "
                "outside ε, and so the model is not saved. Make it a constant"
            )


def _fixed(model: nn.Module) -> dict[str, Tensor]:
    trained = {n for n, p in model.named_parameters(remove_duplicate=False) if p.requires_grad}
    state: dict[str, Any] = model.state_dict()
    for name, value in state.items():
        if not isinstance(value, Tensor):
            raise ConfigError(
                "model", name, "keeps state that is not a tensor (get_extra_state), which no check "
                "can follow; remove it",
            )  # fmt: skip
    found = {n: v.detach() for n, v in state.items() if n not in trained}
    # Buffers outside the state dict are not saved, but a forward pass reads them all the same.
    return found | {n: v.detach() for n, v in model.named_buffers()}
