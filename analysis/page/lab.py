"""The volume-knob lab's formulas: what clipping and noise do to a cloud of per-example gradients.

``assets/lab.js`` holds the same formulas; a browser test compares every read-out. A cloud is a
sample of gradients in a plane, spanned by a common and a rare direction. Everything is a mean over
the cloud, so that batch and steps matter to noise and ε alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

RECORDS = 50_000
DELTA = 1e-6
DIMENSIONS = 1000
POINTS = 400

_SPREAD_COMMON, _SPREAD_RARE = 0.35, 0.3
_STABILITY, _PSAC = 0.01, 0.1

Point = tuple[float, float]


@dataclass(frozen=True)
class Setting:
    """Where the sliders stand. ``share`` is of the cloud, ``strength`` the rare group's norm."""

    rule: str
    clip_norm: float
    sigma: float
    steps: int
    batch: int
    share: float
    strength: float
    seed: int


@dataclass(frozen=True)
class Cloud:
    """Gradients ``[points]`` with their norms; ``rare`` marks the group that is looked after, and
    ``weights`` say how many units each stands for (None: as many as any other).
    """

    points: Sequence[Point]
    norms: Sequence[float]
    rare: Sequence[bool]
    weights: Sequence[float] | None = None


def uniforms(seed: int) -> Iterator[float]:
    """Yield numbers in (0, 1), the same in every language: a 32-bit linear congruence, mixed."""
    state = seed % 2**32
    while True:
        state = (state * 1_664_525 + 1_013_904_223) % 2**32
        mixed = state ^ (state >> 15)
        mixed = (mixed * 0x2C1B3C6D) % 2**32
        mixed ^= mixed >> 12
        yield (mixed + 0.5) / 2**32


def normals(seed: int) -> Iterator[float]:
    """Yield standard normal numbers by Box and Muller, two from two uniforms."""
    stream = uniforms(seed)
    while True:
        length = math.sqrt(-2 * math.log(next(stream)))
        angle = 2 * math.pi * next(stream)
        yield length * math.cos(angle)
        yield length * math.sin(angle)


def synthetic(setting: Setting) -> Cloud:
    """Return the cloud: the common group around (1, 0), the rare one around (0, strength)."""
    stream = normals(setting.seed)
    rare = max(1, math.floor(setting.share * POINTS + 0.5))
    points: list[Point] = []
    for place in range(POINTS):
        one, two = next(stream), next(stream)
        if place < rare:
            wide = _SPREAD_RARE * math.sqrt(setting.strength)
            points.append((wide * one, setting.strength + wide * two))
        else:
            points.append((1 + _SPREAD_COMMON * one, _SPREAD_COMMON * two))
    norms = [math.hypot(*point) for point in points]
    return Cloud(points, norms, [place < rare for place in range(POINTS)])


def clipped(cloud: Cloud, rule: str, clip_norm: float) -> list[Point]:
    """Return every gradient after clipping. ``per_layer`` takes each direction for a layer of its
    own, at C/√2; all other rules weigh the whole gradient by its norm.
    """
    if rule == "per_layer":
        each = clip_norm / math.sqrt(2)
        return [(x * _shrink(abs(x), each), y * _shrink(abs(y), each)) for x, y in cloud.points]
    weigh = WEIGHTS[rule]
    weights = [weigh(norm, clip_norm) for norm in cloud.norms]
    return [(x * w, y * w) for (x, y), w in zip(cloud.points, weights, strict=True)]


