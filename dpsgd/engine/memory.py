"""How many rows an engine can hold at once: from model and settings alone, never from free memory.

A limit that looked at the machine or the data would split a repeated run elsewhere, and sums in
another order are other numbers.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportPrivateUsage=false
# (torch leaves parts of these calls untyped)
from __future__ import annotations

import copy
import gc
import math
import weakref
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

from dpsgd.clipping.groups import Groups
from dpsgd.engine.gradients import Engine, Loss
from dpsgd.engine.rows import Batch, count, take, tensors, tree_map_rows
from dpsgd.errors import ConfigError

GIB = 2**30

HEADROOM = 2
"""What a process needs for each byte of tensors: kernels have their own, and freed memory has
holes. Measured on the CPU: 0.4 to 1.7 for the models of ``conf/model``.
"""

MEASURED = 8
"""Rows of a synthetic batch that show what a row needs: more would measure the same, slower."""


def rows_at_once(
    engine: Engine, model: nn.Module, loss: Loss, inputs: Batch, targets: Batch, groups: Groups,
    largest: float = math.inf,
) -> int | None:  # fmt: skip
    """Return the rows of a micro-batch, or None for whole draws: ``engine.micro_batch``, or for
    ``auto`` what ``engine.memory_gb`` GiB hold beside the model itself, at least 1.

    ``inputs`` and ``targets`` are synthetic, two rows or more; they are captured once, whatever
    ``micro_batch`` is. Where a generous guess holds the ``largest`` draw all the same, nothing is
    measured, and the guess is returned. Raises ConfigError for a number of rows or GiB that makes
    no sense.
    """
    chosen = engine.micro_batch
    if not (math.isfinite(engine.memory_gb) and engine.memory_gb > 0):
        raise ConfigError("engine.memory_gb", engine.memory_gb, "must be a finite number above 0")
    if isinstance(chosen, int) and chosen < 1:
        raise ConfigError("engine.micro_batch", chosen, "must be at least 1, auto, or null")
    _look_first(engine, model, loss, inputs, targets, groups)
    if chosen is None or chosen != "auto":
        return chosen
    limit = int(engine.memory_gb * GIB)
    guess = limit // generous_bytes(model, inputs)
    if guess >= largest:
        return guess
    needed = HEADROOM * bytes_a_row(engine, model, loss, inputs, targets, groups)
    return max(limit // needed, 1)


def _look_first(
    engine: Engine, model: nn.Module, loss: Loss, inputs: Batch, targets: Batch, groups: Groups
) -> None:
    """Capture once: an engine may choose its ways by the first rows that it sees of a model, and
    those must not be the data.
    """
    device = next(model.parameters()).device
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        engine.capture(model, loss, inputs, targets, groups, None)


def generous_bytes(model: nn.Module, inputs: Batch) -> int:
    """Return more than a row can need: 64 times all that modules return, and 8 times the model.

    A layer keeps its input, its output's gradient and what is no larger than both twice over; the
    general path holds the parameters once for every row, and their gradient. Functions between
    modules are not seen, which the factor leaves room for.
    """
    seen = 0

    def count_output(_: nn.Module, args: Any, output: Any) -> None:
        nonlocal seen
        seen += sum(value.nbytes for value in tensors(output))

    handles = [module.register_forward_hook(count_output) for module in model.modules()]
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            model(inputs)
    finally:
        for handle in handles:
            handle.remove()
    own = sum(parameter.nbytes for parameter in model.parameters())
    given = sum(value.nbytes for value in tensors(inputs))
    return 64 * math.ceil((seen + given) / count(inputs)) + 8 * own


def bytes_a_row(
    engine: Engine, model: nn.Module, loss: Loss, inputs: Batch, targets: Batch, groups: Groups
) -> int:
    """Return the bytes by which one more row raises the peak of capture, norms and weighted sum.

    Two batches of different size are tried on the CPU, so that what does not depend on rows
    cancels. Every tensor that torch makes is counted, while it lives; what a kernel needs inside
    itself is not.
    """
    if next(model.parameters()).device.type != "cpu":
        model = copy.deepcopy(model).cpu()
    inputs, targets = (tree_map_rows(Tensor.cpu, batch) for batch in (inputs, targets))

    def once(rows: int) -> None:
        chosen = torch.arange(rows)
        batch = take(inputs, chosen), take(targets, chosen)
        gradients = engine.capture(model, loss, *batch, groups, None)
        norms = gradients.norms()
        gradients.weighted_sum(torch.ones_like(norms))

    most = count(inputs)
    some = most // 2
    with torch.random.fork_rng(devices=[]):
        for rows in (some, most):  # an engine may do more on the first rows, or so many, it sees
            once(rows)
        few, many = (living_bytes(partial(once, rows)) for rows in (some, most))
    # With few rows the peak may be where the parameters' own sums are; with many it is where rows
    # weigh most. The same operation is compared in both, if they are the same.
    pairs = zip(few, many, strict=True) if len(few) == len(many) else [(max(few), max(many))]
    return max(math.ceil(max(y - x for x, y in pairs) / (most - some)), 1)


def living_bytes(work: Callable[[], object]) -> list[int]:
    """Return after each operation of ``work`` the bytes of all tensors made by it and still there.

    Each storage counts once, however many tensors look into it.
    """
    # A collection in between would let garbage go at a time that depends on what ran before.
    with _no_collection(), _Living() as living:
        work()
    return living.after


class _Living(TorchDispatchMode):
    """Counts the storage of every tensor that an operation returns, until it is gone."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0
        self.after: list[int] = []
        self._seen: set[int] = set()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        for value in tree_iter(result):
            if isinstance(value, Tensor):
                self._add(value.untyped_storage())
        self.after.append(self.now)
        return result

    def _add(self, storage: torch.UntypedStorage) -> None:
        key = storage._cdata
        if key in self._seen:
            return
        self._seen.add(key)
        self.now += storage.nbytes()
        weakref.finalize(storage, self._remove, key, storage.nbytes())

    def _remove(self, key: int, size: int) -> None:
        self._seen.discard(key)
        self.now -= size


@contextmanager
def _no_collection() -> Generator[None]:
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
