"""The methods that the benchmark times: one private step each, all of one model and one batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from benchmarks.methods import ours, per_sample, plain, with_opacus
from benchmarks.methods.steps import Steps
from benchmarks.models import Batches, Task

Method: TypeAlias = Callable[[Task, Batches], Steps]

METHODS: dict[str, Method] = {
    "channels_last": plain.channels_last,
    "ours flat": ours.flat,
    "ours per_layer": ours.per_layer,
    "ours adaptive": ours.adaptive,
    "ours user": ours.user,
    "opacus hooks": with_opacus.hooks,
    "opacus ghost": with_opacus.ghost,
    "opacus functorch": with_opacus.functorch,
    "torch.func": per_sample.torch_func,
}
