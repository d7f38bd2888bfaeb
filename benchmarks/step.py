"""``python -m benchmarks.step``: a private step beside a plain SGD step of the same model.

CPU time, one thread, median of many, both in one process: the ratio is what can be compared.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from torch.nn import functional

from dpsgd.clipping.flat import Flat
from dpsgd.clipping.per_layer import PerLayer
from dpsgd.clipping.rule import ClipRule
from dpsgd.engine import Bookkeeping, clip_groups
from dpsgd.models.images import CNN, MLP
from dpsgd.models.shape import DataShape, ModelSource
from dpsgd.randomness import Streams
from dpsgd.telemetry.oracle import Oracle
from dpsgd.telemetry.recorder import StepFacts
from dpsgd.training.loss import cross_entropy
from dpsgd.training.step import private_step

BATCH = 256
REPEATS = 200
SHAPE = DataShape((1, 28, 28), 10, 0, "classes")
RULES: tuple[ClipRule, ...] = (
    Flat("flat", "record", 1.0),
    PerLayer("per_layer", "record", 1.0, "uniform", None, "global", "layer"),
)
MODELS: tuple[ModelSource, ...] = (
    MLP("mlp", [128], "tanh"),
    CNN("cnn", (16, 32), 64, "tanh"),
)


def main() -> None:
    torch.set_num_threads(1)
    print(f"{'model':8} {'rule':10} {'plain ms':>9} {'private ms':>11} {'ratio':>6}")
    for source in MODELS:
        for rule in RULES:
            plain, private = compare(source, rule)
            ratio = private / plain
            print(f"{source.name:8} {rule.name:10} {plain:9.2f} {private:11.2f} {ratio:6.2f}")


def compare(source: ModelSource, rule: ClipRule) -> tuple[float, float]:
    """Return median milliseconds of a plain and of a private step, taken in turns."""
    inputs, targets = torch.rand(BATCH, 1, 28, 28), torch.randint(10, (BATCH,))
    steps = [plain_step(source, inputs, targets), whole_step(source, rule, inputs, targets)]
    times: list[list[float]] = [[], []]
    for _ in range(REPEATS):
        for own, step in zip(times, steps, strict=True):
            start = time.process_time()
            step()
            own.append(1000 * (time.process_time() - start))
    return statistics.median(times[0][20:]), statistics.median(times[1][20:])


def plain_step(
    source: ModelSource, inputs: torch.Tensor, targets: torch.Tensor
) -> Callable[[], None]:
    model = source.build(SHAPE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step() -> None:
        optimizer.zero_grad()
        functional.cross_entropy(model(inputs), targets).backward()
        optimizer.step()

    return step


def whole_step(
    source: ModelSource, rule: ClipRule, inputs: torch.Tensor, targets: torch.Tensor
) -> Callable[[], None]:
    """Clipping, noise, update and telemetry, as the training loop does them."""
    model = source.build(SHAPE)
    groups = clip_groups(model, rule.granularity)
    state = rule.bind(groups, 1.0, BATCH)
    engine, streams = Bookkeeping("bookkeeping"), Streams.from_seed(0, "benchmark")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    keys = [("all", "all"), *(("label", str(k)) for k in range(10))]
    labels = targets.numpy()[:, None] == np.arange(10)
    membership = np.column_stack([np.ones(BATCH, dtype=bool), labels])
    recorder = Oracle("oracle", 25, 25).start("record", groups.names, keys, membership)
    records = torch.arange(BATCH)
    number = 0

    def step() -> None:
        nonlocal number
        number += 1
        gradients = engine.capture(model, cross_entropy, inputs, targets, groups, None)
        result = private_step(
            gradients, rule, state, groups, {}, clipping=True, noise_multiplier=1.0,
            expected_units=float(BATCH), generator=streams.generator("noise", number),
        )  # fmt: skip
        for name, parameter in model.named_parameters():
            noise = (result.noise or {})[name]
            parameter.grad = result.mean[name].add_(noise)
        optimizer.step()
        recorder.add(
            StepFacts(number, records, result.norms, result.weights, gradients.losses, 1.0)
        )

    return step


if __name__ == "__main__":
    main()
