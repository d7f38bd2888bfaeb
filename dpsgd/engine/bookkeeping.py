"""The fast engine: one forward and one short backward pass, gradients only where small."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# (torch leaves parts of these calls untyped)
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Literal

import torch
from torch import Tensor, nn

from dpsgd.clipping.groups import Groups
from dpsgd.engine.capturing import Captured, captured
from dpsgd.engine.choosing import strategy_of
from dpsgd.engine.gradients import Loss, NoRows, UnitGradients, Units
from dpsgd.engine.precision import full_precision
from dpsgd.engine.recorder import OutdatedError
from dpsgd.engine.rows import Batch, count, image_layout
from dpsgd.engine.wiring import wiring_of


@dataclass(frozen=True)
class Bookkeeping:
    """Norms and weighted sums from each layer's input and output gradient
    (``conf/engine/bookkeeping.yaml``).

    Linear, convolution, embedding and normalisation layers have formulas; plain parameters are
    broadcast with rows in front; any other module is run with parameters of every row's own. Which
    path a parameter takes is chosen by trying, see ``strategy_of``.

    Attributes:
        name: as the configuration calls it.
        micro_batch: rows captured at a time; ``auto``: as many as ``memory_gb`` holds; None: all.
        memory_gb: GiB that ``micro_batch=auto`` keeps to.
        autocast: None, or ``bfloat16`` for the model's own passes; norms and sums are float32.
        non_finite: whether a unit whose gradient is not finite stops the run or is dropped.

    """

    name: str
    micro_batch: int | Literal["auto"] | None
    memory_gb: float
    autocast: Literal["bfloat16"] | None
    non_finite: Literal["stop", "drop"]

    def capture(
        self, model: nn.Module, loss: Loss, inputs: Batch, targets: Batch, groups: Groups,
        units: Units | None,
    ) -> UnitGradients:  # fmt: skip
        """Run the model once, forwards and backwards.

        Raises PrivacyError if the model uses a parameter in another way than on the rows by which
        its strategy was chosen.
        """
        if not torch.is_grad_enabled():
            with torch.enable_grad():
                return self.capture(model, loss, inputs, targets, groups, units)
        wiring, rows = wiring_of(model), count(inputs)
        if rows == 0:
            return NoRows(wiring.parameters, groups, units.count if units else 0)
        if wiring.images:
            model.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]  (torch's overloads lack it)
            inputs = image_layout(inputs)

        def attempt(anew: bool) -> Captured:
            strategy = strategy_of(model, wiring.names, loss, inputs, targets, anew=anew)
            return captured(
                model, strategy, loss, inputs, targets, rows, units, self.autocast, wiring
            )

        try:
            found = attempt(anew=False)
        except OutdatedError:
            found = attempt(anew=True)
        return RecordedGradients(found, wiring.parameters, groups, units)


@dataclass(frozen=True)
class RecordedGradients:
    """The captured gradients of one batch."""

    captured: Captured
    like: Mapping[str, Tensor]
    groups: Groups
    units: Units | None

    @property
    def losses(self) -> Tensor:
        """``[rows]`` losses, detached."""
        return self.captured.losses

    def norms(self) -> Tensor:
        """``[units, groups]`` norms."""
        settled, together = self.captured.settled, self.captured.together
        if not settled and together is None:
            rows = len(self.losses) if self.units is None else self.units.count
            return self.losses.new_zeros(rows, len(self.groups))
        with full_precision(self.losses):
            if together is not None and not settled and len(self.groups) == 1:
                total = together.joint_norms()
            else:
                total = self._by_group(*self._by_parameter())
            wanted = torch.float64 if self.losses.dtype is torch.float64 else torch.float32
            return total if total.dtype is wanted else total.to(wanted)

    def weighted_sum(self, weights: Tensor) -> dict[str, Tensor]:
        """Σ_u w_ug·grad_u for every parameter."""
        settled, together = self.captured.settled, self.captured.together
        of_rows = weights if self.units is None else weights.index_select(0, self.units.unit)
        found: dict[str, Tensor] = {}
        with full_precision(weights):
            if together is not None:
                found = together.weighted_sums(of_rows, self.groups.index)
            for name, gradient in settled.items():
                group = self.groups.index_of(name)
                total = gradient.weighted_sum(weights[:, group], of_rows[:, group])
                shape = self.like[name].shape
                found[name] = total if total.shape == shape else total.view(shape)
        return {n: found[n] if n in found else torch.zeros_like(v) for n, v in self.like.items()}

    def _by_parameter(self) -> tuple[list[str], Tensor]:
        """Return the names of the parameters with a gradient, and their norms as columns."""
        settled, together = self.captured.settled, self.captured.together
        names, *norms = ([],) if together is None else together.norms()
        if settled:
            names += settled
            norms += [s.squared.sqrt().unsqueeze(1) for s in settled.values()]
        return names, norms[0] if len(norms) == 1 else torch.cat(norms, dim=1)

    def _by_group(self, names: list[str], columns: Tensor) -> Tensor:
        """Return ``[units, groups]`` from the norms ``[units, parameters]`` of these parameters."""
        if len(self.groups) == 1:
            return torch.linalg.vector_norm(columns, dim=1, keepdim=True)
        index, groups = self.groups.index, len(self.groups)
        of_group = tuple([index[name] for name in names])
        if of_group == _all_twice(groups):  # as biases and weights of layers are
            return torch.hypot(*columns.chunk(2, dim=1))
        belongs = _belongs(of_group, groups, columns.dtype, columns.device)
        # Of a group's units side by side in memory: they are multiplied by their weights.
        return torch.mm(belongs, (columns * columns).t()).sqrt_().t()

    def without(self, dropped: Tensor) -> UnitGradients:
        """Return the batch with the ``dropped`` ``[units]`` units' gradients zero."""
        left = self.captured.without(dropped, self.units)
        return RecordedGradients(left, self.like, self.groups, self.units)


@cache
def _all_twice(groups: int) -> tuple[int, ...]:
    return 2 * tuple(range(groups))


@lru_cache(maxsize=64)
def _belongs(
    of_group: tuple[int, ...], groups: int, dtype: torch.dtype, device: torch.device
) -> Tensor:
    """Return ``[groups, parameters]``, 1 where a parameter is in a clip group and else 0."""
    one_hot = torch.nn.functional.one_hot(torch.tensor(of_group), groups)
    return one_hot.t().to(device, dtype).contiguous()
