"""Norms and sums are computed in full float32, whatever the model runs in."""

# pyright: reportUnknownMemberType=false
# (torch leaves parts of these calls untyped)
from __future__ import annotations

from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch
from torch import Tensor

_UNCHANGED = nullcontext()


def full_precision(like: Tensor) -> AbstractContextManager[None]:
    """No autocast and no TF32 inside: a norm that comes out too small would break the bound.

    ``like`` is on the device in question.
    """
    if like.is_cpu and not torch.is_autocast_enabled("cpu"):
        return _UNCHANGED
    kind, cuda = like.device.type, like.is_cuda
    tf32 = cuda and (torch.backends.cuda.matmul.allow_tf32 or torch.backends.cudnn.allow_tf32)
    if not tf32 and not torch.is_autocast_enabled(kind):
        return _UNCHANGED
    return _full_precision(like.device, cuda)


@contextmanager
def _full_precision(device: torch.device, cuda: bool) -> Generator[None]:
    tf32 = torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32
    if cuda:
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    try:
        with torch.autocast(device.type, enabled=False):
            yield
    finally:
        if cuda:
            torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = tf32


def running_in(autocast: str | None, like: Tensor) -> AbstractContextManager[object]:
    """Autocast to ``bfloat16`` inside, on the device of ``like``, if that is asked for."""
    if autocast is None:
        return _UNCHANGED
    return torch.autocast(like.device.type, dtype=torch.bfloat16)


def wide(value: Tensor) -> Tensor:
    """Return ``value`` in float32 if its type is narrower: squares of half precision underflow."""
    return value if value.dtype in (torch.float32, torch.float64) else value.float()
