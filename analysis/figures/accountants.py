"""What every accountant says of the same training: one row an accountant, one mark an ε."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from analysis import style
from analysis.figures.scales import logarithmic
from analysis.figures.sheet import label, note, write_title
from analysis.wording import epsilon_text

_MARKERS = ("o", "s", "^", "D", "v", "P")
_NAMES = {
    "pld": "PLD",
    "rdp": "RDP",
    "prv": "PRV",
    "moments": "moments",
    "gdp": "GDP (CLT)",
    "small_q": "small-q RDP",
    "textbook": "textbook RDP",
}


def draw_accountants(axes: Axes, named: pd.DataFrame, ledgers: pd.DataFrame, title: str) -> None:
    """Draw ε by accountant of every training that differs in σ, sampling, steps or δ.

    Bounds are filled, a line at the certified one; estimates, which certify nothing, are hollow.
    """
    write_title(axes, title)
    if ledgers.empty:
        note(axes, "no private run has a readable ledger.json")
        return
    finite = ledgers.loc[np.isfinite(ledgers["epsilon"].to_numpy(float)), :]
    of_bound = finite.groupby("accountant")["bound"].max()
    middle = finite.groupby("accountant")["epsilon"].median()
    order = sorted(middle.index, key=lambda name: (bool(of_bound[name]), -float(middle[name])))
    shown = named.set_index("run_key")["shown_epsilon"]
    keys = sorted(finite["run_key"].unique(), key=lambda key: float(shown[key]))  # pyright: ignore[reportArgumentType]
    for place, key in enumerate(keys):
        own = finite.loc[finite["run_key"] == key].set_index("accountant")
        _training(axes, own, order, _MARKERS[place % len(_MARKERS)], epsilon_text(shown[key]))  # pyright: ignore[reportArgumentType]
    axes.set(xscale="log", ylim=(-0.6, len(order) + 0.1))
    axes.set_yticks(range(len(order)), [_NAMES.get(name, name) for name in order])  # pyright: ignore[reportArgumentType]
    values = finite["epsilon"].to_numpy(float)
    axes.set_xlim(values.min() / 1.12, values.max() * 1.12)  # an axis shows two round numbers
    logarithmic(axes.xaxis, axes.get_xlim(), most=9)
    axes.grid(axis="x", color=style.GRID, linewidth=0.6)
    label(axes, x="ε at the same δ")


def _training(axes: Axes, own: pd.DataFrame, order: list[str], marker: str, told: str) -> None:
    certified = _certified(own)
    for accountant, row in own.iterrows():
        y = order.index(str(accountant))
        face = style.INK if row["bound"] else style.PAPER  # pyright: ignore[reportGeneralTypeIssues]
        axes.plot([row["epsilon"]], [y], marker=marker, color=style.INK, markersize=4.5, zorder=3,
                  markerfacecolor=face, gid=str(accountant))  # fmt: skip
    if np.isfinite(certified):
        axes.axvline(certified, color=style.MUTED, linewidth=0.8, zorder=1, gid="certified")
        axes.annotate(told, (certified, 1), xycoords=axes.get_xaxis_transform(),
                      xytext=(2, -1), textcoords="offset points", va="top",
                      fontsize=style.TEXT, color=style.MUTED)  # fmt: skip


def _certified(own: pd.DataFrame) -> float:
    told = own.loc[own["certified"].astype(bool), "epsilon"]
    return float(told.iloc[0]) if len(told) else float("nan")
