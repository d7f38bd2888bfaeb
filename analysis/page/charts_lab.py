"""The charts of the lab: the cloud of gradients before and after clipping, and the update.

Both axes of a chart have one scale, so that a circle is round and an angle an angle.
"""

from __future__ import annotations

import altair as alt

from analysis.page.layers import framed

_HEIGHT = 320
_X = alt.Axis(title="common direction", tickCount=5, labelExpr="format(datum.value, '~g')")
_Y = alt.Axis(title="rare direction", tickCount=5, labelExpr="format(datum.value, '~g')")


def cloud_chart() -> alt.LayerChart:
    """Return per-example gradients: faint before clipping, full after, with the bound C."""
    x = alt.X("x:Q", axis=_X, scale=alt.Scale(nice=False, zero=False))
    y = alt.Y("y:Q", axis=_Y, scale=alt.Scale(nice=False, zero=False))
    colour = alt.Color("colour:N", scale=None)
    before = (
        alt.Chart(alt.NamedData(name="before"))
        .mark_circle(size=16, opacity=0.28, aria=False)
        .encode(x=x, y=y, color=colour)
    )
    after = (
        alt.Chart(alt.NamedData(name="after"))
        .mark_circle(size=16, opacity=0.85, aria=False)
        .encode(x=x, y=y, color=colour)
    )
    bound = (
        alt.Chart(alt.NamedData(name="bound"))
        .mark_line(strokeWidth=1.5, strokeDash=[4, 3], aria=False)
        .encode(x=x, y=y, order="order:Q", color=colour)
    )
    return framed(_HEIGHT, _corners(), before, after, bound)


def update_chart() -> alt.LayerChart:
    """Return the arrows of the raw, clipped and noisy mean, and where other draws of noise end."""
    x = alt.X("x:Q", axis=_X, scale=alt.Scale(nice=False, zero=False))
    y = alt.Y("y:Q", axis=_Y, scale=alt.Scale(nice=False, zero=False))
    colour = alt.Color("colour:N", scale=None)
    arrows = alt.Chart(alt.NamedData(name="arrows"))
    draws = (
        alt.Chart(alt.NamedData(name="draws"))
        .mark_circle(size=12, opacity=0.35, aria=False)
        .encode(x=x, y=y, color=colour)
    )
    shafts = arrows.mark_rule(strokeWidth=2.5, aria=False).encode(
        x=x, y=y, x2="x2:Q", y2="y2:Q", color=colour
    )
    heads = arrows.mark_point(
        shape="triangle-up", filled=True, size=110, opacity=1, aria=False
    ).encode(
        x=alt.X("x2:Q", axis=_X),
        y=alt.Y("y2:Q", axis=_Y),
        color=colour,
        angle=alt.Angle("angle:Q", scale=None),
    )
    return framed(_HEIGHT, _corners(), draws, shafts, heads)


def _corners() -> alt.Chart:
    """Return two invisible points that make both axes span what the page wants: equal scales."""
    return (
        alt.Chart(alt.NamedData(name="corners"))
        .mark_point(opacity=0, size=1, aria=False)
        .encode(x=alt.X("x:Q", axis=_X), y=alt.Y("y:Q", axis=_Y))
    )