def readouts(setting: Setting, cloud: Cloud) -> dict[str, float]:
    """Return the numbers below the lab, by name.

    ``bias`` is |clipped − raw|/|raw| of the means and ``cosine`` the angle between them;
    ``kept_rare`` what the clipped mean has of the raw mean along the rare group's own mean, and
    ``kept_common`` along the other group's; ``noise_norm`` is the noise's in ``DIMENSIONS``
    coordinates; ``signal_to_noise`` is |clipped mean| over it; ``rare_after`` the summed signal
    over the summed noise along the rare direction after all steps; ``epsilon`` is
    ``rough_epsilon``.
    """
    after = clipped(cloud, setting.rule, setting.clip_norm)
    raw, kept = mean(cloud.points, cloud.weights), mean(after, cloud.weights)
    deviation = noise_deviation(setting)
    noise = deviation * math.sqrt(DIMENSIONS)
    rare, common = _direction(cloud, of_rare=True), _direction(cloud, of_rare=False)
    return {
        "bias": _ratio(math.dist(kept, raw), math.hypot(*raw)),
        "cosine": _ratio(_dot(kept, raw), math.hypot(*kept) * math.hypot(*raw)),
        "kept_rare": _ratio(_dot(kept, rare), _dot(raw, rare)),
        "kept_common": _ratio(_dot(kept, common), _dot(raw, common)),
        "noise_norm": noise,
        "signal_to_noise": _ratio(math.hypot(*kept), noise),
        "rare_after": _ratio(_dot(kept, rare) * math.sqrt(setting.steps), deviation),
        "epsilon": rough_epsilon(setting),
    }


def noise_deviation(setting: Setting) -> float:
    """Return the noise's standard deviation in one coordinate of the mean: σ·C/batch."""
    return setting.sigma * setting.clip_norm / setting.batch


def noisy(setting: Setting, point: Point, draw: int) -> Point:
    """Return a mean after the noise of one step, a new one for each ``draw``."""
    stream = normals(setting.seed + 7919 * (draw + 1))
    deviation = noise_deviation(setting)
    return point[0] + deviation * next(stream), point[1] + deviation * next(stream)


def rough_epsilon(setting: Setting) -> float:
    """Return min_α T·q²α/(2σ²) + ln(1/δ)/(α − 1), at its best real order; no bound.

    With a = T·q²/(2σ²) that is a + 2·√(a·ln(1/δ)). For small q and large σ only.
    """
    a = setting.steps * (setting.batch / RECORDS / setting.sigma) ** 2 / 2
    return a + 2 * math.sqrt(a * math.log(1 / DELTA))


def mean(points: Sequence[Point], weights: Sequence[float] | None = None) -> Point:
    """Return the mean of points, by their weights if there are any; (0, 0) of none."""
    by = [1.0] * len(points) if weights is None else weights
    count = sum(by) or 1.0
    both = list(zip(points, by, strict=True))
    return sum(x * w for (x, _), w in both) / count, sum(y * w for (_, y), w in both) / count


def _shrink(norm: float, bound: float) -> float:
    return min(1.0, bound / norm) if norm > 0 else 1.0


WEIGHTS: dict[str, Callable[[float, float], float]] = {
    "flat": _shrink,
    "automatic": lambda norm, bound: bound / (norm + _STABILITY),
    "normalise": lambda norm, bound: bound / norm if norm > 0 else 0.0,
    "psac": lambda norm, bound: bound / (norm + _PSAC / (norm + _PSAC)),
}
"""A gradient's weight from its norm and C: flat (Abadi et al., 2016), AUTO-S with γ = 0.01 and
AUTO-V (Bu et al., 2023), PSAC with r = 0.1 (Xia et al., 2023)."""

RULES = (*WEIGHTS, "per_layer")


def _direction(cloud: Cloud, *, of_rare: bool) -> Point:
    """Return the unit vector of a group's raw mean; (0, 0) where there is none."""
    own = [point for point, rare in zip(cloud.points, cloud.rare, strict=True) if rare == of_rare]
    centre = mean(own)
    length = math.hypot(*centre)
    return (centre[0] / length, centre[1] / length) if length > 0 else (0.0, 0.0)


def _dot(one: Point, other: Point) -> float:
    return one[0] * other[0] + one[1] * other[1]


def _ratio(above: float, below: float) -> float:
    return above / below if below != 0 else math.nan
