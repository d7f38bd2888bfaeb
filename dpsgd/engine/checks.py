"""Before and during training: every row must have a loss and a gradient of its own.

A model is code, and code that sets out to deceive can pass any probe. These checks find what people
do by accident: batch statistics, state carried from call to call, random numbers that no stream
controls, parameters used where an engine cannot see them.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportPrivateUsage=false
# (torch leaves parts of these calls untyped)
from __future__ import annotations

import random

import numpy as np
import torch
from torch import Tensor, nn

from dpsgd.clipping.groups import Groups
from dpsgd.engine.fixed import FixedState
from dpsgd.engine.gradients import Engine, Loss
from dpsgd.engine.outputs import first_difference
from dpsgd.engine.probing import has_dropout, norms_alone, quiet
from dpsgd.engine.rows import Batch, count, take, tree_map_rows
from dpsgd.errors import ConfigError, PrivacyError

WAY_OUT = (
    "no example has a gradient of its own then, and clipping bounds nothing; replace it with "
    "nn.GroupNorm(num_groups, channels) or nn.LayerNorm, which look at one row at a time"
)
NORM_TOLERANCE = 1e-4
ROUGH_TOLERANCE = 0.1
"""For a model that runs in bfloat16."""
ROWS = 8
"""At most so many rows of a batch are compared with themselves alone."""
CHECK_EVERY = 64
CALLS = 12
"""How many other batches a model sees before it must give the first one's losses again."""


def check_model(model: nn.Module) -> None:
    """Raise ConfigError for what is known to be wrong by its type alone."""
    for name, module in model.named_modules():
        where = named(name, module)
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            what = "normalises with the statistics of the whole batch"
            raise ConfigError("model", where, f"{what}: {WAY_OUT}")
        if isinstance(module, nn.Embedding | nn.EmbeddingBag):
            if module.scale_grad_by_freq:
                raise ConfigError(
                    "model", where, "scale_grad_by_freq=True mixes the rows of a batch; use False"
                )
            if module.sparse:
                raise ConfigError(
                    "model", where, "sparse=True: noise makes every gradient dense; use False"
                )
            if module.max_norm is not None:
                raise ConfigError(
                    "model", where, "max_norm changes weights in the forward pass; use null"
                )
    for name, parameter in model.named_parameters():
        if parameter._backward_hooks:
            raise ConfigError(
                "model", name, "has a gradient hook, which sees the gradient of a whole batch and "
                "no row's own; remove it",
            )  # fmt: skip
        if parameter.requires_grad and parameter.dtype not in (torch.float32, torch.float64):
            raise ConfigError(
                "model", f"{name} ({parameter.dtype})",
                "trainable parameters must be float32 or float64: norms, sums and noise of half "
                "precision underflow. Use autocast inside the model for speed",
            )  # fmt: skip


def check_rows_apart(model: nn.Module, loss: Loss, inputs: Batch, targets: Batch) -> None:
    """Raise ConfigError, naming the module, unless every row's loss depends on that row alone.

    ``inputs`` and ``targets`` are synthetic, never the data. The model runs in training mode, its
    dropout modules switched off. Also refused: whatever changes state in a forward pass, remembers
    earlier batches, or draws random numbers outside ``nn.Dropout``.
    """
    check_model(model)
    probe = quiet(model)
    fixed, parameters = FixedState.of(probe), [p.detach().clone() for p in probe.parameters()]
    before = _random_states()
    losses = _losses(probe, loss, inputs, targets)
    if _random_states() != before:
        raise ConfigError(
            "model", type(model).__name__,
            "draws random numbers outside nn.Dropout, which no stream of the run controls: a "
            "repeated step would not be the same release. Use nn.Dropout modules",
        )  # fmt: skip
    changed = fixed.changed(probe)
    changed += [
        name
        for (name, p), old in zip(probe.named_parameters(), parameters, strict=True)
        if not torch.equal(p, old)
    ]
    if changed:
        owner = changed[0].rpartition(".")[0]
        raise ConfigError(
            "model", named(owner, probe.get_submodule(owner)),
            f"changes {changed[0]!r} in its forward pass, which carries data from row to row: "
            f"{WAY_OUT}",
        )  # fmt: skip
    for i in chosen_rows(count(inputs)):
        one = slice(i, i + 1)
        alone = _losses(probe, loss, take(inputs, one), take(targets, one))
        if not same(losses[i], alone[0]):
            where = first_difference(probe, inputs, i)
            raise ConfigError(
                "model", named(where, probe.get_submodule(where)),
                f"its output is the first in which a row depends on other rows: "
                f"{way_out(probe.get_submodule(where))}",
            )  # fmt: skip
    odd = slice(1, None, 2)
    others = tree_map_rows(
        lambda t: t * 1.7 + 0.3 if t.is_floating_point() else t, take(inputs, odd)
    )
    for _ in range(CALLS):
        _losses(probe, loss, others, take(targets, odd))
    if not same(_losses(probe, loss, inputs, targets), losses):
        raise ConfigError(
            "model", type(model).__name__,
            "gives the same rows other losses after it has seen other batches: it carries data "
            "from step to step, outside ε",
        )  # fmt: skip


