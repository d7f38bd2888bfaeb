"""What a person sees: a progress bar while training, and a table at 80 columns at the end."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from analysis import schema
from dpsgd.accounting import format_delta, format_epsilon, unit_text
from dpsgd.experiment.audit_text import audit_line
from dpsgd.experiment.cell import Outcome
from dpsgd.experiment.decisions import with_looks
from dpsgd.experiment.ledger import shown_epsilon
from dpsgd.experiment.plan import COMPARED, Plan

_RAW = "clip fraction and kept: over training; diagnostic, not private"
_TELEMETRY = {
    "accounted": "clip fraction: over training, noised and inside ε; its 95 % intervals are in "
    "cell.json; –: too few units to say",
    "probe": "clip fraction and kept: of validation records, not of training",
}
Lookup = dict[tuple[str, str, str, str], tuple[float | None, int]]
WIDTH = 80
DIGITS = 8
"""How much of a run key names a cell: every program takes it so."""
WIDEST = 27
"""Letters of a slice's name: what 80 columns leave."""
CHECKPOINTS = 10
"""How often ε so far is computed for the bar: the accountant is not free."""


@contextmanager
def progress_bar(console: Console) -> Iterator[Callable[[Plan], Callable[..., None]]]:
    """Give the callback that ``run_cell`` asks for; the bar is gone afterwards."""
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(bar_width=16),
        TextColumn("{task.completed}/{task.total}  loss {task.fields[loss]}  "
                   "ε so far {task.fields[epsilon]}  clipped {task.fields[clipped]}"),
        TimeRemainingColumn(compact=True), console=console, transient=True,
        disable=not console.is_terminal,
    )  # fmt: skip

    def start(plan: Plan) -> Callable[..., None]:
        if not plan.prepared.cell.private:
            console.print(
                f"[bold]Diagnostic[/]: mechanism={plan.prepared.cell.settings.mechanism}, "
                "ε = ∞. This run is not private."
            )
        rows = plan.prepared.micro_batch
        # How many fit may follow from how many records users have.
        shown = not plan.prepared.cell.settings.release
        if shown and rows is not None and rows < plan.prepared.sampler.largest_draw:
            console.print(f"micro-batches of {rows} rows, whole units each (engine.micro_batch)")
        if bar.disable:  # nobody looks: an accountant would be asked for nothing
            return lambda number, loss, clip_fraction: None
        epsilon_at = _epsilon_so_far(plan)
        task = bar.add_task("training", total=plan.steps, loss="", epsilon="", clipped="")

        def step(number: int, loss: float | None, clip_fraction: float | None) -> None:
            shown = "–" if clip_fraction is None else f"{clip_fraction:.0%}"
            raw = "–" if loss is None else f"{loss:.3f}"
            bar.update(task, completed=number, loss=raw, epsilon=epsilon_at(number),
                       clipped=shown)  # fmt: skip

        return step

    with bar:
        yield start


def _epsilon_so_far(plan: Plan) -> Callable[[int], str]:
    """Return step → ε so far, computed at a few checkpoints and read as 'at most' between them."""
    cell = plan.prepared.cell
    if not cell.private:
        return lambda step: "∞"
    every = max(1, math.ceil(plan.steps / CHECKPOINTS))
    known: dict[int, str] = {}

    def at(step: int) -> str:
        ahead = min(plan.steps, math.ceil(step / every) * every)
        if ahead not in known:
            known[ahead] = format_epsilon(
                plan.epsilon
                if ahead == plan.steps
                # RDP is fast, and above PLD: a bar may overstate, never understate.
                else min(plan.epsilon, _quick(plan, ahead))
            )
        return f"≤ {known[ahead]}"

    return at


def _quick(plan: Plan, steps: int) -> float:
    other = plan.epsilons.get("rdp")
    if not isinstance(other, float):
        return plan.epsilon
    prepared = plan.prepared
    event = with_looks(
        prepared.sampler.event(plan.noise_multiplier, steps), prepared.looks, plan.steps
    )
    return COMPARED["rdp"].epsilon(event, prepared.cell.settings.relation, prepared.delta)


def one_line(outcome: Outcome) -> str:
    """Return a cell of a multirun in one line: its label, how it went, the start of its key.

    A label that leaves no room for that within 80 columns has a line of its own.
    """
    values = _lookup(outcome.cell["metrics"])
    accuracy = _text(values, "test", "all", "all", "accuracy", "{:.3f}")
    worst = _text(values, "test", "all", "all", "tail_worst", "{:.3f}")
    kept = _text(values, "train", "all", "all", "kept", "{:.0%}")
    before = "  (finished before)" if outcome.repeated else ""
    label, key = outcome.cell["label"], outcome.folder.name[:DIGITS]
    found = f"accuracy {accuracy}  worst {worst}  kept {kept}  {key}{before}"
    room = WIDTH - len(found) - 1
    return f"{label:{min(room, 28)}} {found}" if len(label) <= room else f"{label}\n  {found}"


