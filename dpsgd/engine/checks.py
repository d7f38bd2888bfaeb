"""Before training: refuse models that mix rows, and try the engine against the oracle."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportPrivateUsage=false
# (torch leaves parts of these calls untyped)
from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn

from dpsgd.clipping.groups import Groups
from dpsgd.engine.gradients import Engine, Loss
from dpsgd.errors import ConfigError, PrivacyError

GROUP_NORM = (
    "replace it with nn.GroupNorm(num_groups, channels) or nn.LayerNorm, which look at one row at "
    "a time"
)
TOLERANCE = 1e-4
ROWS = 4


def check_rows_apart(model: nn.Module, loss: Loss, inputs: Tensor, targets: Tensor) -> None:
    """Raise ConfigError, naming the module, unless row i's loss depends on row i alone.

    ``inputs`` and ``targets`` are synthetic, never the data. Also refused: a forward pass in
    training mode that changes a buffer (running statistics), and embeddings whose gradient is
    scaled by the frequencies in a batch.
    """
    for name, module in model.named_modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            raise _refused(name, module, "normalises with the statistics of the whole batch")
        if isinstance(module, nn.Embedding) and module.scale_grad_by_freq:
            raise ConfigError(
                "model", _named(name, module),
                "scale_grad_by_freq=True mixes the rows of a batch; use scale_grad_by_freq=False",
            )  # fmt: skip
    probe = copy.deepcopy(model).train()
    buffers = {name: value.clone() for name, value in probe.named_buffers()}
    others = inputs.clone()
    others[1:] = (
        others[1:].flip(0) * 1.7 + 0.3 if inputs.is_floating_point() else others[1:].flip(0)
    )
    outputs = [_outputs(probe, loss, x, targets) for x in (inputs, others)]
    for name, value in probe.named_buffers():
        if not torch.equal(value, buffers[name]):
            owner = name.rpartition(".")[0]
            raise _refused(owner, probe.get_submodule(owner), f"changes its buffer {name!r}")
    for name, first in outputs[0].items():
        second = outputs[1][name]
        if first.shape != second.shape or not torch.allclose(first, second, rtol=1e-4, atol=1e-6):
            module = model if name == "loss" else model.get_submodule(name)
            raise _refused(name, module, "gives one row another value when other rows change")


def check_engine(
    engine: Engine, model: nn.Module, loss: Loss, inputs: Tensor, targets: Tensor, groups: Groups
) -> None:
    """Raise PrivacyError unless the engine's norms on synthetic rows equal autograd's, taken on one
    row at a time.
    """
    probe = copy.deepcopy(model).eval()
    ours = engine.capture(probe, loss, inputs, targets, groups).norms()
    right = _norms_one_by_one(probe, loss, inputs, targets, groups)
    gap = ((ours - right).abs() / right.abs().clamp_min(1e-6)).max().item()
    if not gap <= TOLERANCE:
        raise PrivacyError(
            f"engine={engine.name}: its norms differ from the slow engine's by {gap:.1e} on "
            "synthetic rows; a layer's parameters are used outside its own call. "
            "Use engine=materialised"
        )


def _norms_one_by_one(
    model: nn.Module, loss: Loss, inputs: Tensor, targets: Tensor, groups: Groups
) -> Tensor:
    """Return ``[rows, groups]`` norms by plain autograd, which starts up faster than torch.func."""
    named = {n: p for n, p in model.named_parameters() if p.requires_grad}
    rows: list[Tensor] = []
    for i in range(len(inputs)):
        value = loss(model(inputs[i : i + 1]), targets[i : i + 1]).sum()
        found = torch.autograd.grad(value, list(named.values()), allow_unused=True)
        squares = {
            name: p.new_zeros(()) if g is None else g.square().sum()
            for (name, p), g in zip(named.items(), found, strict=True)
        }
        rows.append(torch.stack([_sum_of(squares, members) for members in groups.parameters]))
    return torch.stack(rows).sqrt()


def _sum_of(values: dict[str, Tensor], names: tuple[str, ...]) -> Tensor:
    """Return the sum of the named values."""
    return torch.stack([values[name] for name in names]).sum(0)


def _outputs(model: nn.Module, loss: Loss, inputs: Tensor, targets: Tensor) -> dict[str, Tensor]:
    """Return row 0 of every leaf module's output, in order of execution, and of the loss."""
    found: dict[str, Tensor] = {}

    def keep(name: str) -> Callable[[nn.Module, tuple[Tensor, ...], object], None]:
        def hook(module: nn.Module, args: tuple[Tensor, ...], output: object) -> None:
            if isinstance(output, Tensor) and output.dim() and len(output) == len(inputs):
                found.setdefault(name, output[0].detach().clone())

        return hook

    leaves = [(n, m) for n, m in model.named_modules() if n and not list(m.children())]
    handles = [module.register_forward_hook(keep(name)) for name, module in leaves]
    try:
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(0)
            losses = loss(model(inputs), targets)
    finally:
        for handle in handles:
            handle.remove()
    if losses.shape != (len(inputs),):
        raise ConfigError(
            "model", type(model).__name__,
            f"the loss must give one value a row, got shape {tuple(losses.shape)}",
        )  # fmt: skip
    found["loss"] = losses[0].detach()
    return found


def _refused(name: str, module: nn.Module, what: str) -> ConfigError:
    return ConfigError(
        "model", _named(name, module),
        f"{what}: then no example has a gradient of its own, and clipping bounds nothing; "
        f"{GROUP_NORM}",
    )  # fmt: skip


def _named(name: str, module: nn.Module) -> str:
    return f"{name or '(model)'} ({type(module).__name__})"
