"""``python -m benchmarks.audit_bounds``: lower bounds on ε for every rule, unit and sampler.

The default cell at ε = 3, audited by 1,000 gradient canaries of which 200 are guessed. A row
changes one thing: the clipping rule (every yaml in conf/clip), what one unit is, or how batches
are drawn.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.audit_runs import audited_run
from benchmarks.document import write_document
from dpsgd.experiment.options import config_folder

OF_USERS = {"users": "dirichlet", "users.count": 1000}
NOT_HERE = ("none", "user_level")
"""Rules that are no rows of their own: the first claims nothing, the second is among the units."""


@dataclass(frozen=True)
class Asked:
    """One row: its name, what it changes in the default cell, and whether it is one of a rule."""

    name: str
    settings: Mapping[str, Any]
    is_rule: bool


def asked() -> list[Asked]:
    """Return the rows: every rule, then units, then samplers."""
    files = sorted((config_folder("conf") / "clip").glob("*.yaml"))
    rules = [Asked(f.stem, {"clip": f.stem}, True) for f in files if f.stem not in NOT_HERE]
    capped = {"sampling": "poisson_capped_users", **OF_USERS}
    everyone = {"sampling": "full", "batch": 4700}
    return [
        *rules,
        Asked("users, average", {"clip": "user_level", **OF_USERS}, False),
        Asked("users, sum", {"clip": "user_level", "sampling.combine": "sum", **OF_USERS}, False),
        Asked("users, capped records", capped, False),
        Asked("poisson_truncated", {"sampling": "poisson_truncated"}, False),
        Asked("full", everyone, False),
        Asked("shuffled", {"sampling": "shuffled", "relation": "replace_special"}, False),
    ]


def main() -> None:
    chosen = _arguments()
    torch.set_num_threads(1)
    runs: dict[str, list[dict[str, Any]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(max(chosen.seeds, chosen.others)):
            for row in asked():
                if seed >= (chosen.seeds if row.is_rule else chosen.others):
                    continue
                if chosen.only and row.name not in chosen.only:
                    continue
                found = audited_run({**row.settings, "seed": seed}, Path(folder))
                runs.setdefault(row.name, []).append({"seed": seed} | found)
                _write(chosen.out, runs)
    print("\n".join(lines(summary(runs))))


def summary(runs: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, dict[str, Any]]:
    """Return the mean lower bounds of each row, their share of ε, and how many are refuted."""
    found: dict[str, dict[str, Any]] = {}
    for name, those in runs.items():
        gaussian = np.array([run["audit_epsilon_gaussian"] for run in those])
        epsilon = float(np.mean([run["epsilon"] for run in those]))
        found[name] = {
            "runs": len(those),
            "epsilon": epsilon,
            "right": float(np.mean([r["audit_correct"] / r["audit_guesses"] for r in those])),
            "any_mechanism": float(np.mean([run["audit_epsilon"] for run in those])),
            "gaussian": float(gaussian.mean()),
            "least": float(gaussian.min()),
            "most": float(gaussian.max()),
            "share": float(gaussian.mean()) / epsilon,
            "refuted": sum(bool(run["audit_refuted"]) for run in those),
        }
    return found


def lines(found: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the table, at most 80 columns wide."""
    text = [
        f"{'':23}{'runs':>5}{'right':>8}{'ε ≥ any':>9}{'Gaussian':>10}{'from–to':>13}"
        f"{'of ε':>6}{'ref.':>5}"
    ]
    for name, row in found.items():
        span = f"{row['least']:.2f}–{row['most']:.2f}"
        text.append(
            f"{name:23}{row['runs']:>5}{100 * row['right']:>7.1f}%{row['any_mechanism']:>9.2f}"
            f"{row['gaussian']:>10.2f}{span:>13}{100 * row['share']:>5.0f}%{row['refuted']:>5}"
        )
    return text


def _write(out: Path, runs: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    # After every run: what was measured so far outlives an interruption.
    write_document(out, "benchmarks.audit_bounds", {"summary": summary(runs), "runs": runs})


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.audit_bounds", description=__doc__)
    parser.add_argument("--seeds", type=int, default=10, help="runs of each rule")
    parser.add_argument("--others", type=int, default=4, help="runs of each unit and sampler")
    parser.add_argument("--only", nargs="+", metavar="ROW", help="these rows alone")
    out = Path("benchmarks/audit_bounds.json")
    parser.add_argument("--out", type=Path, default=out, help="where the JSON goes")
    return parser.parse_args()


if __name__ == "__main__":
    main()
