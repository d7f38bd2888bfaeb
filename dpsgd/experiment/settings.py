"""The root settings of a cell, typed and checked, and its configured parts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import torch

from dpsgd.accounting import Accountant, Relation
from dpsgd.auditing.settings import Audit, GradientAudit, NoAudit
from dpsgd.clipping.checks import LARGEST
from dpsgd.clipping.none import NoClipping
from dpsgd.clipping.rule import ClipRule
from dpsgd.data.bundle import DataSource
from dpsgd.data.users import Users
from dpsgd.engine.gradients import Engine
from dpsgd.errors import ConfigError, did_you_mean
from dpsgd.experiment.parts import build_as, build_part
from dpsgd.experiment.releasing import check_release_settings
from dpsgd.experiment.tracker import Tracker
from dpsgd.models.shape import ModelSource
from dpsgd.sampling.sampler import Sampling
from dpsgd.slices import SliceSet
from dpsgd.telemetry.accounted import Accounted
from dpsgd.telemetry.off import Off
from dpsgd.training.decide import NoDecisions, Validation
from dpsgd.training.optim import NOISED, SGD, Mechanism

GROUPS = (
    "clip", "data", "model", "slices", "users", "sampling", "accountant", "engine", "telemetry",
    "optim", "decide", "audit",
    "tracker",
)  # fmt: skip

BuildPart = Callable[[Mapping[str, Any], str], Any]

UNDECIDED = f"{NoDecisions.__module__}.{NoDecisions.__name__}"
UNAUDITED = f"{NoAudit.__module__}.{NoAudit.__name__}"
_ABSENT: Mapping[str, Any] = {
    "decide": {"_target_": UNDECIDED, "name": "none"},
    "audit": {"_target_": UNAUDITED, "name": "none"},
    "checkpoint": None,
    "resume": "same",
    "threads": None,
    "on_failure": "continue",
    "baselines": True,
}
"""What stands for a group or root key that the run folders of before do not know of."""


@dataclass(frozen=True)
class Settings:
    """The root keys of the configuration."""

    epsilon: float | None
    delta: float | None
    noise_multiplier: float | None
    relation: Relation
    mechanism: Mechanism
    unit_name: str | None
    seed: int
    batch: float
    epochs: float
    steps: int | None
    device: str
    release: bool
    checkpoint: float | None
    resume: Literal["same", "charge"]
    runs_dir: str
    threads: int | None
    on_failure: Literal["continue", "stop"]
    baselines: bool

    def __post_init__(self) -> None:
        _positive("epsilon", self.epsilon, "a number above 0, inf (a diagnostic), or null")
        _positive("noise_multiplier", self.noise_multiplier, "a finite number above 0, or null")
        if self.noise_multiplier is not None and math.isinf(self.noise_multiplier):
            raise ConfigError("noise_multiplier", self.noise_multiplier, "must be finite")
        if self.delta is not None and not 0 < self.delta < 1:
            raise ConfigError("delta", self.delta, "must be above 0 and below 1, or null")
        if self.mechanism in NOISED and self.epsilon is None and self.noise_multiplier is None:
            raise ConfigError("epsilon", None, "give epsilon, or noise_multiplier, or both")
        for key in ("batch", "epochs"):
            if not (math.isfinite(getattr(self, key)) and getattr(self, key) > 0):
                raise ConfigError(key, getattr(self, key), "must be a finite number above 0")
        if self.seed < 0:
            raise ConfigError("seed", self.seed, "must be at least 0")
        if self.steps is not None and self.steps < 1:
            raise ConfigError("steps", self.steps, "must be at least 1, or null for epochs")
        if self.checkpoint is not None and not 0 <= self.checkpoint < math.inf:
            raise ConfigError(
                "checkpoint", self.checkpoint, "must be a number of seconds, 0 or above, or null",
                "0 writes one after every step, null none",
            )  # fmt: skip
        if self.threads is not None and self.threads < 1:
            raise ConfigError("threads", self.threads, "must be at least 1, or null")
        _check_device(self.device)


@dataclass(frozen=True)
class Debug:
    """What is for looking at the project itself, and makes no run that may be released.

    ``common_noise``: the runs of one seed share their random streams, whatever else they differ in,
    so that pairs can be compared. The noise of two such runs can be subtracted away.
    """

    common_noise: bool


@dataclass(frozen=True)
class Cell:
    """Everything configured about one training run."""

    settings: Settings
    clip: ClipRule
    data: DataSource
    model: ModelSource
    slices: SliceSet
    users: Users
    sampling: Sampling
    accountant: Accountant
    engine: Engine
    telemetry: Any
    optim: SGD
    tracker: Tracker
    decide: NoDecisions | Validation
    audit: Audit
    debug: Debug

    @property
    def noised(self) -> bool:
        """Whether this cell adds noise: ε = inf and σ = null means none."""
        s = self.settings
        infinite = s.epsilon is not None and math.isinf(s.epsilon) and s.noise_multiplier is None
        return s.mechanism in NOISED and not infinite

    @property
    def private(self) -> bool:
        """Whether an ε holds: clipped and noised."""
        return self.noised and self.settings.mechanism == "private"


def read_cell(config: Mapping[str, Any], build: BuildPart = build_part) -> Cell:
    """Build the typed cell of a resolved configuration. Raises ConfigError.

    Whoever reads many cells, and trains none, may give a ``build`` that answers as
    :func:`build_part` does.
    """
    asked = {k: v for k, v in config.items() if k not in ("experiment", "sweep")}
    config = {**_ABSENT, **asked}
    roots = {k: v for k, v in config.items() if k not in (*GROUPS, "debug")}
    unknown = [k for k in roots if k not in Settings.__dataclass_fields__]
    if unknown:
        allowed = [*Settings.__dataclass_fields__, *GROUPS]
        raise ConfigError(
            unknown[0], roots[unknown[0]],
            f"no such key{did_you_mean(unknown[0], allowed)}; allowed are {', '.join(allowed)}",
        )  # fmt: skip
    debug = _debug(config.get("debug"))
    if debug.common_noise and roots.get("release"):
        raise ConfigError(
            "debug.common_noise", True, "must be false with release=true: runs that share their "
            "noise can be subtracted from each other, and none of them is private then",
        )  # fmt: skip
    settings = build_as(Settings, roots, "")
    parts = {group: build(config.get(group, {}), group) for group in GROUPS}
    cell = Cell(settings=settings, debug=debug, **parts)
    _check_together(cell)
    return canonical(cell)


def _debug(node: Mapping[str, Any] | None) -> Debug:
    if not node:  # a run folder of before this key, whose noise was its own
        return Debug(common_noise=False)
    return build_as(Debug, {k: v for k, v in node.items() if k != "_target_"}, "debug")


def canonical(cell: Cell) -> Cell:
    """Return ``neither`` cells without what cannot matter to them, so that every rule at every C
    and ε shares one baseline.
    """
    if cell.settings.mechanism != "neither":
        return cell
    settings = replace(cell.settings, epsilon=math.inf, noise_multiplier=None, delta=None)
    optim = replace(cell.optim, lr=cell.optim.baseline_lr, lr_scale="fixed")
    # Nothing is noised, so that there are no counts inside ε to write.
    counted = isinstance(cell.telemetry, Accounted)
    telemetry = Off("off") if counted else cell.telemetry
    none = NoClipping("none", cell.clip.unit)
    # Canaries among the records are data, which the baseline has too; of gradients it has no use.
    audit = NoAudit("none") if isinstance(cell.audit, GradientAudit) else cell.audit
    # It takes all its steps: what cells are compared with is one run, whatever they decide.
    return replace(
        cell, settings=settings, optim=optim, clip=none, telemetry=telemetry,
        decide=NoDecisions("none"), audit=audit,
    )  # fmt: skip


def baseline(cell: Cell) -> Cell:
    """Return the cell's non-private reference: mechanism ``neither``, its own learning rate."""
    return canonical(replace(cell, settings=replace(cell.settings, mechanism="neither")))


