"""Words beside points, none over another: where there is no room for one, it is left out."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from matplotlib.axes import Axes

from analysis import style
from analysis.figures.sheet import LINE
from analysis.lettering import width

_MARK, _GAP = 0.05, 0.02
_GROUND = {"facecolor": style.PAPER, "edgecolor": "none", "alpha": 0.75, "pad": 0.4}
_Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class Labels:
    """Room in axes whose limits are set; ``points`` ``[n, 2]`` in data are kept free of words."""

    axes: Axes
    points: np.ndarray
    _taken: list[_Box] = field(default_factory=list)

    def write(self, point: tuple[float, float], text: str, colour: str, gid: str) -> bool:
        """Write above, below or beside a point, whichever is free; False where nothing is."""
        x, y = self._inches(np.array([point]))[0]
        wide, high = width(text, style.TEXT), LINE * style.TEXT
        up, over = _MARK + _GAP + high / 2, _MARK + _GAP + wide / 2
        for dx, dy in ((0, up), (0, -up), (over, 0), (-over, 0), (over, up), (-over, up),
                       (over, -up), (-over, -up)):  # fmt: skip
            if self._write((x + dx, y + dy), (wide, high), text, (colour, gid)):
                return True
        return False

    def corner(self, text: str, colour: str, gid: str) -> None:
        """Write in the corner that has room; above the axes where none has."""
        wide, high = width(text, style.TEXT), LINE * style.TEXT
        right, top = self._size
        edge = _MARK
        for x in (right - wide / 2 - edge, wide / 2 + edge):
            for y in (top - high / 2 - edge, high / 2 + edge):
                if self._write((x, y), (wide, high), text, (colour, gid)):
                    return
        self._text((right - wide / 2, top + high / 2), text, colour, gid)

    def _write(
        self, middle: tuple[float, float], size: tuple[float, float], text: str,
        looks: tuple[str, str],
    ) -> bool:  # fmt: skip
        (x, y), (wide, high) = middle, size
        box = x - wide / 2, x + wide / 2, y - high / 2, y + high / 2
        right, top = self._size
        marks = [(x - _MARK, x + _MARK, y - _MARK, y + _MARK) for x, y in self._inches(self.points)]
        inside = box[0] >= 0 and box[1] <= right and box[2] >= 0 and box[3] <= top
        if not inside or any(_meet(box, other) for other in (*self._taken, *marks)):
            return False
        self._taken.append(box)
        self._text(middle, text, *looks)
        return True

    def _text(self, middle: tuple[float, float], text: str, colour: str, gid: str) -> None:
        right, top = self._size
        self.axes.text(middle[0] / right, middle[1] / top, text, transform=self.axes.transAxes,
                       ha="center", va="center", fontsize=style.TEXT, color=colour, gid=gid,
                       zorder=5, bbox=_GROUND)  # fmt: skip

    @property
    def _size(self) -> tuple[float, float]:
        place = self.axes.get_position()
        wide, high = self.axes.get_figure(root=True).get_size_inches()  # pyright: ignore[reportOptionalMemberAccess]
        return place.width * wide, place.height * high

    def _inches(self, points: np.ndarray) -> np.ndarray:
        (left, right), (low, high) = self.axes.get_xlim(), self.axes.get_ylim()
        return (points - [left, low]) / [right - left, high - low] * self._size


def _meet(one: _Box, two: _Box) -> bool:
    return one[0] < two[1] and two[0] < one[1] and one[2] < two[3] and two[2] < one[3]


def within(values: np.ndarray) -> tuple[float, float]:
    """Return the smallest and the largest of values without those that lie far from the rest: three
    times as far beyond the middle half as that half is wide, and .1 at least.
    """
    low, high = np.percentile(values, [25, 75])
    far = max(3 * (high - low), 0.1)
    near = values[(values >= low - far) & (values <= high + far)]
    return float(near.min()), float(near.max())
