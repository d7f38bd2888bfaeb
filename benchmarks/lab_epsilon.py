"""``python -m benchmarks.lab_epsilon``: the certified ε that the page's lab shows beside its own.

Writes ``analysis/page/assets/lab_epsilon.json``: PLD's ε for every σ, batch and number of steps
that the lab's sliders have, at its N and δ (add or remove one record, Poisson batches). null where
ε is above ``MOST``. About ten minutes on one core.
"""

from __future__ import annotations

import json
from pathlib import Path

from analysis.page.lab import DELTA, RECORDS
from dpsgd.accounting import PLD, poisson_gaussian
from dpsgd.accounting.estimates import gdp

FILE = Path(__file__).resolve().parents[1] / "analysis" / "page" / "assets" / "lab_epsilon.json"
SIGMAS = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0, 8.0)
BATCHES = (64, 128, 256, 512, 1024, 2048, 4096)
STEPS = (100, 200, 500, 1000, 2000, 5000, 10_000, 20_000)
MOST = 50.0


def main() -> None:
    """Write the table, σ by σ, batch by batch, steps by steps."""
    table = [
        [[certified(sigma, batch, steps) for steps in STEPS] for batch in BATCHES]
        for sigma in SIGMAS
    ]
    content = {
        "accountant": "pld",
        "sigmas": SIGMAS,
        "batches": BATCHES,
        "steps": STEPS,
        "epsilon": table,
    }
    FILE.write_text(json.dumps(content) + "\n", encoding="utf-8")
    print(f"{FILE}: {len(SIGMAS) * len(BATCHES) * len(STEPS)} entries")


def certified(sigma: float, batch: int, steps: int) -> float | None:
    """Return PLD's ε, rounded up to 4 digits, or None above ``MOST``."""
    q = batch / RECORDS
    if gdp(q, sigma, steps, DELTA) > 1.5 * MOST:  # far outside: not worth a grid that wide
        return None
    event = poisson_gaussian(q, sigma, steps)
    epsilon = PLD("pld", 1e-4).epsilon(event, "add_or_remove_one", DELTA)
    return rounded_up(epsilon) if epsilon <= MOST else None


def rounded_up(epsilon: float) -> float:
    """Return ε with 4 significant digits, never below it."""
    near = float(f"{epsilon:.4g}")
    if near >= epsilon:
        return near
    exponent = int(f"{epsilon:.0e}".split("e")[1])
    return float(f"{near + 10.0 ** (exponent - 3):.4g}")


if __name__ == "__main__":
    main()
