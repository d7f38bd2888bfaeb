"""What plain autograd says of a model on a few rows, and whether a path says the same."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportPrivateUsage=false
# (torch leaves parts of these calls untyped)
from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as tree

from dpsgd.engine.capturing import pieces_of
from dpsgd.engine.general import Call, UnfitError
from dpsgd.engine.gradients import Loss, Units
from dpsgd.engine.layouts import layouts
from dpsgd.engine.pieces import Piece, scaled
from dpsgd.engine.probing import gradients_alone
from dpsgd.engine.rows import Batch, count, take, tensors, tree_map_rows
from dpsgd.engine.settled import settle
from dpsgd.engine.strategy import SHARED, Strategy, lifted_view

FACTORS = (1.0, -0.5, 2.0, 1.5, -1.2)
"""What the trial's losses are multiplied by, so that no row can pass for another."""
ROWS = len(FACTORS)


class Trial:
    """A model in its trial state, some rows, autograd's gradients of each and all calls' layouts.

    ``inputs`` and ``targets`` have ``ROWS`` + 1 rows; the last only shows which dimension grows.
    ``tolerance`` is relative to a gradient, and to all of its row's gradients.
    """

    def __init__(
        self, model: nn.Module, loss: Loss, inputs: Batch, targets: Batch,
        tolerance: tuple[float, float],
    ) -> None:  # fmt: skip
        self.model, self.loss, self.tolerance = model, loss, tolerance
        rows = slice(0, ROWS)
        self.inputs, self.targets = take(inputs, rows), take(targets, rows)
        right, self.losses = gradients_alone(model, loss, self.inputs, self.targets, range(ROWS))
        parameters = {n: p for n, p in model.named_parameters() if p.requires_grad}
        self.idle = frozenset(n for n, g in right.items() if all(x is None for x in g))
        self.right = {
            n: torch.stack([torch.zeros_like(parameters[n]) if x is None else x for x in g])
            for n, g in right.items()
        }
        self.whole = torch.stack([_lengths(g) for g in self.right.values()]).square().sum(0).sqrt()
        self.factor = self.whole.new_tensor(FACTORS)
        names = [n for n, m in model.named_modules() if any(True for _ in _trained(m))]
        self.calls: dict[str, list[Call | None]] = layouts(model, names, self.inputs, inputs, ROWS)

    def is_finite(self) -> bool:
        """Whether the rows are fit to compare anything."""
        return bool(torch.isfinite(self.whole).all() and torch.isfinite(self.losses).all())

    def lifts(self, name: str, places: int) -> bool:
        """Whether a plain parameter can be ``[rows, 1, …, *shape]``, ``places`` ones in between."""
        owner, _, local = name.rpartition(".")
        held: dict[str, Any] = self.model.get_submodule(owner)._parameters
        parameter = held[local]
        leaf = parameter.detach().expand(ROWS, *parameter.shape).requires_grad_()
        held[local] = lifted_view(leaf, places)
        try:
            losses = self.loss(self.model(self.inputs), self.targets)
            (found,) = torch.autograd.grad(losses @ self.factor, [leaf], allow_unused=True)
            order = torch.arange(ROWS)
            return self._same(losses, order) and self._agrees(name, found, order)
        except Exception:  # whatever a model raises when a parameter has another shape
            return False
        finally:
            held[local] = parameter

    def wrong(self, chosen: Strategy) -> str | None:
        """Name a parameter whose gradients are wrong, or (with a dot behind) the module that could
        not be run; None if all is right, the rows taken in one order and in the other.
        """
        for order in (torch.arange(ROWS), torch.arange(ROWS).flip(0)):
            found = self._wrong(chosen, order)
            if found is not None:
                return found
        return None

    def _wrong(self, chosen: Strategy, order: Tensor) -> str | None:
        units = Units(torch.arange(ROWS, device=self.factor.device), ROWS, self.factor)
        inputs, targets = take(self.inputs, order), take(self.targets, order)
        try:
            pieces, losses = pieces_of(self.model, chosen, self.loss, inputs, targets, units)
        except UnfitError as error:
            return f"{error.module}."
        except Exception:  # whatever a model raises when a value has another shape
            doubtful = _doubtful(chosen)
            if doubtful is None:
                raise
            return doubtful
        if not self._same(losses, order):
            return _doubtful(chosen) or "."
        for name, right in self.right.items():
            try:
                found = _rows(pieces[name], right) if name in pieces else torch.zeros_like(right)
            except RuntimeError:
                return name
            if not self._agrees(name, found, order):
                return name
        return None

    def _agrees(self, name: str, found: Tensor, order: Tensor) -> bool:
        relative, absolute = self.tolerance
        right = scaled(self.right[name][order], self.factor)
        allowed = relative * _lengths(right) + absolute * self.whole[order] * self.factor.abs()
        return bool((_lengths(found - right) <= allowed).all())

    def _same(self, losses: Tensor, order: Tensor) -> bool:
        right = self.losses[order].to(losses.dtype)
        relative = self.tolerance[0]
        return losses.shape == right.shape and torch.allclose(losses, right, relative, relative)


