"""The training loop: draw, capture, clip, add noise, step; telemetry reads along."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from dpsgd.clipping.groups import Groups
from dpsgd.clipping.rule import ClipRule, Info, State
from dpsgd.data.bundle import Split
from dpsgd.engine.checks import check_row_alone, has_dropout, is_checked
from dpsgd.engine.fixed import FixedState
from dpsgd.engine.gradients import Combine, Engine, Loss, UnitGradients, Units
from dpsgd.errors import PrivacyError
from dpsgd.randomness import Streams
from dpsgd.sampling.sampler import Draw, Sampler
from dpsgd.telemetry.bias import compare
from dpsgd.telemetry.recorder import Recorder, StepFacts
from dpsgd.training.optim import CLIPPED, NOISED, SGD, Mechanism
from dpsgd.training.step import NonFiniteError, Step, private_step


@dataclass(frozen=True)
class Trainer:
    """Everything that training needs, decided before the first step.

    ``combine`` None: records are the units; else a unit is a user, whose rows' gradients are added
    or averaged. ``info`` holds what the rule may know of each unit, ``[n_units, ...]``.
    """

    model: nn.Module
    loss: Loss
    engine: Engine
    rule: ClipRule
    groups: Groups
    sampler: Sampler
    combine: Combine | None
    info: Mapping[str, Tensor]
    optim: SGD
    mechanism: Mechanism
    noise_multiplier: float
    steps: int
    streams: Streams
    device: str

    def run(
        self, split: Split, recorder: Recorder, progress: Callable[[int, float, float | None], None]
    ) -> State:
        """Train in place for ``steps`` steps and return the rule's last state.

        ``progress(step, loss, clip fraction)`` is called after every step. Raises PrivacyError with
        the example's or user's position if a gradient is not finite, and if the model is found to
        mix rows or to change what is not trained.
        """
        inputs, targets = split.inputs.to(self.device), split.labels.to(self.device)
        state = self.rule.bind(self.groups, self.noise_multiplier, self.sampler.expected_units)
        optimizer = self.optim.build(self.model, self.mechanism)
        fixed = FixedState.of(self.model)
        self.model.train()
        for step in range(1, self.steps + 1):
            draw = self.sampler.draw(self.streams.generator("sampling", step))
            records = draw.records.to(self.device)
            gradients = self._capture(inputs[records], targets[records], draw, step)
            result = self._step(gradients, state, step, split, draw)
            threshold = self.rule.threshold(state)
            state = self.rule.update(state, result.answer.cpu())
            self._apply(result, threshold)
            optimizer.step()
            recorder.add(
                StepFacts(step, draw.members, result.norms, result.weights, gradients.losses,
                          threshold)
            )  # fmt: skip
            if recorder.wants_bias(step):
                raw = gradients.weighted_sum(torch.ones_like(result.norms))
                recorder.add_bias(step, compare(result, raw, self.sampler.expected_units))
            loss = float(gradients.losses.mean()) if len(records) else float("nan")
            progress(step, loss, recorder.clip_fraction)
        recorder.finish()
        fixed.check(self.model)
        return state

    def _capture(self, inputs: Tensor, targets: Tensor, draw: Draw, step: int) -> UnitGradients:
        units = None
        if self.combine is not None:
            units = Units.of(draw.unit.to(inputs.device), draw.units, self.combine)
        with _dropout_stream(self.streams, step, has_dropout(self.model), self.device):
            gradients = self.engine.capture(
                self.model, self.loss, inputs, targets, self.groups, units
            )
        if len(inputs) and is_checked(step):
            generator = self.streams.generator("probe", step)
            row = int(torch.randint(len(inputs), (), generator=generator))
            check_row_alone(self.model, self.loss, inputs, targets, gradients.losses, row)
        return gradients

    def _step(
        self, gradients: UnitGradients, state: State, step: int, split: Split, draw: Draw
    ) -> Step:
        noised = self.mechanism in NOISED
        members = draw.members
        info: Info = {key: value[members].to(self.device) for key, value in self.info.items()}
        try:
            result = private_step(
                gradients, self.rule, state, self.groups, info,
                clipping=self.mechanism in CLIPPED,
                noise_multiplier=self.noise_multiplier if noised else 0.0,
                expected_units=self.sampler.expected_units,
                generator=self.streams.generator("noise", step, self.device),
            )  # fmt: skip
        except NonFiniteError as error:
            position = int(members[error.positions[0]])
            which = (
                f"example {split.example[position]} of {split.name}"
                if self.combine is None
                else f"user number {position}"
            )
            raise PrivacyError(
                f"step {step}: {error}, which is {which}. Look at it, or lower the learning rate"
            ) from error
        if result.norms.shape != (draw.units, len(self.groups)):
            raise PrivacyError(
                f"engine={self.engine.name}: norms of shape {tuple(result.norms.shape)} for "
                f"{draw.units} units and {len(self.groups)} clip groups"
            )
        return result

    def _apply(self, result: Step, threshold: float) -> None:
        mean = self.optim.gradient_factor(self.mechanism, threshold)
        noise = self.optim.noise_factor(self.mechanism, threshold)
        for name, parameter in self.model.named_parameters():
            if not parameter.requires_grad:
                continue
            update = result.mean[name] * mean
            if result.noise is not None:
                update = update.add_(result.noise[name], alpha=noise)
            parameter.grad = update


class _dropout_stream:  # noqa: N801  (a context manager, named as one reads it)
    """Global random state from the run's dropout stream, put back afterwards."""

    def __init__(self, streams: Streams, step: int, needed: bool, device: str) -> None:
        self.streams, self.step, self.needed = streams, step, needed
        self.device = torch.device(device)

    def __enter__(self) -> None:
        if self.needed:
            self.before = torch.get_rng_state()
            torch.set_rng_state(self.streams.generator("dropout", self.step).get_state())
            if self.device.type == "cuda":
                self.before_there = torch.cuda.get_rng_state(self.device)
                generator = self.streams.generator("dropout", self.step, str(self.device))
                torch.cuda.set_rng_state(generator.get_state(), self.device)

    def __exit__(self, *_: object) -> None:
        if self.needed:
            torch.set_rng_state(self.before)
            if self.device.type == "cuda":
                torch.cuda.set_rng_state(self.before_there, self.device)
