"""``python -m benchmarks.solve``: the noise for an ε, beside dp-accounting's own calibration.

Every row is one cold problem: T Poisson steps at rate q, ε, δ. ``evals`` is how often the
accountant was asked, counted from outside; ``low`` how far below the target ε(σ) ends, relatively
(it must be at most 1e-3, and never above). ``times`` is the CPU time of dp-accounting's
``calibrate_dp_mechanism`` over ours, in one process, for the same accountant, relation and grid
(its PLD accountant at its default spacing of losses) and σ to the same relative tolerance in ε.
"""

from __future__ import annotations

import argparse
import itertools
import math
import statistics
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import dp_accounting
from dp_accounting.pld import PLDAccountant

from benchmarks.document import write_document
from dpsgd.accounting import PLD, PRV, RDP, DpEvent, Moments, Relation, poisson_gaussian
from dpsgd.accounting.calibration import TOLERANCE, SolvesNoise
from dpsgd.errors import ConfigError

RELATION: Relation = "add_or_remove_one"
ACCOUNTANTS: dict[str, SolvesNoise] = {
    "pld": PLD("pld", 1e-4), "rdp": RDP("rdp", None), "prv": PRV("prv", 1e-2),
    "moments": Moments("moments"),
}  # fmt: skip
MOST = 5


@dataclass(frozen=True)
class Case:
    """T Poisson steps at rate q, to be noised for (ε, δ)."""

    epsilon: float
    q: float
    steps: int
    delta: float

    def event(self, sigma: float) -> DpEvent:
        """Return the steps noised with ``sigma``."""
        return poisson_gaussian(self.q, sigma, self.steps)


TIMED = (
    Case(3.0, 256 / 3636, 290, 1e-4), Case(1.0, 256 / 60_000, 14_063, 1e-5),
    Case(3.0, 256 / 60_000, 14_063, 1e-5), Case(8.0, 256 / 60_000, 14_063, 1e-5),
    Case(1.0, 4096 / 50_000, 875, 1e-5), Case(0.1, 1e-3, 10_000, 1e-6),
    Case(100.0, 0.01, 1000, 1e-5), Case(2.0, 1.0, 100, 1e-5),
)  # fmt: skip
"""Timed beside dp-accounting."""

COUNTED = tuple(
    Case(*values)
    for values in itertools.product(
        (0.01, 0.1, 1.0, 10.0, 100.0), (1e-4, 1e-2, 0.5, 1.0), (1, 100, 10_000, 100_000),
        (1e-5, 1e-10),
    )
)  # fmt: skip
"""Where evaluations are counted: the corners of what is asked for, and points between."""


class Counter(SolvesNoise):
    """An accountant that counts how often it is asked."""

    certifies: ClassVar[bool] = True

    def __init__(self, accountant: SolvesNoise) -> None:
        self.name, self.calls, self.last = accountant.name, 0, 0.0
        self._asked, self.excess = accountant.epsilon, accountant.excess

    def epsilon(self, event: DpEvent, relation: Relation, delta: float) -> float:
        """Ask, count, and keep the answer."""
        self.calls += 1
        self.last = self._asked(event, relation, delta)
        return self.last


@dataclass(frozen=True)
class Row:
    """One problem solved; ``reason`` says why an accountant refused it."""

    accountant: str
    case: Case
    evaluations: int
    sigma: float | None = None
    below: float | None = None
    seconds: float | None = None
    library_seconds: float | None = None
    library_evaluations: int | None = None
    reason: str | None = None

    @property
    def times(self) -> float | None:
        """How many times as long the library took."""
        if self.seconds is None or self.library_seconds is None:
            return None
        return self.library_seconds / self.seconds


def solved(name: str, case: Case) -> Row:
    """Solve one problem cold, and count."""
    counter = Counter(ACCOUNTANTS[name])
    start = time.process_time()
    try:
        sigma = counter.calibrate(case.event, RELATION, case.epsilon, case.delta)
    except ConfigError as error:
        return Row(name, case, counter.calls, reason=error.allowed)
    seconds = time.process_time() - start
    return Row(name, case, counter.calls, sigma, 1 - counter.last / case.epsilon, seconds)


