"""CPU time of a method's step beside the plain step's, in turns."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.methods import Method, plain
from benchmarks.models import Task

WARM_UP = 3
"""Turns that are not counted: memory is fetched, kernels are chosen, momentum is made."""


@dataclass(frozen=True)
class Timing:
    """Median CPU milliseconds of one thread; ``noise_ms`` None: no noise."""

    plain_ms: float
    step_ms: float
    noise_ms: float | None


def compare(task: Task, method: Method, repeats: int, poisson: bool) -> Timing:
    """Time both steps ``repeats`` times. Raises UnableError if the method cannot train this model.

    A plain step precedes every step of the method, so that whatever else slows the machine down
    slows both. Noise alone is timed after it.
    """
    reference = plain.contiguous(task, task.batches(poisson))
    steps = method(task, task.batches(poisson))
    parts = [reference.step, steps.step, *([steps.noise] if steps.noise else [])]
    times: list[list[float]] = [[] for _ in parts]
    for _ in range(WARM_UP + repeats):
        for own, part in zip(times, parts, strict=True):
            own.append(_cpu_ms(part))
    medians = [statistics.median(own[WARM_UP:]) for own in times]
    return Timing(medians[0], medians[1], medians[2] if steps.noise else None)


def _cpu_ms(action: Callable[[], None]) -> float:
    start = time.process_time()
    action()
    return 1000 * (time.process_time() - start)
