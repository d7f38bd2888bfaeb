"""Peak memory of a method's steps, each method in a process of its own.

Two numbers, both counted from the moment when torch, this project and the batch are loaded and no
model is built yet, so that parameters, momentum, gradients, activations and buffers are all in:

- ``tensors``: the most bytes that torch's allocator held at once from the second step on, as its
  profiler reports every allocation and release. Exact and repeatable; it leaves out the scratch
  space that kernels take from elsewhere. ``first`` is the same for building and the first step, in
  which an engine may try things out.
- ``resident``: how far the peak of the resident set (``VmHWM``) rose over as many steps. It sees
  everything, the allocator's habits too: below some 20 MB it says little.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from benchmarks.methods import METHODS, Method, plain
from benchmarks.models import TASKS, Batches, Task

STEPS = 3
REST = "every step but the first"


@dataclass(frozen=True)
class Peak:
    """Bytes; ``resident`` is None where the system does not say."""

    tensors: int
    first: int
    resident: int | None


@contextmanager
def processes() -> Iterator[ProcessPoolExecutor]:
    """Give a pool whose every task has a fresh process, with torch imported and nothing run."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    with ProcessPoolExecutor(1, mp_context=context, max_tasks_per_child=1) as pool:
        yield pool


def measure(task: str, method: str) -> Peak:
    """Return the peak of one of ``METHODS``, or of plain SGD for any other name."""
    torch.set_num_threads(1)
    own, build = TASKS[task], METHODS.get(method, plain.contiguous)
    batches = own.batches(poisson=False)
    _load(own, build)
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts again from here
    before = _highest_resident()
    _train(own, build, batches)
    after = _highest_resident()
    resident = after - before if after is not None and before is not None else None
    gc.collect()  # the profiler would meet the end of tensors whose beginning it has not seen
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        _train(own, build, batches)
    first, rest = _most_held(profiled)
    return Peak(rest, first, resident)


def _load(task: Task, method: Method) -> None:
    """Take a step of one row, so that code loaded at first use is loaded before the start."""
    inputs, targets = task.batches(poisson=False)()
    method(task, lambda: (inputs[:1], targets[:1])).step()


def _train(task: Task, method: Method, batches: Batches) -> None:
    steps = method(task, batches)
    steps.step()
    with record_function(REST):
        for _ in range(STEPS - 1):
            steps.step()


def _most_held(profiled: profile) -> tuple[int, int]:
    results = profiled.profiler.kineto_results if profiled.profiler else None
    if results is None:
        raise RuntimeError("torch's profiler gave no result")
    events: Any = results.events()  # the stubs leave out how many bytes an event is about
    (start,) = (e.start_ns() for e in events if e.name() == REST)
    changes = sorted((e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]")
    held = first = rest = 0
    for when, change in changes:
        held += change
        if when < start:
            first = max(first, held)
        else:
            rest = max(rest, held)
    return first, rest


def _highest_resident() -> int | None:
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
            if line.startswith("VmHWM"):
                return 1024 * int(line.split()[1])
    return None
