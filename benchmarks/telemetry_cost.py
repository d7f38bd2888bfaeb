"""``python -m benchmarks.telemetry_cost``: what telemetry inside ε costs, and what it is worth.

Cost: loss of tail accuracy against the same run without telemetry, in pairs that share draws and
noise. Worth: how often the 95 % intervals hold the true clip fraction of the units drawn, which
only this benchmark looks at. Time: a step of training with each telemetry.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import special

from benchmarks.document import write_document
from benchmarks.telemetry_pairs import Interval, Pair, pair, seconds_a_step

CELL: dict[str, Any] = {"clip.norm": 3.0}
"""The default cell at C = 3."""


def main() -> None:
    chosen = _arguments()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        pairs: list[Pair] = []
        for seed in range(chosen.first, chosen.first + chosen.seeds):
            pairs.append(pair(seed, CELL, Path(folder)))
            _write(chosen.out, pairs, {})  # what was measured so far outlives an interruption
            if sys.stderr.isatty():
                print(f"\rseed {seed}", end="", file=sys.stderr, flush=True)
        times = seconds_a_step(CELL, Path(folder), chosen.repeats) if chosen.repeats else {}
    print("\n".join(lines(_write(chosen.out, pairs, times))))


def _write(out: Path, pairs: Sequence[Pair], times: dict[str, float]) -> dict[str, Any]:
    found = summary(pairs) | {
        "ms_a_step": {name: round(1e3 * value, 3) for name, value in times.items()},
        "cell": CELL,
        "losses_points": [round(100 * (one.without - one.counted), 3) for one in pairs],
    }  # fmt: skip
    write_document(out, "benchmarks.telemetry_cost", found)
    return found


def summary(pairs: Sequence[Pair]) -> dict[str, Any]:
    """Return the loss of tail accuracy in points, with its 95 % interval (Student's t over seeds),
    and how often intervals hold the true fraction, over the whole training and by window.
    """
    losses = np.array([100 * (one.without - one.counted) for one in pairs])
    half = math.nan
    if len(losses) > 1:
        t = float(special.stdtrit(len(losses) - 1, 0.975))
        half = t * float(losses.std(ddof=1)) / math.sqrt(len(losses))
    whole = [interval for one in pairs for interval in one.whole]
    windows = [interval for one in pairs for interval in one.windows]
    slices = list(dict.fromkeys(interval.where for interval in whole))
    return {
        "seeds": len(pairs),
        "tail_accuracy": {
            "off": round(100 * float(np.mean([one.without for one in pairs])), 3),
            "accounted": round(100 * float(np.mean([one.counted for one in pairs])), 3),
        },
        "loss_points": {
            "mean": round(float(losses.mean()), 3),
            "lo": round(float(losses.mean()) - half, 3),
            "hi": round(float(losses.mean()) + half, 3),
        },
        "training": _covered(whole),
        "windows": _covered(windows),
        "slices": {
            name: _covered([i for i in whole if i.where == name])
            | {"window": _covered([i for i in windows if i.where == name])}
            for name in slices
        },
    }


def _covered(intervals: Iterable[Interval]) -> dict[str, Any]:
    """Return how many intervals there are where a unit was drawn, how many of them hold the truth,
    how many say nothing, and half the mean width of those that say something.
    """
    known = [i for i in intervals if not math.isnan(i.true)]
    telling = [i for i in known if not math.isnan(i.value)]
    return {
        "intervals": len(known),
        "hold": round(sum(i.holds for i in known) / len(known), 4) if known else None,
        "say_nothing": round(1 - len(telling) / len(known), 4) if known else None,
        "half_width": round(float(np.mean([(i.hi - i.lo) / 2 for i in telling])), 4)
        if telling
        else None,
        "true": round(float(np.mean([i.true for i in known])), 4) if known else None,
    }


def lines(found: dict[str, Any]) -> list[str]:
    """Return the table, at most 80 columns wide."""
    tail, loss = found["tail_accuracy"], found["loss_points"]
    text = [
        f"tail accuracy: {tail['off']:.2f} % without, {tail['accounted']:.2f} % with counts inside "
        f"ε ({found['seeds']} seeds)",
        f"loss: {loss['mean']:.2f} points, 95 % interval {loss['lo']:.2f} to {loss['hi']:.2f}",
        "",
        "clip fraction         whole training               windows",
        "slice           true   ± half  holds  silent   ± half  holds  silent",
    ]
    rows = {"every slice": found["training"] | {"window": found["windows"]}, **found["slices"]}
    for name, row in rows.items():
        cells = "".join(
            f"{_percent(part['half_width']):>9}{_percent(part['hold']):>7}"
            f"{_percent(part['say_nothing']):>8}"
            for part in (row, row["window"])
        )
        text.append(f"{name[:14]:14}{_percent(row['true']):>6}{cells}")
    if found["ms_a_step"]:
        times = found["ms_a_step"]
        shown = ", ".join(f"{name} {value:.2f}" for name, value in times.items())
        text += ["", f"ms a step: {shown}"]
    return text


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f}"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.telemetry_cost", description=__doc__
    )
    parser.add_argument("--seeds", type=int, default=100, help="pairs of runs")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--repeats", type=int, default=3, help="trainings that are timed; 0: none")
    out = Path("benchmarks/telemetry_cost.json")
    parser.add_argument("--out", type=Path, default=out, help="where the JSON goes")
    return parser.parse_args()


if __name__ == "__main__":
    main()
