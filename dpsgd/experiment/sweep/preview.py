"""What a sweep says before anything starts: how much it is, how long it takes, what it costs."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from dpsgd.accounting import format_delta, format_epsilon
from dpsgd.experiment.remembered import cache_of
from dpsgd.experiment.sweep.charged import charged_again
from dpsgd.experiment.sweep.estimate import seconds_left
from dpsgd.experiment.sweep.index import Index
from dpsgd.experiment.sweep.keys import RunKeys
from dpsgd.experiment.sweep.planned import PlannedCell, SweepPlan
from dpsgd.experiment.sweep.released_together import Schedules, Together, released_together

WIDTH = 80


def print_preview(
    console: Console, plan: SweepPlan, keys: RunKeys, runs: Path, workers: int
) -> None:
    """Print the preview of a plan; ``workers`` is how many cells run at once.

    Raises ConfigError for a cell whose noise cannot be solved for.
    """
    schedules = Schedules(keys)
    steps = [(planned.cell, schedules.of(planned.cell).steps) for planned in plan.missing]
    seconds = seconds_left(steps, runs, Index(runs).finished(), workers) if steps else 0.0
    cells = [planned.cell for planned in plan.cells]
    again = charged_again(planned.folder for planned in plan.cells if planned.cell.private)
    together = released_together(cells, schedules, cache_of(runs), again)
    for line in preview(plan, together, seconds, workers):
        console.print(line, soft_wrap=True, markup=False)


def preview(
    plan: SweepPlan, together: Together, seconds: float | None, workers: int
) -> list[str]:  # fmt: skip
    """Return the lines of a preview, at most 80 letters each.

    ``seconds`` is how long what is missing will take; None: not known.
    """
    missing = len(plan.missing)
    first = [_number(len(plan.cells), "cell")]
    if plan.baselines:
        first.append(f"{_number(len(plan.baselines), 'baseline')} among them")
    if plan.merged:
        first.append(f"{plan.merged} asked for twice")
    text = ", ".join(first)
    done = f"{len(plan.cells) - missing} finished before, {missing} to train"
    if missing:
        at_once = min(workers, missing)
        several = f", {at_once} at a time" if at_once > 1 else ""
        done += f"{several}: {_duration(seconds)}"
    return [
        line
        for part in (text, done, *_cost(together, plan.cells))
        for line in textwrap.wrap(part, WIDTH, subsequent_indent="  ")
    ]


def _cost(together: Together, cells: Sequence[PlannedCell]) -> list[str]:
    """Say what releasing everything would cost: ∞ as soon as one of them has no ε."""
    if not together.private:
        return ["none of them is private: ε = ∞"]
    if together.why:
        alone = f"no one ε covers its {_number(together.private, 'private cell')}: {together.why}"
    else:
        cost = f"ε ≤ {format_epsilon(together.epsilon)} at δ={format_delta(together.delta)}"
        alone = f"if its {_number(together.private, 'private cell')} were all released: {cost}"
        alone += f", unit {together.unit}"
    if not together.not_private:
        return [alone]
    return [alone, f"with {_diagnostics(cells)}: ε = ∞, as nothing protects these"]


def _diagnostics(cells: Sequence[PlannedCell]) -> str:
    """Name the cells without an ε by what they are."""
    counts = Counter(
        "baseline" if planned.run_key == planned.baseline_key
        else f"{planned.cell.settings.mechanism} cell"
        if planned.cell.settings.mechanism != "private" else "ε=∞ cell"
        for planned in cells if not planned.cell.private
    )  # fmt: skip
    words = [_number(count, what) for what, count in counts.items()]
    return " and ".join([", ".join(words[:-1]), words[-1]] if words[1:] else words)


def _number(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return "time not known, none like them has finished here"
    return f"about {duration(seconds)}"


def duration(seconds: float) -> str:
    """Return a time for people: ``40 s``, ``6 min``, ``2 h 5 min``."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
