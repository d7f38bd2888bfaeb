"""``python -m benchmarks.step``: private steps beside a plain SGD step of the same model.

Every number is a ratio within one process and run: CPU time of one thread, medians of steps taken
in turns with the plain step, which is SGD in torch's default memory format. A private step is all
of it: gradients, clipping, noise, update, and for this project telemetry. ``noise`` is the
generation of the noise alone, a part of ``step``. ``mem`` is the peak of the tensors held
(benchmarks/memory.py), in a process for each method. ``channels_last`` is the plain step in
that format, which this project uses inside for convolutions, and which the plain step could too.
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch

from benchmarks.document import write_document
from benchmarks.memory import Peak, measure, processes
from benchmarks.methods import METHODS
from benchmarks.methods.steps import UnableError
from benchmarks.models import TASKS, Task
from benchmarks.table import Result, lines
from benchmarks.timing import compare
from dpsgd.experiment.ledger.kernels import processor
from dpsgd.training.allocator import keep_freed_memory

SGD = "sgd"


def main() -> None:
    chosen = _arguments()
    torch.set_num_threads(1)
    kept = keep_freed_memory()  # for all methods alike: page faults differ from run to run else
    results: list[Result] = []
    with ExitStack() as stack:
        pool = None if chosen.no_memory else stack.enter_context(processes())
        for model in chosen.models:
            task = TASKS[model]
            plain = pool.submit(measure, model, SGD).result() if pool else None
            results.append(_reference(task, plain))
            for method in chosen.methods:
                _progress(f"{model}: {method}")
                results.append(_one(task, method, chosen, pool, plain))
    _progress("")
    print("\n".join(lines(results, chosen.models)))
    found = {"keeps_freed_memory": kept, "rows": [result.json() for result in results]}
    write_document(chosen.out, "benchmarks.step", _facts(chosen) | found)


def _one(
    task: Task, method: str, chosen: argparse.Namespace, pool: ProcessPoolExecutor | None,
    plain: Peak | None,
) -> Result:  # fmt: skip
    try:
        time = compare(task, METHODS[method], chosen.repeats or task.repeats, chosen.poisson)
    except UnableError as error:
        return Result(task.name, method, reason=str(error))
    peak = pool.submit(measure, task.name, method).result() if pool else None
    return Result(
        task.name, method, time.plain_ms, time.step_ms, time.noise_ms,
        ratio=_ratio(time.step_ms, time.plain_ms),
        noise_ratio=_ratio(time.noise_ms, time.plain_ms),
        memory_ratio=_ratio(peak and peak.tensors, plain and plain.tensors),
        first_memory_ratio=_ratio(peak and peak.first, plain and plain.first),
        peak_tensor_bytes=peak and peak.tensors,
        resident_ratio=_ratio(peak and peak.resident, plain and plain.resident),
        peak_resident_bytes=peak and peak.resident,
    )  # fmt: skip


def _ratio(value: float | None, to: float | None) -> float | None:
    return value / to if value is not None and to else None


def _reference(task: Task, peak: Peak | None) -> Result:
    return Result(
        task.name, SGD, ratio=1.0, memory_ratio=1.0 if peak else None,
        first_memory_ratio=1.0 if peak else None,
        peak_tensor_bytes=peak and peak.tensors, resident_ratio=1.0 if peak else None,
        peak_resident_bytes=peak and peak.resident,
    )  # fmt: skip


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.step", description=__doc__)
    add = parser.add_argument
    add("--models", nargs="+", choices=list(TASKS), default=list(TASKS))
    add("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    add("--repeats", type=int, help="steps that are timed (default: as many as each model needs)")
    add("--poisson", action="store_true", help="draw a new batch size in every step")
    add("--no-memory", action="store_true", help="leave the peak memory out")
    add("--out", type=Path, default=Path("benchmarks/step.json"), help="where the JSON goes")
    return parser.parse_args()


def _facts(chosen: argparse.Namespace) -> dict[str, Any]:
    repeats = {model: chosen.repeats or TASKS[model].repeats for model in chosen.models}
    batches = {model: TASKS[model].batch for model in chosen.models}
    return {
        "cpu": processor(),
        "threads": torch.get_num_threads(),
        "repeats": repeats,
        "batch": batches,
        "poisson": chosen.poisson,
    }


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r{text:40}\r", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