def way_out(module: nn.Module) -> str:
    """Return what to use instead of a module that mixes rows."""
    if getattr(module, "batch_first", True) is False:
        return "rows come first in a batch, and this layer reads them as time; use batch_first=True"
    return WAY_OUT


def check_engine(
    engine: Engine, model: nn.Module, loss: Loss, inputs: Batch, targets: Batch, groups: Groups
) -> None:
    """Raise PrivacyError unless the engine's norms on synthetic rows equal autograd's, taken on one
    row at a time, in training mode.
    """
    probe = quiet(model)
    ours = engine.capture(probe, loss, inputs, targets, groups, None).norms()
    number = count(inputs)
    rows = chosen_rows(number)
    right = norms_alone(probe, loss, inputs, targets, groups, rows)
    if ours.shape != (number, len(groups)):
        raise PrivacyError(
            f"engine={engine.name}: norms of shape {tuple(ours.shape)} for {number} rows; the "
            "model splits or joins rows"
        )
    gap = ((ours[rows] - right).abs() / right.abs().clamp_min(1e-6)).max().item()
    allowed = NORM_TOLERANCE if engine.autocast is None else ROUGH_TOLERANCE
    if not gap <= allowed:
        raise PrivacyError(
            f"engine={engine.name}: its norms differ from those of single rows by {gap:.1e} on "
            "synthetic rows: a layer's parameters are used outside its own call, or the backward "
            "pass mixes rows. Use engine=materialised"
        )


def check_row_alone(
    model: nn.Module, loss: Loss, inputs: Batch, targets: Batch, losses: Tensor, row: int
) -> None:
    """Raise PrivacyError unless ``row`` of a training batch alone has the loss it had among others.

    ``losses`` are those of the batch; of a model with dropout they are computed again, without it.
    The message holds no value of the data.
    """
    if has_dropout(model):
        model = quiet(model)
        with torch.no_grad():
            losses = loss(model(inputs), targets)
    with torch.no_grad():
        one = slice(row, row + 1)
        alone = loss(model(take(inputs, one)), take(targets, one))
    if not same(losses[row], alone[0]):
        raise PrivacyError(
            "a row of this batch has another loss when it is alone: the model mixes rows in a way "
            f"that synthetic rows did not show, so that {WAY_OUT}"
        )


def is_checked(step: int) -> bool:
    """Whether a row is looked at alone in this step: in steps 1, 2, 4, 8 … and every 64th."""
    return step & (step - 1) == 0 or step % CHECK_EVERY == 0


def chosen_rows(n: int) -> list[int]:
    """Return at most ``ROWS`` positions of ``n``, first and last among them."""
    return sorted({round(i) for i in np.linspace(0, n - 1, min(n, ROWS))})


def same(first: Tensor, second: Tensor) -> bool:
    """Whether two results are equal up to what another order of sums does."""
    return first.shape == second.shape and torch.allclose(first, second, rtol=1e-3, atol=1e-5)


def named(name: str, module: nn.Module) -> str:
    """Return a module's name with its type."""
    return f"{name or '(model)'} ({type(module).__name__})"


def _losses(model: nn.Module, loss: Loss, inputs: Batch, targets: Batch) -> Tensor:
    with torch.no_grad():
        losses = loss(model(inputs), targets)
    if losses.shape != (count(inputs),):
        raise ConfigError(
            "model", type(model).__name__,
            f"the loss must give one value a row, got shape {tuple(losses.shape)} for "
            f"{count(inputs)} rows",
        )  # fmt: skip
    return losses


def _random_states() -> tuple[object, ...]:
    name, words, *rest = np.random.get_state()
    of_numpy = (name, np.asarray(words).tobytes(), *rest)
    return torch.get_rng_state().numpy().tobytes(), of_numpy, random.getstate()
