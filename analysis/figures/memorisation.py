"""Memorisation: what leaks of whom, against ε and C and by slice, beside what the slice lost."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd
from matplotlib.figure import Figure

from analysis import schema, style
from analysis.audits import CHANCE, Audits, audits, bounds, left_out, parts
from analysis.figures import common_words
from analysis.figures.audit_panels import (
    Looks,
    against_epsilon,
    against_norm,
    beside_claim,
    bound_looks,
)
from analysis.figures.audit_strips import MOST, best_of, leaked, lost
from analysis.figures.sheet import (
    WIDE,
    Entry,
    legend,
    legend_height,
    page,
    panel,
    write_title,
)  # fmt: skip
from analysis.figures.slice_axis import SliceAxis, slice_axis
from analysis.lines import Family, family
from analysis.slices import SliceColumn
from analysis.wording import epsilon_text

_LEFT, _STEP, _PANEL, _STRIP = 0.5, 1.77, (1.26, 1.4), 0.95
_NO_CANARIES = "no cell was trained with audit=canaries"
_NO_MEMBERS = "no cell was trained with audit=membership"
_NO_COINS = "no cell was trained with audit=membership or audit=canaries"
_NO_BOUNDS = "no private cell has an audited bound"
_TOO_FEW = "1 % of the records without membership are too few to say"
_NO_AUDIT = "No cell has an audit (audit=canaries, audit=membership, audit=gradient)"


def figure(table: pd.DataFrame | Family) -> Figure:
    """Draw exposure, membership inference and audited bounds of cells of one family.

    Exposure is that of ``audit=canaries``, whose attacks are shown beside those on the members of
    ``audit=membership``.
    """
    with style.drawing():
        shown = _Shown.of(family(table))
        slices = slice_axis(shown.slices, WIDE - _LEFT - 0.1)
        top = legend_height(shown.entries) + 0.3
        second = top + _PANEL[1] + 0.66
        third = second + _PANEL[1] + 0.55
        strips = third + legend_height(shown.rules) + 0.4
        apart = _STRIP + 0.45
        drawn = page(strips + 2 * apart + _STRIP + slices.below + 0.05, _caption(shown, slices))
        legend(drawn, 0.02, shown.entries)
        _panels(drawn, shown, top, second)
        legend(drawn, third, shown.rules)
        _strips(drawn, shown, slices, (strips, apart))
        return drawn


@dataclass(frozen=True)
class _Shown:
    """What is drawn; ``kinds`` and ``parts`` are slices with their looks."""

    cells: Family
    exposure: Audits | None
    canaries: Audits | None
    members: Audits | None
    rate: Audits | None
    bounds: pd.DataFrame
    kinds: tuple[tuple[SliceColumn, Looks], ...]
    parts: tuple[tuple[SliceColumn, Looks], ...]

    @classmethod
    def of(cls, cells: Family) -> _Shown:
        columns = cells.columns
        kinds = [column for column in columns if column.kind == schema.CANARY]
        exposure = audits(cells, "exposure", "canaries")
        kinds = [one for one in kinds if exposure is not None and exposure.n(one)]
        return cls(
            cells, exposure,
            audits(cells, "membership_auc", "canaries"),
            audits(cells, "membership_auc", "membership"),
            audits(cells, "tpr_at_1pct", "canaries", "membership"),
            bounds(cells),
            tuple((one, _looks(_KINDS[i % 3], one)) for i, one in enumerate(kinds)),
            tuple((one, _looks(_PARTS[i % 4], one)) for i, one in enumerate(parts(columns))),
        )  # fmt: skip

    @property
    def slices(self) -> list[SliceColumn]:
        return [column for column in self.cells.columns if column.kind != schema.CANARY]

    @property
    def area(self) -> Audits | None:
        """The attack of the strips: on members where there are some, else on canaries."""
        return self.members or self.canaries

    @property
    def names(self) -> list[str]:
        """The rules of the strips, whichever audit has them."""
        chosen = [*best_of(self.exposure), *best_of(self.area)]
        return list(dict.fromkeys(line.name for line, _ in chosen))

    @property
    def entries(self) -> list[Entry]:
        kinds = [Entry(f"{_words(column.name)} canaries", looks) for column, looks in self.kinds]
        found = [Entry(column.name, looks) for column, looks in self.parts]
        audited = sorted(set(self.bounds["audit"]))
        own = [Entry(f"bound, audit={name}", bound_looks(name)) for name in audited]
        plain = [Entry("hollow: baseline", _HOLLOW)] if self._baselines else []
        return [*kinds, *found, *own, *plain, Entry("nothing remembered", _CHANCE)]

    @property
    def _baselines(self) -> bool:
        every = (self.exposure, self.canaries, self.members)
        return any(one is not None and one.baselines for one in every)

    @property
    def rules(self) -> list[Entry]:
        found = [Entry(name, {**style.series(place), "linestyle": ""})
                 for place, name in enumerate(self.names)]  # fmt: skip
        if any(one is not None and one.baselines for one in (self.exposure, self.area)):
            hollow = {**style.BASELINE, "linestyle": "", "markerfacecolor": style.PAPER}
            found.append(Entry("baseline (not private)", hollow))
        return found


_WHOM = {"canaries": "canaries", "membership": "members"}
_HOLLOW = {"color": style.MUTED, "marker": "o", "linestyle": "", "markerfacecolor": style.PAPER}
_CHANCE = {"color": style.MUTED, "linestyle": (0, (1, 1.5)), "marker": ""}
_KINDS = (("#7b3294", "^", "-"), ("#e69f00", "v", (0, (5, 1.5))), ("#009e73", "P", (0, (2, 1))))
_PARTS = (
    (style.INK, "o", "-"), (style.HEAD, "s", (0, (5, 1.5))), (style.TAIL, "D", (0, (2, 1))),
    ("#56b4e9", "X", (0, (5, 1.5, 1.5, 1.5))),
)  # fmt: skip


def _looks(of: tuple[str, str, object], column: SliceColumn) -> Looks:
    colour, marker, dash = of
    return {"color": colour, "marker": marker, "linestyle": dash, "gid": column.name}


def _panels(drawn: style.Page, shown: _Shown, top: float, second: float) -> None:
    at = [(_LEFT + column * _STEP, row) for row in (top, second) for column in range(4)]
    titles = (
        "a  Exposure", "b  Attack, canaries", "c  Attack, members", "d  Found at 1 %",
        "e  Exposure", "f  Attack, canaries", "g  Attack, members", "h  Bound and claim",
    )  # fmt: skip
    axes = [panel(drawn, corner, _PANEL, title) for corner, title in zip(at, titles, strict=True)]
    against_epsilon(axes[0], shown.exposure, shown.kinds, _NO_CANARIES)
    against_epsilon(axes[1], shown.canaries, shown.kinds, _NO_CANARIES)
    against_epsilon(axes[2], shown.members, shown.parts, _NO_MEMBERS)
    against_epsilon(axes[3], shown.rate, shown.parts, _TOO_FEW)
    against_norm(axes[4], shown.exposure, shown.parts, _NO_CANARIES)
    against_norm(axes[5], shown.canaries, shown.parts, _NO_CANARIES)
    against_norm(axes[6], shown.members, shown.parts, _NO_MEMBERS)
    beside_claim(axes[7], shown.bounds, _NO_BOUNDS)


def _strips(
    drawn: style.Page, shown: _Shown, slices: SliceAxis, where: tuple[float, float]
) -> None:
    top, apart = where
    axes = [panel(drawn, (_LEFT, top + place * apart), (slices.inches, _STRIP))
            for place in range(3)]  # fmt: skip
    of = "" if shown.area is None else f" ({_WHOM[shown.area.name]})"
    for one, title in zip(axes, (
        "i  Who paid: recall lost against the baseline of the same seed",
        "j  Was it protected more: exposure of its canaries",
        f"k  Was it protected more: attack on its records{of}",
    ), strict=True):  # fmt: skip
        write_title(one, title, 13)
    lost(axes[0], shown.exposure or shown.area, slices, shown.names)
    leaked(axes[1], shown.exposure, slices, shown.names, last=False, why=_NO_CANARIES)
    leaked(axes[2], shown.area, slices, shown.names, last=True, why=_NO_COINS)


def _words(name: str) -> str:
    return name.replace("_", " ")


def _caption(shown: _Shown, slices: SliceAxis) -> str:
    found = [one for one in (shown.exposure or shown.canaries, shown.members) if one is not None]
    conditions = [c for one in found for line in one.lines for c in line.conditions]
    conditions += [base for one in found for base in one.baselines[:1]]
    conditions = conditions or common_words.all_conditions(shown.cells)
    lead = next((one.lead for one in found if one.lead), "")
    at = " and ".join(dict.fromkeys(
        epsilon_text(one.epsilon) for one in found if one.lines))  # fmt: skip
    rate = "" if shown.rate is None else f", {_WHOM[shown.rate.name]}"
    own = [
        "Raw scores of records with a coin: diagnostic, not private" if found else _NO_AUDIT,
        left_out(shown.cells),
        f"a–d: {lead}, of every ε the C with the best validation accuracy; hollow: the baseline"
        if lead else "",
        f"e–g: {lead} at {at}; level lines: the baseline" if lead else "",
        f"i–k: at {at}, every rule at that C; n: records of the mean run that carry the mark (i:"
        " test examples)" if at else "",
        common_words.at_most(found[0].at(found[0].epsilon), MOST) if found else "",
        "Exposure: log2 of the references, minus log2 of a canary’s rank among them, mean over the"
        " included canaries (of slices: without random inputs); nothing remembered:"
        f" {CHANCE['exposure']:.2f}" if shown.exposure else "",
        "Attack: area under the ROC curve of a threshold on the loss; d: members found at 1 % of"
        f" false alarms{rate}, of slices with enough records" if shown.area else "",
        "h: a mark a run; lower bounds at 95 % for any mechanism; dashed: as much as is certified;"
        " ×: refuted" if len(shown.bounds) else "",
        common_words.intervals(shown.cells, conditions, f"Bars: {common_words.STUDENT},"),
        slices.words,
    ]  # fmt: skip
    return common_words.caption(shown.cells, conditions, own)
