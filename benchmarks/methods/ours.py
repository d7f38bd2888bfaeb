"""The step of this project as its training loop takes it: gradients, clipping with its checks,
noise, update, telemetry (every 25th step with the raw mean). Drawing the batch is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
import torch

from benchmarks.methods.steps import LEARNING_RATE, MOMENTUM, NOISE_MULTIPLIER, NORM, Steps
from benchmarks.models import POOL, Batches, Task
from dpsgd import part
from dpsgd.clipping.checks import is_shipped
from dpsgd.clipping.groups import Groups
from dpsgd.clipping.rule import ClipRule
from dpsgd.engine import Units, clip_groups
from dpsgd.engine.checks import is_checked
from dpsgd.engine.gradients import UnitGradients
from dpsgd.noise import gaussian_noise
from dpsgd.randomness import Streams
from dpsgd.telemetry.bias import compare
from dpsgd.telemetry.oracle import OracleRecorder
from dpsgd.telemetry.recorder import StepFacts
from dpsgd.training.loss import cross_entropy
from dpsgd.training.step import private_step

RECORDS_PER_USER = 4
SLICES = 10


def flat(task: Task, batches: Batches) -> Steps:
    """Clip with one threshold, every record a unit."""
    return _steps(task, batches, part("clip/flat", norm=NORM), 1)


def per_layer(task: Task, batches: Batches) -> Steps:
    """Clip with a threshold a layer, every record a unit."""
    return _steps(task, batches, part("clip/per_layer", norm=NORM), 1)


def adaptive(task: Task, batches: Batches) -> Steps:
    """Clip with a threshold that follows a quantile, which costs a query a step."""
    return _steps(task, batches, part("clip/adaptive", norm=NORM), 1)


def user(task: Task, batches: Batches) -> Steps:
    """Clip the averages of each user's records with one threshold."""
    return _steps(task, batches, part("clip/user_level", norm=NORM), RECORDS_PER_USER)


def _steps(task: Task, batches: Batches, rule: ClipRule, records: int) -> Steps:
    model = task.build().train()
    groups = clip_groups(model, rule.granularity)
    expected = task.batch / records
    state = rule.bind(groups, NOISE_MULTIPLIER, expected)
    engine, streams = part("engine/bookkeeping"), Streams.from_seed(0, "benchmark")
    optim = part("optim/sgd", lr=LEARNING_RATE, momentum=MOMENTUM)
    optimizer = optim.build(dict(model.named_parameters()), "private")
    recorder = _recorder(task, groups)
    shipped = is_shipped(rule)
    number = 0

    def step() -> None:
        nonlocal number, state
        number += 1
        inputs, targets = batches()
        wants_bias = recorder.wants_bias(number)

        def captured() -> Iterator[UnitGradients]:
            units = _units(inputs.shape[0], records)
            yield engine.capture(model, cross_entropy, inputs, targets, groups, units)

        result = private_step(
            captured(), rule, state, groups, {}, clipping=True, noise_multiplier=NOISE_MULTIPLIER,
            expected_units=expected, generator=streams.generator("noise", number),
            non_finite=engine.non_finite, raw=wants_bias,
            check_apart=is_checked(number) or not shipped,
        )  # fmt: skip
        threshold = rule.threshold(state)
        state = rule.update(state, result.answer)
        if result.raw is not None:
            recorder.add_bias(number, compare(result, result.raw, expected))
        factor = optim.gradient_factor("private", threshold)
        optimizer.step(result.mean, result.noise, factor, factor)
        members = _members(result.norms.shape[0])
        recorder.add(
            StepFacts(number, members, result.norms, result.weights, result.losses, threshold)
        )

    like = {name: parameter.detach() for name, parameter in model.named_parameters()}
    std = [NOISE_MULTIPLIER * scale for scale in rule.scale(state).tolist()]

    def noise() -> None:
        gaussian_noise(like, groups, std, streams.generator("noise", number))

    return Steps(step, noise)


@cache
def _members(units: int) -> torch.Tensor:
    return torch.arange(units)  # known from the draw, which is left out


@cache
def _owners(rows: int, records: int) -> torch.Tensor:
    return torch.arange(rows) // records  # likewise


def _units(rows: int, records: int) -> Units | None:
    if records == 1:
        return None
    return Units.of(_owners(rows, records), -(-rows // records), "average")


def _recorder(task: Task, groups: Groups) -> OracleRecorder:
    """Raw telemetry of eleven slices."""
    keys = [("all", "all"), *(("label", str(k)) for k in range(SLICES))]
    label = np.arange(POOL * task.batch)[:, None] % SLICES == np.arange(SLICES)
    membership = np.column_stack([np.ones(len(label), dtype=bool), label])
    return part("telemetry/oracle").start("record", groups.names, keys, membership)
