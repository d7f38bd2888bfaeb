"""Everything that is decided before the first step: data, model, δ, σ, T, ε and the run's key."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import torch
from platformdirs import user_cache_path
from torch import nn

from dpsgd.accounting import PLD, RDP, Accountant, check_delta, default_delta, largest_steps
from dpsgd.clipping.groups import Groups
from dpsgd.data.bundle import Bundle
from dpsgd.engine import clip_groups
from dpsgd.engine.checks import ROWS, check_engine, check_rows_apart
from dpsgd.errors import ConfigError, PrivacyError
from dpsgd.experiment.identity import run_key
from dpsgd.experiment.settings import Cell, baseline
from dpsgd.experiment.solved import solved_noise
from dpsgd.noise import check_positive
from dpsgd.randomness import Streams
from dpsgd.sampling.poisson import PoissonSampler
from dpsgd.training.loop import cross_entropy

COMPARED: dict[str, Accountant] = {"pld": PLD("pld", 1e-4), "rdp": RDP("rdp", None)}
"""The accountants whose ε every ledger shows beside the one that certifies."""


@dataclass(frozen=True)
class Prepared:
    """A cell with its data and model, checked as far as possible without an accountant."""

    cell: Cell
    bundle: Bundle
    run_key: str
    baseline_key: str
    sampler: PoissonSampler
    steps: int
    delta: float
    delta_why: str
    model: nn.Module
    groups: Groups
    streams: Streams


@dataclass(frozen=True)
class Plan:
    """A prepared cell with its noise: ``epsilon`` is that of ``steps``, fixed before training.

    ``steps`` is below ``prepared.steps`` when the budget ends first. ``epsilons`` holds every
    accountant's ε, or why it refuses.
    """

    prepared: Prepared
    noise_multiplier: float
    steps: int
    epsilon: float
    epsilons: dict[str, float | str]

    @property
    def stopped_by(self) -> str:
        """``steps`` or ``budget``: what ends this run."""
        return "steps" if self.steps == self.prepared.steps else "budget"


def prepare(cell: Cell) -> Prepared:
    """Load the data, build the model and check both. Raises ConfigError or PrivacyError."""
    settings = cell.settings
    try:
        bundle = cell.data.load(user_cache_path("dpsgd"))
    except ConfigError as error:
        raise error if error.key.startswith("data") else error.under("data") from None
    n_units = len(bundle.train)
    sampler = cell.sampling.bind(n_units, settings.batch)
    steps = settings.steps or math.ceil(settings.epochs * n_units / settings.batch)
    delta = settings.delta or default_delta(n_units)
    check_delta(delta, n_units)
    why = "configured" if settings.delta else "n_units^-1.1, rounded down to one digit"
    key = run_key(cell, bundle.fingerprint)
    model, groups = _model(cell, bundle)
    return Prepared(
        cell, bundle, key, run_key(baseline(cell), bundle.fingerprint), sampler, steps, delta, why,
        model, groups, Streams.from_seed(settings.seed, key),
    )  # fmt: skip


def solve(prepared: Prepared, cache: Path) -> Plan:
    """Solve σ for ε, or ε for σ and the steps that the budget allows. Raises ConfigError."""
    cell = prepared.cell
    if not cell.noised:
        return Plan(prepared, 0.0, prepared.steps, math.inf, {})
    sigma, steps = _noise_and_steps(prepared, cache)
    _check_scale(prepared, sigma)
    if not cell.private:
        return Plan(prepared, sigma, steps, math.inf, {})
    event = prepared.sampler.event(sigma, steps)
    relation = cell.settings.relation
    epsilon = cell.accountant.epsilon(event, relation, prepared.delta)
    target = cell.settings.epsilon
    if target is not None and epsilon > target:
        raise PrivacyError(f"ε of {steps} steps is {epsilon}, above the budget {target}")
    epsilons: dict[str, float | str] = {cell.accountant.name: epsilon}
    for other in COMPARED.values():
        if other.name not in epsilons:
            try:
                epsilons[other.name] = other.epsilon(event, relation, prepared.delta)
            except ConfigError as error:
                epsilons[other.name] = f"refused: {error.allowed}"
    return Plan(prepared, sigma, steps, epsilon, epsilons)


def _noise_and_steps(prepared: Prepared, cache: Path) -> tuple[float, int]:
    settings, accountant = prepared.cell.settings, prepared.cell.accountant
    target, sigma = settings.epsilon, settings.noise_multiplier
    if sigma is None:
        if target is None:
            raise ConfigError("epsilon", None, "give epsilon, or noise_multiplier, or both")
        return solved_noise(
            accountant, prepared.sampler, prepared.steps, settings.relation, target,
            prepared.delta, cache,
        ), prepared.steps  # fmt: skip
    if target is None or math.isinf(target):
        return sigma, prepared.steps
    steps = largest_steps(
        accountant, lambda t: prepared.sampler.event(sigma, t), settings.relation, target,
        prepared.delta, prepared.steps,
    )  # fmt: skip
    if steps < 1:
        raise ConfigError(
            "noise_multiplier", sigma, f"one step already costs more than epsilon={target:g}; "
            "raise noise_multiplier or epsilon, or lower batch",
        )  # fmt: skip
    return sigma, steps


def _model(cell: Cell, bundle: Bundle) -> tuple[nn.Module, Groups]:
    shape = tuple(bundle.train.inputs.shape[1:])
    # Cells of one seed share their starting point, whatever their rule: it is public, and pairs
    # them. The run key is left out of this stream on purpose.
    init = Streams.from_seed(cell.settings.seed, "initial weights")
    with torch.random.fork_rng(devices=[]):
        torch.set_rng_state(init.generator("init").get_state())
        try:
            model = cell.model.build(shape, len(bundle.classes))
        except ConfigError as error:
            raise error.under("model") from None
    try:
        groups = clip_groups(model, cell.clip.granularity)
        generator = init.generator("probe")
        inputs = torch.rand((ROWS, *shape), generator=generator)
        targets = torch.randint(len(bundle.classes), (ROWS,), generator=generator)
        check_rows_apart(model, cross_entropy, inputs, targets)
        check_engine(cell.engine, model, cross_entropy, inputs, targets, groups)
        cell.clip.bind(groups, 1.0, cell.settings.batch)
    except ConfigError as error:
        raise error if error.key.startswith("model") else error.under("clip") from None
    return model.to(cell.settings.device), groups


def _check_scale(prepared: Prepared, sigma: float) -> None:
    rule, groups = prepared.cell.clip, prepared.groups
    state = rule.bind(groups, sigma, prepared.sampler.expected_units)
    check_positive("scale", rule.scale(state), groups)
