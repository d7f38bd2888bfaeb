"""The training loop: draw, capture, clip, add noise, step; telemetry reads along."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain

import torch
from torch import Tensor, nn

from dpsgd.clipping.checks import is_shipped
from dpsgd.clipping.groups import Groups
from dpsgd.clipping.joint import beside
from dpsgd.clipping.rule import ClipRule, Info, State
from dpsgd.data.bundle import Split
from dpsgd.engine.checks import is_checked
from dpsgd.engine.fixed import FixedState
from dpsgd.engine.gradients import Combine, Engine, Loss, UnitGradients
from dpsgd.engine.probing import has_dropout
from dpsgd.errors import PrivacyError
from dpsgd.randomness import Streams
from dpsgd.sampling.sampler import Draw, Sampler
from dpsgd.telemetry.bias import compare
from dpsgd.telemetry.recorder import Recorder, StepFacts
from dpsgd.training.absent import without_absent
from dpsgd.training.allocator import keep_freed_memory
from dpsgd.training.canaries import NO_CANARIES, Canaries
from dpsgd.training.dropout import DropoutStream
from dpsgd.training.micro import Capture, probed_row, shares
from dpsgd.training.optim import CLIPPED, NOISED, SGD, Mechanism
from dpsgd.training.snapshot import Keeper, Snapshot
from dpsgd.training.step import NonFiniteError, Step, private_step


@dataclass(frozen=True)
class Trainer:
    """Everything that training needs, decided before the first step.

    ``combine``, the sampler's, None: records are clipped; else users, whose rows' gradients are
    added or averaged. ``info`` holds what the rule may know of each of those. At most
    ``micro_batch`` rows are held at once (None: all of a draw), but a unit is never split.
    ``stops_on_rows`` looks at real rows now and then, to stop if the model or the rule mixes them:
    what a released run must not do, for stopping tells of a row. ``canaries`` are units of the
    sampler beside those of the data; telemetry does not see them. ``present`` ``[n]`` says which
    records are there (None: all): a record that is not is drawn, and contributes nothing.
    """

    model: nn.Module
    loss: Loss
    engine: Engine
    rule: ClipRule
    groups: Groups
    micro_batch: int | None
    sampler: Sampler
    combine: Combine | None
    info: Mapping[str, Tensor]
    optim: SGD
    mechanism: Mechanism
    noise_multiplier: float
    steps: int
    streams: Streams
    device: str
    stops_on_rows: bool
    canaries: Canaries | None = None
    present: Tensor | None = None

    def run(
        self, split: Split, recorder: Recorder,
        progress: Callable[[int, float, float | None], None],
        watch: Callable[[int], bool] | None = None, keeper: Keeper | None = None,
    ) -> State:  # fmt: skip
        """Train in place for ``steps`` steps and return the rule's last state.

        ``progress(step, loss, clip fraction)`` is called after every step, then ``watch(step)``,
        which may look at the model and ends training by returning True, and else ``keeper``, from
        whose snapshot training starts; ``recorder`` and ``watch`` are then where they were at that
        step. Raises PrivacyError with the example's or user's position if a gradient is not finite,
        and if the model is found to mix rows or to change what is not trained.
        """
        keep_freed_memory()
        inputs, targets = split.inputs.to(self.device), split.labels.to(self.device)
        state = self.rule.bind(self.groups, self.noise_multiplier, self.sampler.expected_units)
        trained = {n: p for n, p in self.model.named_parameters() if p.requires_grad}
        optimizer = self.optim.build(trained, self.mechanism)
        fixed = FixedState.of(self.model)
        taken = 0
        if keeper is not None and keeper.start is not None:
            taken = keeper.start.step
            state = keeper.start.restore(self.model, optimizer, state)
        self.model.train()
        draw_at = self.sampler.draws(self.streams)
        for step in range(taken + 1, self.steps + 1):
            draw, planted = self._apart(draw_at(step))
            recorder.before(step, state)
            # A canary is as long as the rule lets it be useful: it would be all of the raw mean.
            wants_bias = self.canaries is None and recorder.wants_bias(step)
            batches = self._captured(inputs, targets, draw, step)
            result = self._step(batches, state, step, split, draw, planted, raw=wants_bias)
            if self.canaries is not None:
                self.canaries.read(result, self.sampler.expected_units)
            threshold = self.rule.threshold(state)
            answer = result.answer.cpu()
            state = self.rule.update(state, answer)
            if result.raw is not None:
                compared = compare(result, result.raw, self.sampler.expected_units)
                recorder.add_bias(step, compared)
            optimizer.step(
                result.mean, result.noise,
                self.optim.gradient_factor(self.mechanism, threshold),
                self.optim.noise_factor(self.mechanism, threshold),
            )  # fmt: skip
            losses = _kept_losses(result, draw)
            recorder.add(
                StepFacts(step, draw.members, result.norms[: draw.units],
                          result.weights[: draw.units], losses, threshold,
                          result.dropped, beside(self.rule, answer))
            )  # fmt: skip
            loss = float(losses.mean()) if len(losses) else float("nan")
            progress(step, loss, recorder.clip_fraction)
            if watch is not None and watch(step):
                break
            if keeper is not None:
                keeper.after(step, partial(Snapshot.of, step, self.model, optimizer, state))
        recorder.finish()
        fixed.check(self.model)
        return state

    @cached_property
    def _shipped(self) -> bool:
        return is_shipped(self.rule)

    def _apart(self, draw: Draw) -> tuple[Draw, Tensor]:
        """Return the draw of the data's units that are there, and the numbers of the canaries drawn
        with them.
        """
        if self.present is not None:
            draw = without_absent(draw, self.present, records=self.combine is None)
        return (draw, NO_CANARIES) if self.canaries is None else self.canaries.apart(draw)

    def _captured(
        self, inputs: Tensor, targets: Tensor, draw: Draw, step: int
    ) -> Iterator[UnitGradients]:
        """Capture the draw's micro-batches one after another, as they are asked for."""
        stream = DropoutStream(self.streams, step, self.device) if has_dropout(self.model) else None
        capture = Capture(self.engine, self.model, self.loss, self.groups, self.combine)
        looked = self.stops_on_rows
        probed = probed_row(self.streams, step, len(draw.records)) if looked else None
        for share in shares(draw.unit, draw.units, self.micro_batch):
            records = draw.records[share.rows].to(self.device)
            with stream or nullcontext():
                gradients = capture.share(inputs[records], targets[records], share, probed)
            yield gradients
            del gradients

    def _step(
        self, batches: Iterable[UnitGradients], state: State, step: int, split: Split, draw: Draw,
        planted: Tensor, *, raw: bool,
    ) -> Step:  # fmt: skip
        """Take the step of ``draw`` and of the canaries ``planted`` beside it."""
        noised = self.mechanism in NOISED
        members = draw.members
        if self.canaries is not None:
            members = torch.cat([members, self.canaries.units.first + planted])
        info: Info = {key: value[members].to(self.device) for key, value in self.info.items()}
        if self.canaries is not None:
            one = {key: value[-1:] for key, value in self.info.items()}
            batches = chain(
                self.canaries.watched(batches),
                [self.canaries.batch(planted, self.rule, state, one)],
            )
        try:
            result = private_step(
                batches, self.rule, state, self.groups, info,
                clipping=self.mechanism in CLIPPED,
                noise_multiplier=self.noise_multiplier if noised else 0.0,
                expected_units=self.sampler.expected_units,
                generator=self.streams.source("noise", step, self.device),
                non_finite=self.engine.non_finite, raw=raw,
                check_apart=self.stops_on_rows
                and (is_checked(step) or not self._shipped),
            )  # fmt: skip
        except NonFiniteError as error:
            position = int(members[error.positions[0]])
            which = (
                f"example {split.example[position]} of {split.name}"
                if self.combine is None
                else f"user number {position}"
            )
            raise PrivacyError(
                f"step {step}: {error}, which is {which}. Look at it, lower the learning rate, or "
                "leave such units out: engine.non_finite=drop"
            ) from error
        if result.norms.shape != (len(members), len(self.groups)):
            raise PrivacyError(
                f"engine={self.engine.name}: norms of shape {tuple(result.norms.shape)} for "
                f"{len(members)} units and {len(self.groups)} clip groups"
            )
        return result


def _kept_losses(result: Step, draw: Draw) -> Tensor:
    """Return the losses of the rows whose unit was not dropped."""
    if not result.dropped:
        return result.losses
    gone = torch.isin(draw.unit, torch.tensor(result.dropped, device=draw.unit.device))
    return result.losses[~gone.to(result.losses.device)]
