"""The loss of every row: cross entropy, over classes or over a row's tokens."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional

from dpsgd.data.bundle import IGNORED


def cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return the cross entropy of every row in nats, ``[n]``.

    Outputs are logits ``[n, C]`` with targets ``[n]``, or ``[n, T, C]`` with ``[n, T]``: then it is
    the mean over the row's own tokens, those that are not ``IGNORED``, and 0 for a row without any.
    Raises ValueError for other shapes.
    """
    dimensions = outputs.dim()
    if dimensions not in (2, 3) or outputs.shape[:-1] != targets.shape:
        raise ValueError(
            f"outputs {tuple(outputs.shape)} do not fit targets {tuple(targets.shape)}: needs "
            "[n, C] with [n], or [n, T, C] with [n, T]"
        )
    if dimensions == 2:
        return functional.cross_entropy(outputs, targets, reduction="none")
    each = functional.cross_entropy(
        outputs.flatten(0, 1), targets.flatten(), reduction="none", ignore_index=IGNORED
    ).view(targets.shape)
    return each.sum(1) / (targets != IGNORED).sum(1).clamp_min(1)