def print_outcome(console: Console, outcome: Outcome) -> None:
    """Print the table by slice, the guarantee, and where everything is."""
    cell, ledger = outcome.cell, outcome.ledger
    values = _lookup(cell["metrics"])
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    tokens = cell["shape"]["task"] == "tokens"
    watched = "probe" if cell["telemetry"] == "probe" else "train"
    last = {"nll": "nats"} if tokens else {"ece": "ECE", "ece_calibrated": "if\ncalibrated"}
    for name in ("slice", "n\ntest", "clip\nfraction", "kept", "accuracy", *last.values()):
        table.add_column(name, justify="left" if name == "slice" else "right", vertical="bottom")
    for kind, name in _slices(cell["metrics"]):
        accuracy, n = values.get(("test", kind, name, "accuracy"), (None, 0))
        row = [_text(values, watched, kind, name, m, "{:.0%}") for m in ("clip_fraction", "kept")]
        row.append("–" if accuracy is None else f"{accuracy:.3f}")
        row += [_text(values, "test", kind, name, metric, "{:.3f}") for metric in last]
        table.add_row(_shown(kind, name), str(n), *row)
    console.print(table)
    for line in _lines(outcome, values, ledger):
        console.print(line, highlight=False, soft_wrap=True, markup=False)


def _lines(outcome: Outcome, values: Lookup, ledger: dict[str, Any]) -> list[str]:
    cell = outcome.cell
    worst = _text(values, "test", "all", "all", "tail_worst", "{:.3f}")
    band = _text(values, "test", "all", "all", "tail_band", "{:.3f}")
    lines = [
        "accuracy and nats (cross entropy) are those of tokens, n counts examples"
        if cell["shape"]["task"] == "tokens"
        else "if calibrated: the ECE of a perfectly calibrated model of the same n"
    ]
    lines += ["", f"tail accuracy: worst slice {worst}, tail band {band}"]
    if cell["telemetry"] != "off":
        lines.append(_TELEMETRY.get(cell["telemetry"], _RAW))
    if ledger.get("common_noise"):
        lines.append("debug.common_noise: never release this run, nor compose it with others")
    if cell["private"]:
        lines.append(
            f"σ = {cell['noise_multiplier']:.4g}   ε = {shown_epsilon(ledger)} "
            f"({cell['accountant']})   δ = {format_delta(cell['delta'])}   "
            f"unit: {unit_text(cell['unit'], cell['unit_name'])}"
        )
    else:
        lines.append(f"ε = ∞ (mechanism {cell['mechanism']}): a diagnostic, not private")
    if cell["stopped_by"] == "budget":
        lines.append(
            f"stopped by the budget: {cell['steps']} of {cell['steps_planned']} steps fit into "
            f"ε = {cell['epsilon_target']}"
        )
    if "step_released" in cell:
        lines.append(_decided(cell, ledger))
    if "audit_correct" in cell:
        lines += textwrap.wrap(audit_line(cell), WIDTH, subsequent_indent="  ")
    steps = cell.get("steps_taken", cell["steps"])
    lines.append(
        _taken(cell, steps)
        if not outcome.repeated
        else "this cell was finished before: nothing was trained. To train it again, move its "
        "folder away"
    )
    lines.append(f"files: {outcome.folder}")
    if outcome.tracked:
        lines.append(outcome.tracked)
    return lines


def _taken(cell: dict[str, Any], steps: int) -> str:
    if "seconds" not in cell:
        return f"{steps} steps; secret.key and *.private.txt must not leave the folder"
    return f"{steps} steps in {cell['seconds_training']:.1f} s; {cell['seconds']:.1f} s in all"


def _decided(cell: dict[str, Any], ledger: dict[str, Any]) -> str:
    """Return how looks at the validation split ended the run, and what they cost."""
    taken, covered, released = cell["steps_taken"], cell["steps"], cell["step_released"]
    ended = f"stopped early, after {taken} of {covered} steps" if taken < covered else "not stopped"
    cost = {
        "public": "validation data declared public: no ε spent",
        "accounted": "noised, and paid for in ε, as all that were planned",
        "private": "raw: not private",
    }[ledger["decisions"]["release"]]
    return f"{cell['looks_taken']} looks ({cost}): {ended}; parameters of step {released}"


def _shown(kind: str, name: str) -> str:
    """Return a slice's name in at most ``WIDEST`` letters.

    Names of labels and bands need their kind beside them; those of columns say it themselves.
    """
    text = f"{kind} {name}" if kind in ("label", "rarity") else name
    if kind == "pair":
        text = " & ".join(part.partition("=")[2] or part for part in name.split(" & "))
    return text if len(text) <= WIDEST else f"{text[: WIDEST - 1]}…"


def _lookup(metrics: dict[str, list[Any]]) -> Lookup:
    rows = zip(
        *(metrics[c] for c in ("split", "slice_kind", "slice", "metric", "value", "n")), strict=True
    )
    return {(split, kind, name, metric): (value, n) for split, kind, name, metric, value, n in rows}


def _slices(metrics: dict[str, list[Any]]) -> list[tuple[str, str]]:
    order = {"all": 0, "rarity": 1, "label": 2}
    found = dict.fromkeys(zip(metrics["slice_kind"], metrics["slice"], strict=True))
    found = {key: None for key in found if key[0] != schema.CANARY}  # of no split that is shown
    return sorted(found, key=lambda key: order.get(key[0], 9))


def _text(values: Lookup, split: str, kind: str, name: str, metric: str, form: str) -> str:
    value, _ = values.get((split, kind, name, metric), (None, 0))
    return "–" if value is None else form.format(value)
