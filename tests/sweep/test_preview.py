"""What is said before a sweep starts is true, and fits a terminal."""

import io
import json
import math
import re
import socket

import pytest
from composed import composer, jobs_of
from rich.console import Console

from dpsgd.accounting import PLD, format_epsilon
from dpsgd.accounting.merging import composed
from dpsgd.experiment.files import write_json
from dpsgd.experiment.identity import flat_config
from dpsgd.experiment.ledger import ledger_of
from dpsgd.experiment.ledger.repeats import Repeat, with_repeats
from dpsgd.experiment.plan import solve
from dpsgd.experiment.prepared import prepare
from dpsgd.experiment.sweep.charged import charged_again
from dpsgd.experiment.sweep.estimate import seconds_left
from dpsgd.experiment.sweep.keys import RunKeys
from dpsgd.experiment.sweep.planned import plan_sweep
from dpsgd.experiment.sweep.preview import duration, preview, print_preview
from dpsgd.experiment.sweep.released_together import Schedules, Together, released_together
from dpsgd.experiment.sweep.rows import FINISHED, IndexRow

FAST = ("debug=fast", "tracker=none", "accountant=rdp")


def cells(tmp_path, *words):
    words = (*FAST, *words)
    return plan_sweep(jobs_of(*words), composer(*words), tmp_path)


def together(plan, tmp_path):
    found = [planned.cell for planned in plan.cells]
    return released_together(found, Schedules(RunKeys()), tmp_path / "cache")


def test_the_total_is_that_of_all_private_cells_composed(tmp_path):
    plan = cells(tmp_path, "epsilon=1,3", "seed=0,1,2")
    found = together(plan, tmp_path)
    events = []
    for planned in plan.cells:
        if planned.cell.private:
            solved = solve(prepare(planned.cell), tmp_path / "cache")
            events.append(solved.prepared.event(solved.noise_multiplier, solved.steps))
    delta = prepare(plan.cells[-1].cell).delta
    right = PLD("pld", 1e-4).epsilon(composed(events), "add_or_remove_one", delta)
    assert (found.private, found.not_private, found.delta) == (6, 3, delta)
    assert right * (1 - 1e-6) <= found.epsilon <= right * 1.01
    assert not found.why


def test_what_was_charged_again_of_a_cell_is_part_of_the_total(tmp_path):
    plan = cells(tmp_path, "epsilon=1", "baselines=false")
    (planned,) = plan.cells
    solved = solve(prepare(planned.cell), tmp_path / "cache")
    prepared = solved.prepared
    repeat = Repeat(1, "0", "f" * 16, 0, None, {}, {})
    planned.folder.mkdir(parents=True)
    ledger = with_repeats(ledger_of(solved), {"environment": {}, "code": {}}, solved, [repeat])
    write_json(planned.folder / "ledger.json", ledger)
    again = charged_again([planned.folder])
    found = released_together([planned.cell], Schedules(RunKeys()), tmp_path / "cache", again)
    twice = composed([prepared.event(solved.noise_multiplier, solved.steps)] * 2)
    right = PLD("pld", 1e-4).epsilon(twice, "add_or_remove_one", prepared.delta)
    assert right * (1 - 1e-6) <= found.epsilon <= right * 1.01
    said = io.StringIO()
    print_preview(Console(file=said, width=200), plan, RunKeys(), planned.folder.parent, 1)
    assert f"ε ≤ {format_epsilon(found.epsilon)}" in said.getvalue()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("delta=1e-4,2e-4",), "δ"),
        (
            (
                "relation=add_or_remove_one,replace_one",
                "sampling=full",
                "batch=1334",
                "accountant=pld",
            ),
            "relation",
        ),
        (("users=dirichlet", "clip=flat,user_level", "delta=1e-4", "batch=8"), "units"),
        (("data.keep=0.2,0.3",), "units"),
        (("debug.common_noise=true", "seed=0,1"), "common_noise"),
    ],
)
def test_no_number_is_given_for_what_no_one_epsilon_covers(words, why, tmp_path):
    found = together(cells(tmp_path, *words), tmp_path)
    assert why in found.why
    assert math.isnan(found.epsilon)


def test_a_preview_says_all_of_it_in_80_columns(tmp_path):
    plan = cells(
        tmp_path, "clip.norm=1,1.0", "mechanism=private,clip_only,neither", "epsilon=3,inf"
    )
    lines = preview(plan, together(plan, tmp_path), 3000.0, 2)
    assert all(len(line) <= 80 for line in lines)
    text = " ".join(" ".join(lines).split())
    assert re.match(r"5 cells, 1 baseline among them, 7 asked for twice ", text)
    assert "0 finished before, 5 to train, 2 at a time: about 50 min" in text
    assert "ε = ∞" in text
    for word in ("1 private cell ", "1 baseline", "2 clip_only cells", "1 ε=∞ cell"):
        assert word in text


def test_without_diagnostics_nothing_is_infinite(tmp_path):
    plan = cells(tmp_path, "clip.norm=1,3", "baselines=false")
    text = "\n".join(preview(plan, together(plan, tmp_path), None, 1))
    assert "∞" not in text
    assert "time not known" in text


def test_only_diagnostics_are_said_to_be_that(tmp_path):
    plan = cells(tmp_path, "mechanism=clip_only,neither")
    text = "\n".join(preview(plan, together(plan, tmp_path), None, 1))
    assert "none of them is private: ε = ∞" in text


def row(cell, key, seconds, steps, host=None):
    values = dict.fromkeys(IndexRow.__dataclass_fields__)
    known = {"run_key": key, "status": FINISHED, "label": "", "seconds": seconds, "steps": steps}
    return IndexRow(**{**values, **known, "host": host or socket.gethostname()})


def plant(runs, cell, key, seconds, steps, **more):
    (runs / key).mkdir(parents=True)
    content = {"data": cell.data.name, **flat_config(cell)}
    (runs / key / "cell.json").write_text(json.dumps(content))
    return {key: row(cell, key, seconds, steps, **more)}


def test_time_is_scaled_by_steps_and_divided_among_workers(tmp_path):
    cell = cells(tmp_path, "seed=0").cells[-1].cell
    rows = plant(tmp_path, cell, "a" * 16, 10.0, 100) | plant(tmp_path, cell, "b" * 16, 20.0, 200)
    assert seconds_left([(cell, 200)] * 4, tmp_path, rows, 1) == pytest.approx(80)
    assert seconds_left([(cell, 200)] * 4, tmp_path, rows, 2) == pytest.approx(40)


def test_time_is_not_guessed_from_other_models_or_machines(tmp_path):
    cell = cells(tmp_path, "seed=0").cells[-1].cell
    other = cells(tmp_path, "model=mlp").cells[-1].cell
    rows = plant(tmp_path, other, "a" * 16, 10.0, 100)
    assert seconds_left([(cell, 200)], tmp_path, rows, 1) is None
    rows |= plant(tmp_path, cell, "b" * 16, 10.0, 100, host="elsewhere")
    assert seconds_left([(cell, 200)], tmp_path, rows, 1) is None
    assert seconds_left([(cell, 200)], tmp_path, {}, 1) is None


def test_times_are_for_people():
    assert [duration(s) for s in (0.2, 61, 100, 3600, 7500)] == [
        "1 s", "61 s", "2 min", "1 h 0 min", "2 h 5 min",
    ]  # fmt: skip


def test_nothing_private_costs_nothing_and_has_no_epsilon(tmp_path):
    plan = cells(tmp_path, "mechanism=neither")
    assert together(plan, tmp_path) == Together(0, 1, 0.0, 0.0, "", "")
