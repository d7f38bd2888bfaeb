"""Where coins, permutations and noise come from: a torch generator, or a cryptographic one.

A research run draws by torch's own generators, fast and repeatable. A released run draws all that
privacy rests on by ChaCha20, whose output nobody can tell from chance without its key. The
functions here are the only place that knows the difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from randomgen import ChaCha
from torch import Tensor

ROUNDS = 20
KEY_BYTES = 32

SUMMED = 4
"""Normal numbers that one of a cryptographic source is the sum of, over √SUMMED.

What floating point leaves out of one number tells which noise was drawn; out of a sum of several
it is far harder to find (Holohan and Braghin, "Secure random sampling in differential privacy",
ESORICS 2021).
"""


class Cryptographic:
    """Random numbers by ChaCha20 (Bernstein 2008; RFC 8439) under a key of 256 bits.

    ``randomgen`` computes the key stream, and NumPy turns it into float64 numbers in [0, 1) with 53
    bits, and into normal ones by a ziggurat. They are drawn on the CPU, whatever device they go to.
    """

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise ValueError(f"a key has {KEY_BYTES} bytes, not {len(key)}")
        # `key`, not `seed`: a seed would be hashed by a generator that is not cryptographic.
        number = int.from_bytes(key, "little")
        chacha: Any = ChaCha(key=number, rounds=ROUNDS)  # a BitGenerator, which its stubs leave out
        self._numbers = np.random.Generator(chacha)

    def normal(self, size: int) -> np.ndarray:
        """Return ``[size]`` float64 standard normal numbers."""
        total = self._numbers.standard_normal(size)
        for _ in range(SUMMED - 1):
            total += self._numbers.standard_normal(size)
        total /= np.sqrt(SUMMED)
        return total

    def uniform(self, size: int) -> np.ndarray:
        """Return ``[size]`` float64 numbers, uniform in [0, 1)."""
        return self._numbers.random(size)

    def permutation(self, size: int) -> np.ndarray:
        """Return 0 … ``size``−1 in a uniformly random order, int64."""
        return self._numbers.permutation(size)


Source: TypeAlias = torch.Generator | Cryptographic


def normal(
    source: Source, size: int | Sequence[int], dtype: torch.dtype, device: torch.device
) -> Tensor:
    """Return standard normal numbers of ``size`` on ``device``.

    A torch generator must be of that device.
    """
    shape = (size,) if isinstance(size, int) else tuple(size)
    if isinstance(source, torch.Generator):
        return torch.randn(shape, generator=source, device=device, dtype=dtype)
    drawn = torch.from_numpy(source.normal(int(np.prod(shape)))).reshape(shape)  # pyright: ignore[reportUnknownMemberType]
    return drawn.to(device=device, dtype=dtype)


def fill_normal(out: Tensor, source: Source, std: float) -> None:
    """Fill ``out`` with independent N(0, std²) numbers; a torch generator must be of its device."""
    if isinstance(source, torch.Generator):
        out.normal_(0.0, std, generator=source)
    else:
        out.copy_(normal(source, out.shape, out.dtype, out.device)).mul_(std)


def uniform(source: Source, size: int) -> Tensor:
    """Return ``[size]`` float64 numbers, uniform in [0, 1): on the generator's device, or CPU."""
    if isinstance(source, torch.Generator):
        return torch.rand(size, generator=source, dtype=torch.float64, device=source.device)
    return torch.from_numpy(source.uniform(size))  # pyright: ignore[reportUnknownMemberType]


def permutation(source: Source, size: int) -> Tensor:
    """Return 0 … ``size``−1 in a uniformly random order, int64."""
    if isinstance(source, torch.Generator):
        return torch.randperm(size, generator=source)
    return torch.from_numpy(source.permutation(size))  # pyright: ignore[reportUnknownMemberType]
