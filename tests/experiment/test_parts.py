"""Settings of another kind are refused in the words of a configuration file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pytest

from dpsgd.errors import ConfigError
from dpsgd.experiment.parts import build_as


@dataclass(frozen=True)
class Part:
    widths: Sequence[int] | None
    rows: int | Literal["auto"] | None
    share: float
    on: bool
    word: str
    norms: Mapping[str, float]
    kind: Literal["sum", "average"]


GOOD: dict[str, Any] = {
    "widths": [1, 2], "rows": 3, "share": 0.5, "on": True, "word": "a", "norms": {"a": 1.0},
    "kind": "sum",
}  # fmt: skip


def test_what_is_right_is_taken():
    assert build_as(Part, {**GOOD, "widths": 4, "rows": "auto", "share": 1}, "part") == Part(
        [4], "auto", 1.0, True, "a", {"a": 1.0}, "sum"
    )


@pytest.mark.parametrize(("key", "value", "said"), [
    ("widths", "abc", "must be a list, [value, value]"),
    ("widths", {"a": 1}, "must be a list, [value, value]"),
    ("widths", [1, "a"], "must each be a whole number"),
    ("rows", "a", "must be a whole number or 'auto'"),
    ("rows", 1.5, "must be a whole number or 'auto'"),
    ("share", "a", "must be a number"),
    ("on", "maybe", "must be true or false"),
    ("word", 3, "must be a word or a text"),
    ("norms", 3, "must be a mapping, {name: value}"),
    ("norms.a", {"a": "b"}, "must be a number"),
    ("kind", "mean", "must be 'sum' or 'average'"),
])  # fmt: skip
def test_another_kind_of_value_is_refused_with_the_kind_that_is_wanted(key, value, said):
    with pytest.raises(ConfigError) as refused:
        build_as(Part, {**GOOD, key.partition(".")[0]: value}, "part")
    first = str(refused.value).splitlines()[0]
    assert first.startswith(f"part.{key}=")
    assert first.endswith(said)
