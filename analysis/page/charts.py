"""The charts of the page as Vega-Lite, by name. Data are given by the page, under these names too.

Positions, colours and letters of the tiles are columns of the data (``scale=None``): the page lays
them out for the width that it has, and one colour means the same in every chart.
"""

from __future__ import annotations

from typing import Any

import altair as alt

from analysis.page.charts_lab import cloud_chart, update_chart
from analysis.page.charts_panel import norms_chart, reliability_chart
from analysis.page.layers import framed, layered

_FAINT = 0.16


def charts() -> dict[str, dict[str, Any]]:
    """Return every chart's specification, without data."""
    made = {
        "map": map_chart(),
        "curves": curves_chart(),
        "scatter": scatter_chart(),
        "norms": norms_chart(),
        "reliability": reliability_chart(),
        "cloud": cloud_chart(),
        "update": update_chart(),
    }
    return {name: chart.to_dict() for name, chart in made.items()}


def map_chart() -> alt.LayerChart:
    """Return tiles with numbers, and the names of rows and columns around them, in pixels."""
    tiles = alt.Chart(alt.NamedData(name="tiles"))
    box = {
        "x": alt.X("x:Q", scale=None, axis=None),
        "x2": alt.X2("x2:Q"),
        "y": alt.Y("y:Q", scale=None, axis=None),
        "y2": alt.Y2("y2:Q"),
    }
    rect = tiles.mark_rect(cursor="pointer", aria=False, cornerRadius=2).encode(
        **box, color=alt.Color("fill:N", scale=None), opacity=_when_row(1.0, 0.72)
    )
    numbers = (
        tiles.transform_filter("datum.text != ''")
        .mark_text(aria=False, cursor="pointer", fontSize=11, baseline="middle")
        .encode(
            x=alt.X("xm:Q", scale=None, axis=None),
            y=alt.Y("ym:Q", scale=None, axis=None),
            text="text:N",
            color=alt.Color("ink:N", scale=None),
            opacity=_when_row(1.0, 0.8),
        )
    )
    cursor = (
        alt.Chart(alt.NamedData(name="cursor"))
        .mark_rect(filled=False, strokeWidth=2.5, aria=False, cornerRadius=3)
        .encode(**box, stroke=alt.Stroke("stroke:N", scale=None))
    )
    frames = (
        alt.Chart(alt.NamedData(name="frames"))
        .mark_rect(filled=False, strokeWidth=1.5, aria=False, cornerRadius=3)
        .encode(**box, stroke=alt.Stroke("stroke:N", scale=None))
    )
    layers = [rect, numbers, frames, cursor, *(_labels(name) for name in _LABELS)]
    return (
        layered(*layers)
        .add_params(alt.param(name="row", value=-1))
        .properties(width=400, height=300, autosize={"type": "none"}, padding=0)
    )


_LABELS: dict[str, dict[str, Any]] = {
    "left": {"align": "left"},
    "right": {"align": "right"},
    "middle": {"align": "center"},
    "slanted": {"align": "left", "angle": 318},
}


def _labels(name: str) -> alt.Chart:
    return (
        alt.Chart(alt.NamedData(name=name))
        .mark_text(aria=False, baseline="middle", limit=alt.expr("datum.limit"), **_LABELS[name])
        .encode(
            x=alt.X("x:Q", scale=None, axis=None),
            y=alt.Y("y:Q", scale=None, axis=None),
            text="text:N",
            size=alt.Size("size:Q", scale=None),
            color=alt.Color("ink:N", scale=None),
        )
    )


def curves_chart() -> alt.LayerChart:
    """Return a metric against C, a line for each rule and guarantee, with bands over seeds.

    ``at`` is where a threshold stands, in decades; ``ticks`` are such places, with ``labels``.
    """
    data = alt.Chart(alt.NamedData(name="curves"))
    across = alt.X(
        "at:Q", scale=alt.Scale(nice=False, zero=False, padding=12), title="clipping threshold C",
        axis=alt.Axis(grid=False, labelExpr="labels[indexof(ticks, datum.value)]",
                      labelOverlap=True, values=alt.ExprRef("ticks")),
    )  # fmt: skip
    up = alt.Y("value:Q", title=None, scale=alt.Scale(zero=False, nice=True))
    by = {"color": alt.Color("colour:N", scale=None), "detail": "line:N"}
    band = data.mark_area(aria=False, tooltip=None).encode(
        x=across, y=alt.Y("low:Q", title=None), y2="high:Q", opacity=_when_line(_FAINT, 0.03), **by
    )
    line = data.mark_line(strokeWidth=2, aria=False).encode(
        x=across, y=up, strokeDash=_dash(), opacity=_when_line(1.0, 0.2), **by
    )
    point = data.mark_point(
        filled=True, size=75, opacity=1, cursor="pointer", aria=False, strokeWidth=0
    ).encode(
        x=across, y=up, shape=alt.Shape("shape:N", scale=None), opacity=_when_line(1.0, 0.2), **by
    )
    level = (
        alt.Chart(alt.NamedData(name="level"))
        .mark_rule(strokeDash=[2, 3], strokeWidth=1.5, aria=False)
        .encode(y=up, color=alt.Color("colour:N", scale=None))
    )
    return framed(235, level, band, line, point).add_params(
        alt.param(name="line", value=""),
        alt.param(name="ticks", value=[]),
        alt.param(name="labels", value=[]),
    )


def scatter_chart() -> alt.LayerChart:
    """Return the tail against the head, a point for each condition, with intervals over seeds."""
    data = alt.Chart(alt.NamedData(name="scatter"))
    x = alt.X("x:Q", title=None, scale=alt.Scale(zero=False, nice=True, padding=8))
    y = alt.Y("y:Q", title=None, scale=alt.Scale(zero=False, nice=True, padding=8))
    colour = alt.Color("colour:N", scale=None)
    bars = [
        data.mark_rule(aria=False, strokeWidth=1).encode(
            x=alt.X("xlow:Q", title=None), x2="xhigh:Q", y=y, color=colour,
            opacity=_when_row(0.35, 0.05),
        ),
        data.mark_rule(aria=False, strokeWidth=1).encode(
            x=x, y=alt.Y("ylow:Q", title=None), y2="yhigh:Q", color=colour,
            opacity=_when_row(0.35, 0.05),
        ),
    ]  # fmt: skip
    point = data.mark_point(
        size=90, cursor="pointer", aria=False, strokeWidth=1.8
    ).encode(
        x=x, y=y, color=colour, shape=alt.Shape("shape:N", scale=None),
        fill=alt.Fill("fill:N", scale=None), opacity=_when_row(1.0, 0.25),
    )  # fmt: skip
    return framed(235, *bars, point).add_params(alt.param(name="row", value=-1))


def _dash() -> alt.StrokeDash:
    return alt.StrokeDash(
        "dash:N",
        scale=alt.Scale(domain=["solid", "dashed", "dotted"], range=[[1, 0], [6, 4], [2, 3]]),
        legend=None,
    )


def _when_row(yes: float, no: float) -> Any:
    return alt.when("row < 0 || datum.row === row").then(alt.value(yes)).otherwise(alt.value(no))


def _when_line(yes: float, no: float) -> Any:
    return alt.when("line === '' || datum.line === line").then(alt.value(yes)).otherwise(
        alt.value(no)
    )  # fmt: skip
