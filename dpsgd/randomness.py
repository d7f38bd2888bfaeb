"""Keyed random streams: the state of every stream is (key, run key, purpose, step), nothing else.

A resume at step ``t`` needs no saved generator, evaluating more often cannot change training, and
two cells never share a stream because the run key is part of the derivation. The same noise at two
noise multipliers could be subtracted away.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Literal

import numpy as np
import torch

from dpsgd.errors import PrivacyError
from dpsgd.sources import KEY_BYTES, Cryptographic, Source

Purpose = Literal[
    "init",
    "sampling",
    "shuffle",
    "choice",
    "noise",
    "dropout",
    "evaluation",
    "probe",
    "look",
    "canary",
]

_MT_WORDS = 624
_MT_OFFSET = 24
_MT_BYTES = 5056


@dataclass(frozen=True)
class Streams:
    """The random streams of one run.

    ``key`` is the secret (research runs: the seed, which protects nothing), ``run_key`` separates
    cells, ``epoch`` counts the times that this run had to start a new key, and ``nonce`` tells that
    epoch from the one of a copy of the run, which counts the same: public, of the operating system,
    empty in epoch 0. With ``secret`` the key is one of 256 bits, and all that privacy rests on is
    drawn by a cryptographic generator.
    """

    key: bytes = field(repr=False)
    run_key: str
    epoch: int = 0
    secret: bool = False
    nonce: str = ""

    @classmethod
    def keyless(cls, run_key: str) -> Streams:
        """Streams of a released run that was not given its key yet: any use raises PrivacyError."""
        return cls(b"", run_key, secret=True)

    @classmethod
    def from_seed(cls, seed: int, run_key: str) -> Streams:
        """Streams of a research run, which anyone who knows the seed can redraw."""
        return cls(b"seed:" + str(int(seed)).encode(), run_key)

    @property
    def stream_id(self) -> str:
        """A public name of these streams (16 hex digits) that does not reveal the key."""
        return hashlib.sha256(b"stream-id" + self._prefix("id", 0)).hexdigest()[:16]

    def source(self, purpose: Purpose, step: int = 0, device: str = "cpu") -> Source:
        """Return what draws the coins or the noise of this step: cryptographic for ``secret``
        streams, else :meth:`generator`.
        """
        if not self.secret:
            return self.generator(purpose, step, device)
        # Its own prefix: no generator that can be wound back is fed from the same digest.
        prefix = b"chacha" + self._prefix(purpose, step)
        return Cryptographic(hashlib.shake_256(prefix).digest(KEY_BYTES))

    def generator(self, purpose: Purpose, step: int = 0, device: str = "cpu") -> torch.Generator:
        """Return a fresh generator on ``device`` for this purpose and step.

        On the CPU all 19,968 bits of the Mersenne twister come from the key: ``manual_seed`` would
        keep 32 of them, and 2³² streams collide after some 10⁵ draws.
        """
        if device.startswith("cpu"):
            generator = torch.Generator()
            generator.set_state(_mersenne_state(self._digest(purpose, step, 4 * _MT_WORDS)))
            return generator
        generator = torch.Generator(device=device)
        generator.manual_seed(int.from_bytes(self._digest(purpose, step, 8), "little") >> 1)
        return generator

    def numpy(self, purpose: Purpose, step: int = 0) -> np.random.Generator:
        """Return a fresh counter-based NumPy generator (Philox, 128-bit key)."""
        key = int.from_bytes(self._digest(purpose, step, 16), "little")
        return np.random.Generator(np.random.Philox(key=key))

    def _digest(self, purpose: Purpose, step: int, size: int) -> bytes:
        return hashlib.shake_256(self._prefix(purpose, step)).digest(size)

    def _prefix(self, purpose: str, step: int) -> bytes:
        head = self._heads.get(purpose) or self._head(purpose)
        # Last, and alone of no stated length: empty, it leaves the streams of epoch 0 as they are.
        return head + step.to_bytes(8, "big") + self.nonce.encode()

    def _head(self, purpose: str) -> bytes:
        if self.secret and len(self.key) != KEY_BYTES:
            raise PrivacyError(f"a released run needs a key of {KEY_BYTES} bytes before it draws")
        fields = (self.key, self.run_key.encode(), purpose.encode())
        head = b"".join(len(field).to_bytes(4, "big") + field for field in fields)
        self._heads[purpose] = head = head + self.epoch.to_bytes(4, "big")
        return head

    @cached_property
    def _heads(self) -> dict[str, bytes]:
        """What is the same for every step, by purpose."""
        return {}


def _mersenne_state(words: bytes) -> torch.Tensor:
    """Return a CPU generator state with these 624 words of four bytes, about to be twisted."""
    before, after = _around_the_words()
    # A word stands in eight bytes, of which torch takes the lower four: the first copy shows it
    # every other word, and the second, four bytes on, the rest.
    state = bytearray().join((before, words, words[4:], words[:4], after))
    # The stubs leave out what the buffer may be.
    return torch.frombuffer(state, dtype=torch.uint8)  # pyright: ignore[reportUnknownMemberType]


@cache
def _around_the_words() -> tuple[bytes, bytes]:
    """Return what stands around the words in the state of a generator seeded with 0, its layout
    checked.
    """
    state = torch.Generator().manual_seed(0).get_state().numpy().tobytes()
    end = _MT_OFFSET + 8 * _MT_WORDS
    first = [int.from_bytes(state[i : i + 8], "little") for i in range(_MT_OFFSET, end, 8)][:3]
    # MT19937 seeded with 0 (Matsumoto & Nishimura 1998): x_0 = 0, x_1 = 1, x_2 = 1812433253·1 + 2.
    if len(state) != _MT_BYTES or first != [0, 1, 1812433255]:
        raise RuntimeError(
            "this build of torch keeps its CPU generator in another layout; keyed streams need "
            "the layout of the versions in constraints.txt"
        )
    return state[:_MT_OFFSET], state[end:]
