"""What the caption of every figure of one family says, whatever it shows."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.cells import one_row_each
from analysis.figures import sentences
from analysis.figures.marks import FEWEST
from analysis.lines import ENOUGH, Chosen, Family, Line
from analysis.wording import epsilon_text

STUDENT = "95 % interval of the mean over seeds (Student's t)"
RAW = "Norms and clip fractions: diagnostic, not private"


def caption(
    cells: Family, conditions: Sequence[int], own: Sequence[str], *, diagnostics: str = ""
) -> str:
    """Return a caption: the figure's ``own`` sentences, then data, privacy and learning rate.

    ``conditions`` are those that are drawn; ``diagnostics`` names those without a guarantee.
    """
    drawn = cells.named.loc[cells.named["condition"].isin(list(conditions)), :]
    rows = cells.table.loc[cells.table["run_key"].isin(list(drawn["run_key"])), :]
    runs = one_row_each(rows)
    others = diagnostics or "The baseline has no guarantee (ε = ∞): diagnostic, not private"
    return sentences.joined([
        *own,
        sentences.setting(one_row_each(cells.table)),
        sentences.privacy(runs, drawn, others) if len(runs) else "",
        sentences.learning_rate(runs),
        sentences.tested(rows),
    ])  # fmt: skip


def seeds(cells: Family, conditions: Sequence[int], what: str) -> str:
    """Return ``what`` is over how many seeds, or that one seed has no interval."""
    drawn = cells.named.loc[cells.named["condition"].isin(list(conditions)), :]
    found = drawn.groupby("condition")["replicate"].nunique()
    if found.empty or found.max() < 2:
        return "1 seed, so no interval over seeds"
    low, high = int(found.min()), int(found.max())
    told = f"{low}–{high}" if low < high else f"{high}"
    return f"{what} over {told} seeds" + (", none where there is only 1" if low < 2 else "")


def intervals(cells: Family, conditions: Sequence[int], what: str, instead: str = "") -> str:
    """Return ``what`` is over how many seeds, and ``instead``, what is drawn of fewer than an
    interval needs (``marks.FEWEST``).
    """
    drawn = cells.named.loc[cells.named["condition"].isin(list(conditions)), :]
    found = drawn.groupby("condition")["replicate"].nunique()
    if found.empty or found.max() < 2:
        return seeds(cells, conditions, what)
    low, high = int(found.min()), int(found.max())
    shown = instead and f": {instead}"
    if high < FEWEST:
        return f"{high} seeds are too few for an interval{shown}"
    told = f"{low}–{high}" if low < high else f"{high}"
    few = f"; fewer than {FEWEST} are too few{shown}" if low < FEWEST else ""
    return f"{what} over {told} seeds{few}"


def budgets(cells: Family) -> str:
    """Return which ε are not drawn, because another one has more cells."""
    private = cells.named.loc[cells.named["part"] == "private"]
    others = sorted(set(private["shown_epsilon"].dropna()) - {cells.epsilon})
    if not others:
        return ""
    told = ", ".join(epsilon_text(value).removeprefix("ε = ") for value in others)
    return f"Drawn is {epsilon_text(cells.epsilon)}, which has most cells; not ε = {told}"


def best(chosen: Sequence[Chosen]) -> str:
    """Return how the threshold of every rule was chosen, and for which rules it was not."""
    lines = [entry.line for entry in chosen if entry.line is not None]
    if not lines:
        return "No private cell is finished"
    without = [line.name for line in lines if line.best is None]
    told = "Of every rule the C with the best validation accuracy (mean over seeds)"
    if any(line.passed_over for line in lines):
        told += f", of those with {ENOUGH} seeds or more"
    idle = _idle(lines)
    if idle:
        told += f"; the smallest of {idle}, where C does nothing"
    return told + (f"; a middle one, without it, of {', '.join(without)}" if without else "")


def idle(lines: Sequence[Line]) -> str:
    """Return for which rules a line over C shows chance alone."""
    names = _idle(lines)
    if not names:
        return ""
    return f"C does nothing in {names}: what differs along such a line is chance, and no C is best"


def _idle(lines: Sequence[Line]) -> str:
    return ", ".join(line.name for line in lines if line.idle and len(line.norms) > 1)


def at_most(lines: Sequence[Line], most: int) -> str:
    """Return which rules there is no room for."""
    left = [line.name for line in lines[most:]]
    if not left:
        return ""
    return (
        "First the best settings of every rule, by validation; no room for "
        f"{', '.join(left)}: see cells.parquet"
    )


def all_conditions(cells: Family) -> list[int]:
    """Return every condition of the lines, and the baselines."""
    own = [condition for line in cells.lines for condition in line.conditions]
    return own + [chosen.condition for chosen in cells.baselines()]
