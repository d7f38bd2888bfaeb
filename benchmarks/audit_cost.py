"""``python -m benchmarks.audit_cost``: what an audit adds to the time of a cell.

The default cell whole, from its settings to its finished folder, with each audit and without one:
CPU time of one thread in one process, in turns, so that whatever slows the machine down slows all
alike. All take as many steps; the first turn, which fills the accountants' cache, is not counted.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from benchmarks.document import write_document
from dpsgd import train

AUDITS = ("none", "gradient", "canaries", "membership")
STEPS = 290
"""Of the default cell without an audit. A thousand canaries more are 27 % more units, and 20 epochs
over them as many more steps: longer training, and no cost of a canary.
"""


def main() -> None:
    chosen = _arguments()
    torch.set_num_threads(1)
    times: dict[str, list[float]] = {name: [] for name in AUDITS}
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(1 + chosen.turns):
            for name in AUDITS:
                start = time.process_time()
                train({
                    "audit": name, "steps": STEPS, "seed": turn, "tracker": "none", "threads": 1,
                    "runs_dir": folder,
                })  # fmt: skip
                if turn:
                    times[name].append(time.process_time() - start)
    found = summary(times)
    content = {"steps": STEPS, "summary": found, "seconds": times}
    write_document(chosen.out, "benchmarks.audit_cost", content)
    print("\n".join(lines(found)))


def summary(times: Mapping[str, Sequence[float]]) -> dict[str, dict[str, float]]:
    """Return the median seconds of each audit, and the median of its ratios to the cell without one
    that was trained in the same turn.
    """
    plain = times[AUDITS[0]]
    return {
        name: {
            "seconds": statistics.median(own),
            "ratio": statistics.median(one / other for one, other in zip(own, plain, strict=True)),
        }
        for name, own in times.items()
    }


def lines(found: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Return the table."""
    return [f"{'audit':14}{'CPU s':>8}{'to none':>9}"] + [
        f"{name:14}{row['seconds']:>8.2f}{row['ratio']:>9.3f}" for name, row in found.items()
    ]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.audit_cost", description=__doc__)
    parser.add_argument("--turns", type=int, default=11, help="turns that are counted")
    out = Path("benchmarks/audit_cost.json")
    parser.add_argument("--out", type=Path, default=out, help="where the JSON goes")
    return parser.parse_args()


if __name__ == "__main__":
    main()
