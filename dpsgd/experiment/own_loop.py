"""The private step inside a training loop of your own, with sampler, noise, ε and ledger."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

from platformdirs import user_cache_path
from torch import Tensor, nn

from dpsgd.accounting import (
    PLD,
    Accountant,
    check_certified,
    check_delta,
    default_delta,
)
from dpsgd.clipping.checks import check_rule, is_shipped
from dpsgd.clipping.rule import ClipRule
from dpsgd.engine import clip_groups
from dpsgd.engine.checks import check_engine, check_rows_apart, is_checked
from dpsgd.engine.fixed import FixedState
from dpsgd.engine.gradients import Combine, Engine, Loss, UnitGradients
from dpsgd.engine.memory import MEASURED, rows_at_once
from dpsgd.engine.rows import Batch, count, take
from dpsgd.errors import ConfigError, PrivacyError
from dpsgd.experiment.files import write_json, write_text
from dpsgd.experiment.ledger import ledger_page
from dpsgd.experiment.own_ledger import check_another, own_ledger
from dpsgd.experiment.own_parts import Budget, device_of, sampler_of, sampling_of, synthetic
from dpsgd.experiment.parts import default_part, plain
from dpsgd.experiment.remembered import Remembered
from dpsgd.randomness import Streams
from dpsgd.sampling.sampler import Draw, Sampling
from dpsgd.sources import KEY_BYTES
from dpsgd.training.loss import cross_entropy
from dpsgd.training.micro import Capture, probed_row, shares
from dpsgd.training.step import private_step


class PrivateTraining:
    """DP-SGD for a loop of your own: iterate to draw batches, call ``step`` on each, then your
    optimizer's.

    σ is solved for the budget before the first draw, and the ledger, complete, is written to
    ``ledger`` (a folder; None keeps it in memory) before the first parameter can change. Everything
    that your loop releases besides the parameters (losses it prints, early stopping, a model chosen
    by its accuracy) is outside ε, and the ledger says so.

    Args:
        model: maps rows to outputs, each row by itself.
        rule: the clipping rule, as ``part("clip/flat", norm=1.0)``; its unit is the unit of ε.
        budget: what may be spent.
        records: the number of training records; with ``rule.unit == "user"`` the owner of each,
            ``[records]`` int64, with ``users`` users in all.
        users: the number of users, those without a record included; None with records as units.
        max_records_per_user: at most so many records of a drawn user enter a step.
        combine: a user's gradient is the ``average`` (unless given) or the ``sum`` of its records'.
        sampling: how batches are drawn, ``part("sampling/shuffled")``; Poisson unless given. It
            holds the two settings above itself. ``poisson_capped_users`` protects users with a rule
            whose unit is the record: ``records`` are the owners then, and ``users`` their number.
        loss: ``(outputs, targets) -> [rows]``; cross entropy unless given.
        engine: ``conf/engine/bookkeeping.yaml`` unless given; ``part("engine/bookkeeping",
            micro_batch=64, non_finite="drop")`` holds 64 rows of a batch at once, and leaves out
            units whose gradient is not finite. ``dropped`` counts those so far, outside ε.
        accountant: PLD unless given; it must certify.
        seed: None draws a key from the operating system, which is kept nowhere. A seed repeats the
            run, and the guarantee is void against anyone who knows it.
        ledger: folder for ``ledger.json`` and ``ledger.md``.
        device: of model and batches.
        fingerprint: with a seed: a text that changes whenever data or code do, such as their hash.
            Two runs that share seed, settings and fingerprint share their noise.

    Raises:
        ConfigError: settings that cannot be used, or a model that mixes rows (at the first step,
            before anything is released).

    """

    def __init__(  # noqa: PLR0913  (a facade: one argument a decision)
        self, model: nn.Module, rule: ClipRule, budget: Budget, records: int | Tensor, *,
        users: int | None = None, max_records_per_user: int | None = None,
        combine: Combine | None = None, sampling: Sampling | None = None,
        loss: Loss = cross_entropy, engine: Engine | None = None,
        accountant: Accountant | None = None, seed: int | None = None,
        ledger: str | Path | None = None, device: str = "cpu", fingerprint: str | None = None,
    ) -> None:  # fmt: skip
        if rule.partition is not None:
            raise ConfigError("clip", rule.name, "needs slices; use it with python -m dpsgd.run")
        if not rule.bounded:
            raise ConfigError("clip", rule.name, "bounds nothing, so that no noise covers it")
        self.model, self.rule, self.budget, self.loss = model, rule, budget, loss
        self.engine: Engine = engine or default_part("engine", "bookkeeping")
        self.accountant = accountant or PLD("pld", 1e-4)
        if not self.accountant.certifies:
            raise ConfigError("accountant", self.accountant.name, "is no upper bound on ε")
        if seed is not None and fingerprint is None:
            raise ConfigError(
                "fingerprint", None, "a seed needs a fingerprint of data and code: the same noise "
                "on other data can be subtracted away. Without a seed the system's own is used",
            )  # fmt: skip
        self.sampling = sampling_of(sampling, max_records_per_user, combine)
        self.sampler = sampler_of(rule, budget, records, users, self.sampling)
        self.combine: Combine | None = self.sampler.combine
        self.delta = default_delta(self.sampler.n_units) if budget.delta is None else budget.delta
        check_delta(self.delta, self.sampler.n_units)
        self.groups = clip_groups(model, rule.granularity)
        cache = user_cache_path("dpsgd") / "solved"
        remembered = Remembered(self.accountant, cache)
        self.noise_multiplier = remembered.calibrate(
            lambda s: self.sampler.event(s, budget.steps), budget.relation, budget.epsilon,
            self.delta,
        )  # fmt: skip
        event = self.sampler.event(self.noise_multiplier, budget.steps)
        # Without a seed it may be released: its ε is taken from no file that others could write.
        certifies = self.accountant if seed is None else remembered
        self.epsilon = certifies.epsilon(event, budget.relation, self.delta)
        if self.epsilon > budget.epsilon:
            raise PrivacyError(f"ε = {self.epsilon} is above the budget {budget.epsilon}")
        if accountant is not None:
            pld = Remembered(PLD("pld", 1e-4), cache).epsilon(event, budget.relation, self.delta)
            check_certified(self.accountant.name, self.epsilon, pld)
        check_rule(rule, self.groups, self.sampler.expected_units)
        self.state = rule.bind(self.groups, self.noise_multiplier, self.sampler.expected_units)
        self.seeded = seed is not None
        self.device = device_of(model, device)
        self.streams = self._keyed(seed, fingerprint or "", records)
        self._fixed = FixedState.of(model)
        self._taken, self._draw_at = 0, self.sampler.draws(self.streams)
        self._pending: Draw | None = None
        self._checked = self._broken = False
        self._micro_batch: int | None = None
        self.dropped = 0
        self.ledger = own_ledger(self)
        if ledger is not None:
            check_another(Path(ledger) / "ledger.json", self.ledger)
            write_json(Path(ledger) / "ledger.json", self.ledger)
            write_text(Path(ledger) / "ledger.md", ledger_page(self.ledger))

    def __iter__(self) -> Iterator[Tensor]:
        """Yield the record positions of each remaining step's batch; it may be empty."""
        while self._taken < self.budget.steps:
            self._check_whole()
            draw = self._pending = self._draw_at(self._taken + 1)
            yield draw.records
            if self._pending is not None:
                raise PrivacyError(
                    "a batch was drawn and no private step taken on it: the draw itself would be "
                    "outside the accounting. Call step(inputs, targets) on every batch, empty ones "
                    "too"
                )

    def step(self, inputs: Batch, targets: Batch) -> Tensor:
        """Put the noised mean gradient into every parameter's ``grad``; return the rows' losses.

        ``inputs`` ``[rows, ...]`` and ``targets`` are those of the batch just drawn: tensors, or
        dicts, tuples or lists of tensors, as the model and the loss take them. The losses are raw,
        those of dropped units among them: they are outside ε. Raises PrivacyError for a step
        without a draw, rows that are not the draw's, and gradients that are not finite, unless
        ``engine.non_finite`` is ``drop``.
        """
        self._check_whole()
        draw = self._pending
        if draw is None:
            raise PrivacyError("no batch was drawn for this step: iterate over this object")
        rows, goals = count(inputs), count(targets)
        if rows != len(draw.records) or goals != len(draw.records):
            raise PrivacyError(
                f"{rows} inputs and {goals} targets for a draw of "
                f"{len(draw.records)} records: pass the rows at the positions that were drawn"
            )
        if not self._checked and rows:
            self._check(inputs, targets)
        step = self._taken + 1
        result = private_step(
            self._captured(inputs, targets, draw, step), self.rule, self.state, self.groups, {},
            clipping=True, noise_multiplier=self.noise_multiplier,
            expected_units=self.sampler.expected_units,
            generator=self.streams.source("noise", step, self.device),
            non_finite=self.engine.non_finite,
            check_apart=is_checked(step) or not is_shipped(self.rule),
        )  # fmt: skip
        noise = result.noise or {}
        update = {name: mean.add_(noise[name]) for name, mean in result.mean.items()}
        self.state = self.rule.update(self.state, result.answer.cpu())
        for name, parameter in self.model.named_parameters():
            if parameter.requires_grad:
                parameter.grad = update[name]
        self._taken, self._pending, self._broken = step, None, False
        self.dropped += len(result.dropped)
        return result.losses

    def _captured(
        self, inputs: Batch, targets: Batch, draw: Draw, step: int
    ) -> Iterator[UnitGradients]:
        """Capture the draw's micro-batches one after another, as they are asked for."""
        capture = Capture(self.engine, self.model, self.loss, self.groups, self.combine)
        probed = probed_row(self.streams, step, len(draw.records))
        for share in shares(draw.unit, draw.units, self._micro_batch):
            rows = take(inputs, share.rows), take(targets, share.rows)
            yield capture.share(*rows, share, probed)
        self._fixed.check(self.model)
        self._broken = True  # until all of the step is done: its noise must not serve twice

    def _check_whole(self) -> None:
        if self._broken:
            raise PrivacyError(
                "a step failed after its noise was drawn; repeating it would use that noise twice. "
                "Start again with a new PrivateTraining, whose ε adds to this one's"
            )

    def _check(self, inputs: Batch, targets: Batch) -> None:
        """Try the model on synthetic rows in the shape of the first batch, never on its values."""
        rows, goals = synthetic(self.model, inputs, targets)
        check_rows_apart(self.model, self.loss, rows, goals)
        check_engine(self.engine, self.model, self.loss, rows, goals, self.groups)
        few = slice(MEASURED)
        self._micro_batch = rows_at_once(
            self.engine,
            self.model,
            self.loss,
            take(rows, few),
            take(goals, few),
            self.groups,
            self.sampler.largest_draw,
        )
        self._checked = True

    def _keyed(self, seed: int | None, fingerprint: str, records: int | Tensor) -> Streams:
        owners = records.tolist() if isinstance(records, Tensor) else records
        described = repr((
            plain(self.rule), self.budget, self.noise_multiplier, self.groups, owners,
            plain(self.sampling), self.sampler.n_units, fingerprint,
            self.device, repr(self.model), _named(type(self.model)), _named(self.loss),
            plain(self.engine) if is_dataclass(self.engine) else type(self.engine).__name__,
        ))  # fmt: skip
        digest = hashlib.sha256(described.encode())
        for name, value in self.model.state_dict().items():
            digest.update(name.encode() + value.detach().cpu().double().numpy().tobytes())
        run_key = digest.hexdigest()[:16]
        if seed is not None:
            return Streams.from_seed(seed, run_key)
        return Streams(secrets.token_bytes(KEY_BYTES), run_key, secret=True)


def _named(thing: Any) -> str:
    """Return where a class or function is from; of a callable object its class."""
    named = thing if hasattr(thing, "__qualname__") else type(thing)
    return f"{named.__module__}.{named.__qualname__}"
