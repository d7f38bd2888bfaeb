"""What the charts of the page share: layers on top of one another, and the size of a frame."""

from __future__ import annotations

from typing import cast

import altair as alt


def layered(*charts: alt.Chart) -> alt.LayerChart:
    """Return charts on top of one another."""
    return cast(alt.LayerChart, alt.layer(*charts))


def framed(height: int, *charts: alt.Chart) -> alt.LayerChart:
    """Return layers as wide as the element that holds them, and ``height`` pixels high."""
    return layered(*charts).properties(
        width="container", height=height, autosize={"type": "fit-x", "contains": "padding"}
    )
