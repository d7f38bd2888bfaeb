"""Per-unit gradients: norms and weighted sums, exactly (materialised) and fast (bookkeeping)."""

from dpsgd.engine.bookkeeping import Bookkeeping
from dpsgd.engine.gradients import Engine, Loss, UnitGradients, Units
from dpsgd.engine.materialised import Materialised
from dpsgd.engine.partition import clip_groups

__all__ = ["Bookkeeping", "Engine", "Loss", "Materialised", "UnitGradients", "Units", "clip_groups"]
