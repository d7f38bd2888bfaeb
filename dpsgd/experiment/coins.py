"""Training records whose inclusion is decided by a coin: canaries, or everyone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from dpsgd.auditing.settings import CanaryAudit, MembershipAudit
from dpsgd.data.bundle import Bundle, Split
from dpsgd.errors import ConfigError
from dpsgd.experiment.settings import Cell
from dpsgd.randomness import Streams
from dpsgd.slices import SliceTable
from dpsgd.telemetry.counts import PURPOSE

WRONG, RARE, RANDOM, MEMBER = "wrong_label", "rare_wrong_label", "random", "member"
CANARY_KINDS = (WRONG, RARE, RANDOM)


@dataclass(frozen=True)
class Planted:
    """Data with their canaries, and references that nothing is trained on.

    ``kind`` ``[n]`` names what each training record was made into, "" for one left as it was;
    ``references`` holds held-out records made into the same kinds.
    """

    bundle: Bundle
    kind: np.ndarray
    references: Mapping[str, Split]


@dataclass(frozen=True)
class Coins:
    """Who has a coin, and how it fell; ``slices`` are those of the records before they were made
    into canaries.

    Attributes:
        kind: ``[n]``, "" for a record without a coin.
        included: ``[n]`` bool, True for a record without a coin.

    """

    kind: np.ndarray
    included: np.ndarray
    slices: SliceTable
    references: Mapping[str, Split]

    @property
    def flipped(self) -> np.ndarray:
        """``[n]`` bool: who has a coin."""
        return self.kind != ""

    @property
    def present(self) -> Tensor:
        """``[n]`` bool: the records that are there to be trained on."""
        return torch.from_numpy(self.included)


def plant(cell: Cell, bundle: Bundle) -> Planted | None:
    """Make training records into canaries, where the cell asks for that; None where it does not.

    Which ones, and into what, follows from ``data.seed``: runs of other seeds have the same ones,
    with coins of their own. Raises ConfigError for data that have no classes.
    """
    audit = cell.audit
    if not isinstance(audit, CanaryAudit):
        return None
    if bundle.task != "classes" or len(bundle.classes) < 2:
        raise ConfigError("audit", audit.name, "needs records of two classes or more", _INSTEAD)
    streams = Streams.from_seed(cell.data.seed, "canaries")
    generator = streams.numpy("canary")
    tail = cell.slices.tail_classes(bundle)
    kind = _kinds(audit, bundle.train.labels.numpy(), tail, generator)
    train = _made(bundle.train, kind, bundle, streams, 1)
    held = [split for split in (bundle.validation, bundle.test) if len(split)]
    references: dict[str, Split] = {}
    for place, name in enumerate(CANARY_KINDS):
        if not (kind == name).any() or not held:
            continue
        inputs = torch.cat([split.inputs for split in held])
        labels = torch.cat([split.labels for split in held])
        chosen = np.isin(labels.numpy(), tail) == (name == RARE)
        rows = generator.permutation(np.flatnonzero(chosen))
        if not len(rows):
            continue
        # A record may be made into several references, each with a wrong label of its own.
        rows = np.resize(rows, audit.references)
        split = Split("reference", inputs[rows], labels[rows], np.arange(len(rows)), {})
        references[name] = _made(split, np.full(len(rows), name), bundle, streams, 2 + place)
    return Planted(replace(bundle, train=train), kind, references)


_INSTEAD = "audit=gradient needs no classes, and audit=membership no canaries"


def coins_of(
    cell: Cell, planted: Planted | None, slices: SliceTable, streams: Streams
) -> Coins | None:
    """Flip the coins of a cell's training records; None without an audit of records.

    ``slices`` are those of the records as they were.
    """
    n = len(slices.membership)
    if isinstance(cell.audit, MembershipAudit):
        kind = np.full(n, MEMBER)
    elif planted is not None:
        kind = planted.kind
    else:
        return None
    fell = streams.numpy("canary").random(n) < 0.5
    references = {} if planted is None else planted.references
    return Coins(kind, fell | (kind == ""), slices, references)


def seen(slices: SliceTable, planted: Planted | None) -> SliceTable:
    """Return the slices that telemetry counts: canaries are in none of them."""
    if planted is None:
        return slices
    membership = slices.membership & (planted.kind == "")[:, np.newaxis]
    return replace(slices, membership=membership)


def uncounted(
    info: Mapping[str, Tensor], planted: Planted | None, *, records: bool
) -> dict[str, Tensor]:
    """Return what a rule may know of each unit, the counts of telemetry without canaries."""
    found = dict(info)
    if planted is not None and records and PURPOSE in found:
        own = torch.from_numpy(planted.kind == "")
        found[PURPOSE] = found[PURPOSE] & own[:, None]
    return found


def _kinds(
    audit: CanaryAudit, labels: np.ndarray, tail: tuple[int, ...], generator: np.random.Generator
) -> np.ndarray:
    kind = np.full(len(labels), "", dtype="<U16")
    for label in np.unique(labels):
        rows = generator.permutation(np.flatnonzero(labels == label))
        rare = label in tail
        count = round((audit.tail_share if rare else audit.share) * len(rows))
        random = 0 if rare else round(audit.random_share * count)
        kind[rows[:count]] = RARE if rare else WRONG
        kind[rows[:random]] = RANDOM
    return kind


def _made(split: Split, kind: np.ndarray, bundle: Bundle, streams: Streams, part: int) -> Split:
    """Return the split with its records made into what ``kind`` says."""
    generator = streams.generator("canary", part)
    inputs, labels = split.inputs.clone(), split.labels.clone()
    classes = len(bundle.classes)
    wrong = torch.from_numpy(np.isin(kind, (WRONG, RARE)))
    shift = torch.randint(1, classes, (int(wrong.sum()),), generator=generator)
    labels[wrong] = (labels[wrong] + shift) % classes
    random = torch.from_numpy(kind == RANDOM)
    size = (int(random.sum()), *inputs.shape[1:])
    inputs[random] = (
        torch.randint(bundle.vocabulary, size, generator=generator)
        if bundle.vocabulary
        else torch.rand(size, generator=generator, dtype=inputs.dtype)
    )
    labels[random] = torch.randint(classes, (size[0],), generator=generator)
    return replace(split, inputs=inputs, labels=labels)
