"""Small files of every kind, and data sources as their yaml sets them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from dpsgd.data.bundle import Bundle, Split, with_fingerprint
from dpsgd.errors import ConfigError
from dpsgd.experiment.parts import build_part

CONF = Path(__file__).resolve().parents[2] / "conf"

SETTINGS = {
    "label": "label", "numeric": ["age", "income"], "categorical": ["job"], "na_values": ["?"],
}  # fmt: skip
"""What the columns of ``people`` mean."""


def part(group: str, option: str, **changes: Any) -> Any:
    """Build conf/<group>/<option>.yaml with some keys changed."""
    settings = yaml.safe_load((CONF / group / f"{option}.yaml").read_text())
    return build_part({**settings, **changes}, group)


def load(option: str, folder: Path, **changes: Any) -> Bundle:
    return with_fingerprint(part("data", option, **changes).load(folder / "cache"))


def people(n: int = 60) -> list[str]:
    """A CSV's lines: spaces after commas, gaps as ?, two labels in turn, a user for four rows."""
    lines = ["age, job, income, who, day, label"]
    for i in range(n):
        job = ("?", "clerk", "smith", "baker")[i % 4]
        age = "" if i == 7 else str(20 + i)
        day = f"2020-01-{1 + i % 28:02d}"
        lines.append(
            f"{age}, {job}, {100 * (i % 3)}, u{i // 4:02d}, {day}, {'yes' if i % 2 else 'no'}"
        )
    return lines


def write(file: Path, lines: list[str]) -> str:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(file)


def write_npz(file: Path, **changes: Any) -> str:
    """The layout of mnist.npz: 40 and 12 images of 3 by 4 pixels, four classes in turn."""
    pixels = np.random.default_rng(0).integers(0, 256, (52, 3, 4), dtype=np.uint8)
    labels = np.arange(52, dtype=np.uint8) % 4
    arrays = {
        "x_train": pixels[:40],
        "y_train": labels[:40],
        "x_test": pixels[40:],
        "y_test": labels[40:],
    }
    arrays |= changes
    np.savez(file, **{name: array for name, array in arrays.items() if array is not None})
    return str(file)


def splits(data: Bundle) -> tuple[Split, Split, Split]:
    return data.train, data.validation, data.test


def refusal(read: Callable[..., Bundle], *args: Any, **changes: Any) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        read(*args, **changes)
    return caught.value
