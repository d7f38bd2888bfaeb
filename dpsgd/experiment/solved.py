"""Noise multipliers that were solved before, on disk: safe to delete, shared by every cell."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import math
from pathlib import Path

from dpsgd.accounting import Accountant, Relation
from dpsgd.experiment.files import read_json, write_json
from dpsgd.experiment.parts import plain
from dpsgd.sampling.sampler import Sampler


def solved_noise(
    accountant: Accountant, sampler: Sampler, steps: int, relation: Relation, epsilon: float,
    delta: float, cache: Path,
) -> float:  # fmt: skip
    """Return σ for ``epsilon``: from ``cache`` if this very problem was solved, else solved now.

    The caller computes ε of the σ returned, whatever its origin: a damaged file cannot overspend.
    """
    problem = {
        "event": repr(sampler.event(1.0, steps)), "accountant": plain(accountant),
        "version": importlib.metadata.version("dp-accounting"),
        "relation": relation, "epsilon": epsilon, "delta": delta,
    }  # fmt: skip
    digest = hashlib.sha256(json.dumps(problem, sort_keys=True).encode()).hexdigest()
    file = cache / f"{digest[:32]}.json"
    stored = read_json(file)
    if isinstance(stored, dict) and stored.get("problem") == problem:
        sigma = stored.get("noise_multiplier")
        if isinstance(sigma, float) and math.isfinite(sigma) and sigma > 0:
            return sigma
    sigma = accountant.calibrate(lambda s: sampler.event(s, steps), relation, epsilon, delta)
    write_json(file, {"problem": problem, "noise_multiplier": sigma})
    return sigma