def _check_together(cell: Cell) -> None:
    mechanism = cell.settings.mechanism
    _check_accountant(cell)
    for key in ("lr", "baseline_lr"):
        if getattr(cell.optim, key) > LARGEST:
            raise ConfigError(
                f"optim.{key}", getattr(cell.optim, key),
                f"must be at most {LARGEST:g}: parameters are float32",
            )  # fmt: skip
    check_release_settings(cell)
    _check_telemetry(cell)
    _check_audit(cell)
    if not isinstance(cell.decide, NoDecisions | Validation):
        raise ConfigError("decide", type(cell.decide).__name__, "must be none or validation")
    if not cell.clip.bounded and (cell.noised or mechanism == "private"):
        raise ConfigError(
            "clip", cell.clip.name,
            f"bounds nothing, so that no noise covers mechanism={mechanism}; "
            "use mechanism=neither or clip_only, or another rule",
        )  # fmt: skip


def _check_accountant(cell: Cell) -> None:
    if cell.private and not getattr(cell.accountant, "certifies", False):
        raise ConfigError(
            "accountant", cell.accountant.name,
            "estimates ε and is no upper bound: it may be shown, never certify. Use accountant=pld",
        )  # fmt: skip


def _check_telemetry(cell: Cell) -> None:
    if not isinstance(cell.telemetry, Accounted) or cell.private:
        return
    if cell.settings.mechanism != "neither":  # a baseline has none, and so shares its run
        raise ConfigError(
            "telemetry", cell.telemetry.name,
            "needs a run with an ε, which its counts would be inside of; this one is a diagnostic "
            f"(mechanism={cell.settings.mechanism}, epsilon={cell.settings.epsilon})",
            "use telemetry=oracle, which is private in any run, or telemetry=off",
        )  # fmt: skip


def _check_audit(cell: Cell) -> None:
    if not isinstance(cell.audit, Audit):
        raise ConfigError(
            "audit", type(cell.audit).__name__, "must be none, gradient, canaries or membership"
        )
    if isinstance(cell.audit, NoAudit):
        return
    gradient = isinstance(cell.audit, GradientAudit)
    if gradient and not cell.private and cell.settings.mechanism != "neither":
        raise ConfigError(  # a baseline has no such audit, and so shares its run
            "audit", cell.audit.name, "looks for what ε does not allow, and this run has no ε "
            f"(mechanism={cell.settings.mechanism}, epsilon={cell.settings.epsilon})",
        )  # fmt: skip
    if cell.settings.relation == "replace_one":
        raise ConfigError(
            "relation", cell.settings.relation, "must be add_or_remove_one or replace_special with "
            "an audit: its canaries are in or out",
        )  # fmt: skip


def _positive(key: str, value: float | None, allowed: str) -> None:
    if value is not None and not value > 0:
        raise ConfigError(key, value, f"must be {allowed}")


def _check_device(device: str) -> None:
    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ConfigError("device", device, f"cannot be used here ({reason}); try cpu") from None
