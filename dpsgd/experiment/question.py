"""What one asks an accountant on the command line: ``key=value`` words, checked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from dpsgd.accounting import Relation
from dpsgd.errors import ConfigError, did_you_mean

KEYS = ("epsilon", "noise_multiplier", "n", "batch", "q", "epochs", "steps", "delta", "relation")


@dataclass(frozen=True)
class Question:
    """``n`` units, of which ``q`` are expected in each of ``steps`` steps; ε, σ or both."""

    epsilon: float | None
    noise_multiplier: float | None
    n: int
    q: float
    steps: int
    delta: float | None
    relation: Relation

    @property
    def batch(self) -> float:
        """The expected number of units in a step."""
        return self.q * self.n


def question_of(words: Sequence[str]) -> Question:
    """Read ``key=value`` words. Raises ConfigError naming the key that is wrong or missing."""
    given = _read(words)
    numbers = {k: _number(k, v) for k, v in given.items() if k != "relation"}
    if not {"epsilon", "noise_multiplier"} & numbers.keys():
        raise ConfigError("epsilon", None, "say epsilon=, noise_multiplier=, or both")
    n = _whole("n", numbers.get("n"))
    q = _one_of("q", "batch", numbers)
    if "batch" in numbers:
        q = numbers["batch"] / n
    if not 0 < q <= 1:
        key = "batch" if "batch" in numbers else "q"
        raise ConfigError(key, numbers[key], f"above 0, and at most {n if key == 'batch' else 1}")
    steps = _one_of("steps", "epochs", numbers)
    steps = math.ceil(numbers["epochs"] / q) if "epochs" in numbers else _whole("steps", steps)
    return Question(
        numbers.get("epsilon"), numbers.get("noise_multiplier"), n, q, steps,
        numbers.get("delta"), cast(Relation, given.get("relation", "add_or_remove_one")),
    )  # fmt: skip


def _read(words: Sequence[str]) -> dict[str, str]:
    given: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if key not in KEYS or not equals:
            raise ConfigError(
                key, value or None,
                f"no such key{did_you_mean(key, KEYS)}; say one of {', '.join(KEYS)}, as key=value",
            )  # fmt: skip
        if key in given:
            raise ConfigError(key, value, "is there twice")
        given[key] = value
    return given


def _number(key: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ConfigError(key, text, "must be a number") from None
    if not (math.isfinite(value) and value > 0):
        raise ConfigError(key, text, "must be a finite number above 0")
    return value


def _whole(key: str, value: float | None) -> int:
    if value is None or value != int(value):
        raise ConfigError(key, value, "a whole number is needed")
    return int(value)


def _one_of(first: str, second: str, numbers: dict[str, float]) -> float:
    both = [key for key in (first, second) if key in numbers]
    if len(both) != 1:
        raise ConfigError(first, None, f"say {first}= or {second}=, one of them")
    return numbers[both[0]]
