"""The run's own random numbers for dropout, in the place of the global ones."""

from __future__ import annotations

import torch

from dpsgd.randomness import Streams


class DropoutStream:
    """Global random state from the dropout stream of one step, put back afterwards.

    Entered again, it goes on where it stopped, so that no two micro-batches of a step share a mask.
    """

    def __init__(self, streams: Streams, step: int, device: str) -> None:
        self._device = torch.device(device)
        self._own = streams.generator("dropout", step).get_state()
        if self._device.type == "cuda":
            self._own_there = streams.generator("dropout", step, device).get_state()

    def __enter__(self) -> None:
        """Swap the run's state in."""
        self._before = torch.get_rng_state()
        torch.set_rng_state(self._own)
        if self._device.type == "cuda":
            self._before_there = torch.cuda.get_rng_state(self._device)
            torch.cuda.set_rng_state(self._own_there, self._device)

    def __exit__(self, *_: object) -> None:
        """Keep where the run's state is, and put the other back."""
        self._own = torch.get_rng_state()
        torch.set_rng_state(self._before)
        if self._device.type == "cuda":
            self._own_there = torch.cuda.get_rng_state(self._device)
            torch.cuda.set_rng_state(self._before_there, self._device)