def varied(batch: Batch, own: Tensor) -> Batch:
    """Return ``ROWS`` + 1 rows in the form of ``batch``, some of them the rows ``own``, some
    made up, far and near, so that what happens in one range of values only is seen.
    """
    far, near = _made_up(batch, wide=True), _made_up(batch, wide=False)
    kinds = torch.arange(ROWS + 1) % 3
    sources = [far, take(batch, own[torch.arange(ROWS + 1) % len(own)]) if len(own) else near, near]

    def choose(*of_kind: Any) -> Any:
        if not isinstance(of_kind[0], Tensor):
            return of_kind[0]
        return torch.stack([of_kind[k][i] for i, k in enumerate(kinds.tolist())])

    return tree.tree_map(choose, *sources)


def near_rows(batch: Batch) -> Batch:
    """Return ``ROWS`` + 1 made-up rows, uniform in [0, 1), in the form of ``batch``."""
    return _made_up(batch, wide=False)


def _made_up(batch: Batch, *, wide: bool) -> Batch:
    """Numbers from N(0, 2²) or uniform ones; for integers, what stands in that place of any row."""
    generator = torch.Generator().manual_seed(int(wide))

    def make(values: Tensor) -> Tensor:
        size = (ROWS + 1, *values.shape[1:])
        if values.is_floating_point():
            drawn = (
                2 * torch.randn(size, generator=generator)
                if wide
                else (torch.rand(size, generator=generator))
            )
            return drawn.to(values)
        return values.gather(
            0, torch.randint(len(values), size, generator=generator).to(values.device)
        )

    return tree_map_rows(make, batch)


def finite_rows(inputs: Batch) -> Tensor:
    """Return the positions of the rows whose inputs are all finite."""
    finite = torch.ones(count(inputs), dtype=torch.bool)
    for values in tensors(inputs):
        finite &= torch.isfinite(values.reshape(len(values), -1)).all(1).cpu()
    return torch.nonzero(finite).flatten()


def _rows(pieces: list[Piece], right: Tensor) -> Tensor:
    """Return a parameter's gradient of each row as the weighted sum of that row alone."""
    settled = settle(pieces, None)
    return torch.stack(
        [
            settled.weighted_sum(row, row).reshape(right.shape[1:])
            for row in torch.eye(len(right), dtype=right.dtype, device=right.device)
        ]
    )


def _doubtful(chosen: Strategy) -> str | None:
    """Name what is first to blame if outputs change: a value that has rows now, and had none."""
    shared = [f"{n}." for n, calls in chosen.fast.items() if any(c in SHARED for c in calls)]
    return next(iter([*shared, *chosen.lifted]), None)


def _lengths(rows: Tensor) -> Tensor:
    return rows.reshape(len(rows), -1).norm(dim=1)


def _trained(module: nn.Module) -> Any:
    return (p for p in module.parameters() if p.requires_grad)
