"""``python -m benchmarks.audit_faults``: how often an audit refutes a claim, true or false.

The default cell at ε = 3 with 1,000 gradient canaries and 200 guesses, at 95 %: without a fault
(also as users, for the fault that needs them), and with each fault of benchmarks/audit_planted.py.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.audit_planted import FAULTS, USERS, Fault
from benchmarks.audit_runs import audited_run
from benchmarks.document import write_document

NORM, BATCH = 1.0, 256.0
CELL: dict[str, Any] = {"clip.norm": NORM, "batch": BATCH}
NONE, NONE_USERS = "none", "none, users"


def main() -> None:
    chosen = _arguments()
    torch.set_num_threads(1)
    rows: dict[str, list[dict[str, Any]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder)
        for name, seeds, settings, fault in _asked(chosen):
            for seed in range(seeds):
                plant = fault and fault.plant(NORM, BATCH)
                found = audited_run({**CELL, **settings, "seed": seed}, cache, plant)
                rows.setdefault(name, []).append({"seed": seed} | found)
                _write(chosen.out, rows)
    print("\n".join(lines(summary(rows))))


def summary(rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, dict[str, Any]]:
    """Return for each fault how many runs are refuted, of how many, and the mean lower bounds."""
    return {
        name: {
            "runs": len(runs),
            "refuted": sum(bool(run["audit_refuted"]) for run in runs),
            "epsilon": float(np.mean([run["epsilon"] for run in runs])),
            "right": float(np.mean([run["audit_correct"] / run["audit_guesses"] for run in runs])),
            "any_mechanism": float(np.mean([run["audit_epsilon"] for run in runs])),
            "gaussian": float(np.mean([run["audit_epsilon_gaussian"] for run in runs])),
        }
        for name, runs in rows.items()
    }


def lines(found: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return the table."""
    text = [f"{'fault':20}{'refuted':>9}{'claimed':>9}{'right':>8}{'ε ≥ any':>9}{'Gaussian':>10}"]
    text += [
        f"{name:20}{row['refuted']:>4} of {row['runs']:<2}{row['epsilon']:>8.2f}"
        f"{100 * row['right']:>7.1f}%{row['any_mechanism']:>9.2f}{row['gaussian']:>10.2f}"
        for name, row in found.items()
    ]
    return text


def _asked(
    chosen: argparse.Namespace,
) -> list[tuple[str, int, Mapping[str, Any], Fault | None]]:
    """Return name, number of runs, settings and fault of everything that is to be trained."""
    found: list[tuple[str, int, Mapping[str, Any], Fault | None]] = [
        (NONE, chosen.honest, {}, None), (NONE_USERS, chosen.faulty, USERS, None)
    ]  # fmt: skip
    return found + [(n, chosen.faulty, fault.settings, fault) for n, fault in FAULTS.items()]


def _write(out: Path, rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    content = {
        "cell": CELL,
        "faults": {name: fault.what for name, fault in FAULTS.items()},
        "summary": summary(rows),
        "runs": rows,
    }
    # After every run: what was measured so far outlives an interruption.
    write_document(out, "benchmarks.audit_faults", content)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.audit_faults", description=__doc__)
    parser.add_argument("--honest", type=int, default=50, help="runs without a fault")
    parser.add_argument("--faulty", type=int, default=20, help="runs with each fault")
    out = Path("benchmarks/audit_faults.json")
    parser.add_argument("--out", type=Path, default=out, help="where the JSON goes")
    return parser.parse_args()


if __name__ == "__main__":
    main()
