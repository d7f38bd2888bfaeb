"""The accountants as their yaml builds them, and the published numbers to hold them to."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

from hydra.utils import instantiate
from omegaconf import OmegaConf

_ROOT = Path(__file__).parents[2]
CONFIGS = sorted((_ROOT / "conf" / "accountant").glob("*.yaml"))
ACCOUNTANTS = {path.stem: instantiate(OmegaConf.load(path)) for path in CONFIGS}
VECTORS: dict[str, list[dict[str, Any]]] = json.loads(
    (_ROOT / "tests" / "vectors" / "accounting.json").read_text(encoding="utf-8")
)


def rate(q: str | float) -> float:
    """Return the sampling probability of a row, which may be written as a fraction."""
    return float(Fraction(q)) if isinstance(q, str) else float(q)


class Counting:
    """An accountant that counts how often it is asked."""

    certifies = True

    def __init__(self, accountant: Any) -> None:
        self._accountant, self.calls = accountant, 0
        self.name = accountant.name

    def epsilon(self, *args: Any) -> float:
        self.calls += 1
        return self._accountant.epsilon(*args)
