"""The training loop: draw, capture, clip, add noise, step; telemetry reads along."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from dpsgd.clipping.groups import Groups
from dpsgd.clipping.rule import ClipRule, State
from dpsgd.data.bundle import Split
from dpsgd.engine.gradients import Engine, UnitGradients
from dpsgd.errors import PrivacyError
from dpsgd.randomness import Streams
from dpsgd.sampling.sampler import Sampler
from dpsgd.telemetry.bias import compare
from dpsgd.telemetry.recorder import Recorder, StepFacts
from dpsgd.training.optim import CLIPPED, NOISED, SGD, Mechanism
from dpsgd.training.step import NonFiniteError, Step, private_step


@dataclass(frozen=True)
class Trainer:
    """Everything that training needs, decided before the first step."""

    model: nn.Module
    engine: Engine
    rule: ClipRule
    groups: Groups
    sampler: Sampler
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
        the example's index if a gradient is not finite.
        """
        inputs, targets = split.inputs.to(self.device), split.labels.to(self.device)
        state = self.rule.bind(self.groups, self.noise_multiplier, self.sampler.expected_units)
        optimizer = self.optim.build(self.model, self.mechanism)
        named = {n: p for n, p in self.model.named_parameters() if p.requires_grad}
        stochastic = any(isinstance(m, nn.modules.dropout._DropoutNd) for m in self.model.modules())
        self.model.train()
        for step in range(1, self.steps + 1):
            draw = self.sampler.draw(self.streams.generator("sampling", step))
            records = draw.records.to(self.device)
            with _dropout_stream(self.streams, step, stochastic):
                gradients = self.engine.capture(
                    self.model, cross_entropy, inputs[records], targets[records], self.groups
                )
            result = self._step(gradients, state, step, split, draw.records)
            threshold = self.rule.threshold(state)
            self._apply(result, named, threshold)
            optimizer.step()
            recorder.add(
                StepFacts(step, draw.records, result.norms, result.weights, gradients.losses,
                          threshold)
            )  # fmt: skip
            if recorder.wants_bias(step):
                raw = gradients.weighted_sum(torch.ones_like(result.norms))
                recorder.add_bias(step, compare(result, raw, self.sampler.expected_units))
            loss = float(gradients.losses.mean()) if draw.units else float("nan")
            progress(step, loss, recorder.clip_fraction)
        recorder.finish()
        return state

    def _step(
        self, gradients: UnitGradients, state: State, step: int, split: Split, records: Tensor
    ) -> Step:
        noised = self.mechanism in NOISED
        try:
            return private_step(
                gradients, self.rule, state, self.groups,
                clipping=self.mechanism in CLIPPED,
                noise_multiplier=self.noise_multiplier if noised else 0.0,
                expected_units=self.sampler.expected_units,
                generator=self.streams.generator("noise", step, self.device),
            )  # fmt: skip
        except NonFiniteError as error:
            example = split.example[int(records[error.positions[0]])]
            raise PrivacyError(
                f"step {step}: {error}, which is example {example} of {split.name}. Look at that "
                "example, or lower the learning rate"
            ) from error

    def _apply(self, result: Step, named: dict[str, nn.Parameter], threshold: float) -> None:
        mean = self.optim.gradient_factor(self.mechanism, threshold)
        noise = self.optim.noise_factor(self.mechanism, threshold)
        for name, parameter in named.items():
            update = result.mean[name] * mean
            if result.noise is not None:
                update = update.add_(result.noise[name], alpha=noise)
            parameter.grad = update


def cross_entropy(outputs: Tensor, targets: Tensor) -> Tensor:
    """Return the cross entropy of every row, ``[n]``."""
    return functional.cross_entropy(outputs, targets, reduction="none")


class _dropout_stream:  # noqa: N801  (a context manager, named as one reads it)
    """Global random state from the run's dropout stream, put back afterwards."""

    def __init__(self, streams: Streams, step: int, needed: bool) -> None:
        self.streams, self.step, self.needed = streams, step, needed

    def __enter__(self) -> None:
        if self.needed:
            self.before = torch.get_rng_state()
            torch.set_rng_state(self.streams.generator("dropout", self.step).get_state())

    def __exit__(self, *_: object) -> None:
        if self.needed:
            torch.set_rng_state(self.before)
