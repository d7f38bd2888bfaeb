"""What this machine's kernels compute, down to the last bit: names of them do not tell."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import conv2d, log_softmax

from dpsgd.experiment.threads import torch_threads

_SIDES = ((37, 784, 128), (128, 65, 10))
"""Rows, inputs and outputs of the products that are tried."""
_FEW = 11
"""Rows that are multiplied one by one: each takes inputs × outputs numbers."""


@cache
def kernels() -> str:
    """Return a hash (16 hex digits) of the bits of fixed products, sums and functions on the CPU,
    by one thread.

    Libraries choose code by the maker of a processor and by settings such as ``MKL_CBWR``, where
    PyTorch names but a class of instructions: the order of a sum may differ between two machines
    that are called the same. Asked once a process.
    """
    digest = hashlib.sha256()
    with torch.no_grad(), torch_threads(1):
        for value in _computed():
            digest.update(value.contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]


@cache
def processor() -> str:
    """Return the processor's model, as its machine calls it; empty where that is not known."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor()
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor())


def _computed() -> Iterator[Tensor]:
    generator = torch.Generator().manual_seed(0)
    for kind in (torch.float32, torch.float64):
        for rows, inputs, outputs in _SIDES:
            left = torch.randn(rows, inputs, generator=generator, dtype=kind)
            right = torch.randn(outputs, inputs, generator=generator, dtype=kind)
            product = left @ right.T
            yield product
            yield product.T @ left
            few = slice(_FEW)
            yield torch.bmm(product[few].unsqueeze(2), left[few].unsqueeze(1)).sum(0)
            yield torch.linalg.vector_norm(left, dim=1)
            yield log_softmax(product, dim=1).sum(0)
        images = torch.randn(3, 2, 9, 9, generator=generator, dtype=kind)
        yield conv2d(images, torch.randn(5, 2, 3, 3, generator=generator, dtype=kind), padding=1)
