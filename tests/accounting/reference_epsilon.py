"""ε by brute force, from densities alone: slow, small, and shared with no accountant.

A mechanism is a pair of densities, those of a step's noised sum under two neighbours, as mixtures
of N(mean, σ²) in one dimension. Its privacy loss is tabulated, rounded to a grid and convolved.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import optimize, stats

GRID, SIZE = 2e-4, 2**18
ORDERS = np.concatenate([np.linspace(1.1, 12, 80), np.linspace(12.5, 64, 40)])


def pairs(scheme, relation, sigma):
    """Return [(weight, P, Q)]: which pair a step is of is drawn with these weights, and seen.

    P and Q are lists of (probability, mean), in units of the noise's σ; add-or-remove-one and
    zero-out have unit distance, replace-one twice that.
    """
    name, *given = scheme
    if name == "poisson":
        return [(1.0, *_drawn(given[0], relation, sigma))]
    if name == "full":
        return [(1.0, *_drawn(1.0, relation, sigma))]
    if name == "truncated":
        n, q, cap = given
        # Of n - 1 others, k have drawn a place; from the cap on, ours is one of cap in k + 1.
        k = np.arange(n)
        chance = stats.binom.pmf(k, n - 1, q)
        full = float(chance[k >= cap].sum())
        inside = float((chance * q * cap / (k + 1))[k >= cap].sum() / full)
        swapped = (
            [(1 - inside, 0.0), (inside, 2 / sigma)],
            [(1 - inside, 0.0), (inside, -2 / sigma)],
        )
        return [(1 - full, *_drawn(q, relation, sigma)), (full, *swapped)]
    if name == "users":
        most, q = given
        counts = range(most + 1)
        return [(1.0, [(math.comb(most, k) * q**k * (1 - q) ** (most - k), k / sigma)
                       for k in counts], [(1.0, 0.0)])]  # fmt: skip
    raise KeyError(name)


def hockey_stick_epsilon(steps_of_pairs, steps, delta):
    """Return ε of ``steps`` such steps: the larger of the two directions."""
    return max(
        _epsilon([(w, *(pq if forward else pq[::-1])) for w, *pq in steps_of_pairs], steps, delta)
        for forward in (True, False)
    )


def renyi_epsilon(steps_of_pairs, steps, delta, conversion):
    """Return ε by Rényi DP, the larger of the two directions at every order."""
    ((_, p, q),) = steps_of_pairs
    x = np.linspace(-60, 100, 8_001)
    logs = _log_density(p, x), _log_density(q, x)
    found = []
    for order in ORDERS:
        both = [np.logaddexp.reduce(order * a + (1 - order) * b) for a, b in (logs, logs[::-1])]
        renyi = steps * max(np.array(both) + math.log(x[1] - x[0])) / (order - 1)
        if conversion == "old":
            found.append(renyi + math.log(1 / delta) / (order - 1))
        else:  # Canonne, Kamath and Steinke (2020), Proposition 12
            found.append(renyi + math.log1p(-1 / order) - math.log(delta * order) / (order - 1))
    return min(found)


def gaussian_epsilon(mu, delta):
    """Return ε of one Gaussian release of distance μ: Balle and Wang (2018), Theorem 8."""

    def excess(epsilon):
        upper, lower = stats.norm.cdf(mu / 2 - epsilon / mu), stats.norm.cdf(-mu / 2 - epsilon / mu)
        return upper - math.exp(epsilon) * lower - delta

    return optimize.brentq(excess, 0.0, mu * mu + 20 * mu)


def _drawn(q, relation, sigma):
    ours, other = [(1 - q, 0.0), (q, 1 / sigma)], [(1 - q, 0.0), (q, -1 / sigma)]
    return (ours, other) if relation == "replace_one" else (ours, [(1.0, 0.0)])


def _log_density(mixture, x):
    with np.errstate(divide="ignore"):
        logs = [np.log(p) - 0.5 * (x - mean) ** 2 for p, mean in mixture]
    return np.logaddexp.reduce(logs) - 0.5 * math.log(2 * math.pi)


def _epsilon(weighted, steps, delta):
    losses, masses = [], []
    x = np.linspace(-14, 16, 120_001)
    for weight, p, q in weighted:
        log_p = _log_density(p, x)
        losses.append(log_p - _log_density(q, x))
        masses.append(weight * np.exp(log_p) * (x[1] - x[0]))
    loss, mass = np.concatenate(losses), np.concatenate(masses)
    loss, mass = loss[mass > 1e-16], mass[mass > 1e-16]
    # Each mass is shared between its two neighbours on the grid, which keeps its mean.
    low = np.floor(loss / GRID)
    share = loss / GRID - low
    one = np.zeros(SIZE)
    np.add.at(one, low.astype(int) % SIZE, mass * (1 - share))
    np.add.at(one, (low.astype(int) + 1) % SIZE, mass * share)
    total = np.fft.irfft(np.fft.rfft(one) ** steps, SIZE)
    values = np.fft.fftfreq(SIZE, 1 / SIZE) * GRID  # losses beyond ±26 nats are too rare to matter

    def excess(epsilon):
        over = values > epsilon
        return float((total[over] * -np.expm1(epsilon - values[over])).sum()) - delta

    return 0.0 if excess(0.0) <= 0 else optimize.brentq(excess, 0.0, 25.0)
