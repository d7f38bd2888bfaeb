"""Where a falling function crosses zero: secant steps inside a bracket that holds."""

from __future__ import annotations

import math

_STRIDE = 1.0
_LEAST_STRIDE = 1e-3
_PATIENCE = 3


class Bracket:
    """The evaluated points of a function that falls with x, and the next x to try."""

    def __init__(self) -> None:
        self.low = -math.inf
        self.high = math.inf
        self._points: list[tuple[float, float]] = []
        self._widths: list[float] = []

    @property
    def width(self) -> float:
        """The length of the interval that is known to hold the root; inf while it is open."""
        return self.high - self.low

    def add(self, x: float, y: float) -> None:
        """Note that the function is ``y`` (maybe ±inf) at ``x``."""
        if y >= 0:
            self.low = max(self.low, x)
        else:
            self.high = min(self.high, x)
        self._widths.append(self.width)
        if math.isfinite(y):
            self._points.append((x, y))

    def propose(self) -> float:
        """Return an x inside the bracket: a secant step, or the middle where those stall."""
        middle = self._middle()
        if self._stalls():
            return middle
        guess = self._secant()
        inside = guess is not None and self.low < guess < self.high
        return guess if guess is not None and inside else middle

    def _middle(self) -> float:
        if math.isinf(self.width):
            return self._outward()
        return 0.5 * (self.low + self.high)

    def _outward(self) -> float:
        """Return a point beyond the open end: near if the value is near zero, farther each try."""
        stride = _STRIDE
        if self._points:
            nearest = min(abs(y) for _, y in self._points)
            patience = _LEAST_STRIDE * 2.0 ** len(self._widths)
            stride = min(stride, max(patience, 2 * nearest))
        return self.high - stride if math.isinf(self.low) else self.low + stride

    def _stalls(self) -> bool:
        if len(self._widths) <= _PATIENCE:
            return False
        before = self._widths[-1 - _PATIENCE]
        return math.isinf(self.width) or self.width > 0.5 * before

    def _secant(self) -> float | None:
        """Return where the line through the two points nearest to zero crosses it."""
        if len(self._points) < 2:
            return None
        (x0, y0), (x1, y1) = sorted(self._points, key=lambda point: abs(point[1]))[:2]
        slope = (y1 - y0) / (x1 - x0) if x1 != x0 else 0.0
        if slope >= 0:
            return None
        step = -y0 / slope
        limit = 2 * _STRIDE
        return x0 + max(-limit, min(limit, step))
