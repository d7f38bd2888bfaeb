"""The charts of the panel of one cell: norms before and after clipping, and the diagram."""

from __future__ import annotations

from typing import Any

import altair as alt

from analysis.page.layers import framed

_TICKS = [0, *(step * 10.0**power for power in range(-2, 6) for step in (1, 3))]


def norms_chart() -> alt.LayerChart:
    """Return quantiles of norms over training, before and after clipping, and the threshold."""
    data = alt.Chart(alt.NamedData(name="norms"))
    x = alt.X("step:Q", title="step", axis=alt.Axis(grid=False, tickCount=5))
    colour = alt.Color("colour:N", scale=None)
    scale = alt.Scale(type="symlog", constant=0.05, nice=True)
    title = "gradient norm"
    by: dict[str, Any] = {"color": colour, "detail": "side:N"}
    axis = alt.Axis(values=_TICKS, labelExpr="format(datum.value, '~g')", labelOverlap=True)
    wide = data.mark_area(opacity=0.14, aria=False).encode(
        x=x, y=alt.Y("q10:Q", title=title, scale=scale, axis=axis), y2="q90:Q", **by
    )
    half = data.mark_area(opacity=0.26, aria=False).encode(
        x=x, y=alt.Y("q25:Q", title=title, scale=scale, axis=axis), y2="q75:Q", **by
    )
    median = data.mark_line(strokeWidth=2, point=True, aria=False).encode(
        x=x, y=alt.Y("q50:Q", title=title, scale=scale, axis=axis), **by
    )
    threshold = (
        alt.Chart(alt.NamedData(name="threshold"))
        .mark_line(strokeDash=[5, 3], strokeWidth=1.5, aria=False)
        .encode(x=x, y=alt.Y("value:Q", title=title, scale=scale, axis=axis), color=colour)
    )
    return framed(240, wide, half, median, threshold)


def reliability_chart() -> alt.LayerChart:
    """Return accuracy against confidence in bins, with intervals, beside the diagonal."""
    data = alt.Chart(alt.NamedData(name="reliability"))
    zero_to_one = alt.Scale(domain=[0, 1], nice=False)
    axis = alt.Axis(values=[0, 0.25, 0.5, 0.75, 1], labelExpr="datum.value")
    x = alt.X("confidence:Q", title="confidence", scale=zero_to_one, axis=axis)
    y = alt.Y("accuracy:Q", title="accuracy", scale=zero_to_one, axis=axis)
    colour = alt.Color("colour:N", scale=None)
    diagonal = (
        alt.Chart(alt.NamedData(name="diagonal"))
        .mark_line(strokeDash=[3, 3], strokeWidth=1.2, aria=False)
        .encode(x=x, y=y, color=colour)
    )
    bars = data.mark_rule(strokeWidth=1.5, aria=False).encode(
        x=x, y=alt.Y("low:Q", title="accuracy"), y2="high:Q", color=colour
    )
    points = data.mark_circle(opacity=1, aria=False).encode(
        x=x,
        y=y,
        color=colour,
        size=alt.Size("n:Q", scale=alt.Scale(type="sqrt", range=[18, 260], zero=True), legend=None),
    )
    return framed(240, diagonal, bars, points)
