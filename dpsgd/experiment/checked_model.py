"""A model that has passed every check on synthetic rows, with its clip groups."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from dpsgd.clipping.groups import Groups
from dpsgd.engine import clip_groups
from dpsgd.engine.checks import check_engine, check_rows_apart
from dpsgd.engine.gradients import Loss
from dpsgd.engine.memory import MEASURED, rows_at_once
from dpsgd.errors import ConfigError, PrivacyError
from dpsgd.experiment.settings import Cell
from dpsgd.models.shape import DataShape
from dpsgd.randomness import Streams

MOST_PROBED = 128
"""The larger of the two synthetic batches that a model must pass has at most so many rows."""


@dataclass(frozen=True)
class CheckedModel:
    """A model and its clip groups. ``micro_batch`` is how many rows the engine holds at once; None:
    all of a draw.
    """

    model: nn.Module
    groups: Groups
    micro_batch: int | None


def checked_model(cell: Cell, shape: DataShape, loss: Loss, largest: float) -> CheckedModel:
    """Build a cell's model and try it, and its engine, on synthetic rows, never on the data.

    ``largest`` is the largest draw that has to fit, in rows. Raises ConfigError or PrivacyError.
    """
    # Cells of one seed share their starting point, whatever their rule: it is public, and pairs
    # them. The run key is left out of this stream on purpose.
    init = Streams.from_seed(cell.settings.seed, "initial weights")
    with torch.random.fork_rng(devices=[]):
        torch.set_rng_state(init.generator("init").get_state())
        try:
            model = cell.model.build(shape)
        except ConfigError as error:
            raise error.under("model") from None
    try:
        groups = clip_groups(model, cell.clip.granularity)
        for rows in (4, max(4, min(MOST_PROBED, round(cell.settings.batch)))):
            inputs, targets = probe(shape, rows, init.generator("probe", rows))
            check_rows_apart(model, loss, inputs, targets)
            check_engine(cell.engine, model, loss, inputs, targets, groups)
        inputs, targets = probe(shape, MEASURED, init.generator("probe", MEASURED))
        micro_batch = rows_at_once(cell.engine, model, loss, inputs, targets, groups, largest)
    except ConfigError as error:
        outer = error.key == "clip" or error.key.startswith(("model", "engine."))
        raise error if outer else error.under("clip") from None
    except (RuntimeError, TypeError, ValueError, IndexError, AttributeError) as error:
        if isinstance(error, PrivacyError):
            raise
        raise ConfigError(
            "model", cell.model.name,
            f"fails on synthetic rows of shape {shape.inputs}: {type(error).__name__}: {error}",
        ) from error  # fmt: skip
    return CheckedModel(model.to(cell.settings.device), groups, micro_batch)


def probe(shape: DataShape, rows: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return synthetic inputs and targets of ``rows`` rows: never the data."""
    size = (rows, *shape.inputs)
    inputs = (
        torch.randint(shape.vocabulary, size, generator=generator)
        if shape.vocabulary
        else torch.rand(size, generator=generator)
    )
    target_size = size if shape.task == "tokens" else (rows,)
    return inputs, torch.randint(shape.classes, target_size, generator=generator)