def beside_the_library(row: Row) -> Row:
    """Time dp-accounting's calibration of the same problem with its PLD accountant."""
    if row.sigma is None:
        return row
    case, calls = row.case, 0

    def event(sigma: float) -> DpEvent:
        nonlocal calls
        calls += 1
        return case.event(sigma)

    # Its tolerance is one in σ: the one that answers to the same tolerance in ε.
    slope = _slope(row)
    start = time.process_time()
    dp_accounting.calibrate_dp_mechanism(
        PLDAccountant, event, case.epsilon, case.delta, tol=row.sigma * TOLERANCE / slope
    )
    seconds = time.process_time() - start
    return replace(row, library_seconds=seconds, library_evaluations=calls)


def _slope(row: Row) -> float:
    """Return −d log ε / d log σ, at least 1/2."""
    sigma, case = row.sigma or 1.0, row.case
    rdp = ACCOUNTANTS["rdp"]
    a, b = (rdp.epsilon(case.event(s), RELATION, case.delta) for s in (sigma, 1.02 * sigma))
    return max(0.5, math.log(a / b) / math.log(1.02))


def main() -> None:
    chosen = _arguments()
    timed = [] if chosen.no_library else [beside_the_library(solved("pld", c)) for c in TIMED]
    print("\n".join(_timed(timed)))
    counted: list[Row] = []
    for name in chosen.accountants:
        rows = [solved(name, case) for case in COUNTED[:: chosen.every]]
        counted += rows
        print(_counted(name, rows), flush=True)
    content = {
        "tolerance": TOLERANCE,
        "timed": [_json(row) for row in timed], "counted": [_json(row) for row in counted],
    }  # fmt: skip
    write_document(chosen.out, "benchmarks.solve", content)


def _timed(rows: list[Row]) -> list[str]:
    if not rows:
        return []
    head = f"{'ε':>6} {'q':>9} {'T':>6} {'δ':>6} {'σ':>8} {'evals':>5} {'low':>7} {'CPU s':>6}"
    lines = [head + f" {'library':>8} {'evals':>5} {'times':>6}"]
    lines += [
        f"{r.case.epsilon:>6g} {r.case.q:>9.3g} {r.case.steps:>6} {r.case.delta:>6.0e} "
        f"{r.sigma:>8.4g} {r.evaluations:>5} {r.below:>7.0e} {r.seconds:>6.2f} "
        f"{r.library_seconds:>8.2f} {r.library_evaluations:>5} {r.times:>6.1f}"
        for r in rows
        if r.sigma is not None
    ]
    return [*lines, ""]


def _counted(name: str, rows: list[Row]) -> str:
    done = [row for row in rows if row.sigma is not None]
    counts = [row.evaluations for row in done]
    over = [row for row in done if row.evaluations > MOST]
    text = (
        f"{name:8} {len(done)} solved, {len(rows) - len(done)} refused; evaluations: median "
        f"{statistics.median(counts):g}, most {max(counts)}, above {MOST}: {len(over)}"
    )
    worst = [f"         {asdict(row.case)}: {row.evaluations}" for row in over]
    return "\n".join([text, *worst])


def _json(row: Row) -> dict[str, Any]:
    found = asdict(row) | {"times": row.times}
    return {
        key: float(f"{value:.5g}") if isinstance(value, float) else value
        for key, value in found.items()
        if value is not None
    }


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.solve", description=__doc__)
    add = parser.add_argument
    add("--accountants", nargs="*", choices=list(ACCOUNTANTS), default=list(ACCOUNTANTS))
    add("--every", type=int, default=1, help="count only every so many of the problems")
    add("--no-library", action="store_true", help="leave dp-accounting's own calibration out")
    add("--out", type=Path, default=Path("benchmarks/solve.json"), help="where the JSON goes")
    return parser.parse_args()


if __name__ == "__main__":
    main()
