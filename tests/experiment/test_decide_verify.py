"""A ledger with looks holds as it is, and not once anything of them was touched."""

import shutil

import pandas as pd
import pytest
from deciding import DECIDE, EARLY, PRIVATE, tiny
from ledgers import Folder

from analysis import schema
from dpsgd.experiment.verify import verify


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def early(runs):
    return tiny(runs, **PRIVATE, **EARLY).folder


@pytest.fixture
def run(early, tmp_path):
    shutil.copytree(early, tmp_path / early.name)
    return Folder(tmp_path / early.name)


def mismatches(folder, **options):
    return [m.what for m in verify(folder, **options).findings.mismatches]


def test_a_run_that_was_stopped_early_holds(early):
    verdict = verify(early)
    assert verdict.holds, [str(m) for m in verdict.findings.mismatches]
    assert verdict.state == "FINISHED, 4 of 12 steps, stopped by early stopping"


@pytest.mark.parametrize("changes", [
    DECIDE, DECIDE | EARLY, PRIVATE | {"decide.patience": None},
    PRIVATE | {"decide.select": False}, PRIVATE | {"mechanism": "clip_only"},
    PRIVATE | {"sampling": "full", "batch": 1334, "telemetry": "accounted"} | EARLY,
    PRIVATE | {"noise_multiplier": 1.0, "epsilon": 1.5, "decide.every": 1, "decide.noise": 20.0},
])  # fmt: skip
def test_every_kind_of_deciding_run_holds(changes, runs):
    verdict = verify(tiny(runs, **changes).folder)
    assert verdict.holds, [str(m) for m in verdict.findings.mismatches]


def of_looks(change):
    def forge(ledger):
        (one,) = [e for e in ledger["entries"] if e["draw_id"] == "looks"]
        change(ledger, one)

    return lambda run: run.ledger(forge)


def _quieter(ledger, one):
    one["noise_multiplier"] = one["event"]["event"]["noise_multiplier"] = 20.0


def _fewer(ledger, one):
    one["steps"] = one["event"]["count"] = 2
    ledger["decisions"]["steps"] = [2, 4]


def _never(ledger, one):
    ledger["entries"].remove(one)
    del ledger["decisions"]


def _public(ledger, one):
    ledger["entries"].remove(one)
    ledger["decisions"] |= {"release": "public", "noise_multiplier": None}


@pytest.mark.parametrize(
    ("forge", "what"),
    [
        (of_looks(lambda ledger, one: ledger["entries"].remove(one)), "entries of looks"),
        (of_looks(lambda ledger, one: ledger["entries"].append(one)), "entries of looks"),
        (of_looks(_never), "decisions"),
        (of_looks(_public), "looks read as public"),
        (of_looks(_quieter), "entry of the looks, noise_multiplier"),
        (of_looks(_fewer), "steps of the looks"),
        (of_looks(lambda ledger, one: one.update(purpose="tuning")),
         "entry of the looks, purpose"),
        (of_looks(lambda ledger, one: one.update(stream_id="f" * 16)),
         "entry of the looks, stream_id"),
        (of_looks(lambda ledger, one: ledger["decisions"].update(purpose="selection")),
         "decisions purpose"),
        (lambda run: run.status(lambda s: s.update(step=3)), "step of early stopping"),
        (lambda run: run.status(lambda s: s.update(stopped_by="steps", step=12)), "stopped_by"),
        (lambda run: run.cell(lambda c: c.update(steps_taken=12)), "steps_taken"),
        (lambda run: run.cell(lambda c: c.update(step_released=12)), "step_released"),
    ],
)  # fmt: skip
def test_what_was_touched_is_named(run, forge, what):
    forge(run)
    run.reseal()
    assert what in mismatches(run.path, accountants=False)


def test_the_epsilon_of_a_ledger_without_its_looks_is_another(run):
    of_looks(lambda ledger, one: ledger["entries"].remove(one))(run)
    run.reseal()
    assert "ε of the entries by pld" in mismatches(run.path)


def test_scores_that_would_have_decided_otherwise_are_found(run):
    file = run.path / schema.EVALUATION_FILE
    table = pd.read_parquet(file)
    looked = table["metric"] == schema.LOOK
    table.loc[looked, "value"] = [0.9, 0.1]
    table.to_parquet(file, index=False)
    run.reseal()
    assert "step_released" in mismatches(run.path, accountants=False)


def test_a_run_that_decides_nothing_cannot_have_stopped_early(runs, tmp_path):
    plain = tiny(runs).folder
    shutil.copytree(plain, tmp_path / plain.name)
    run = Folder(tmp_path / plain.name)
    run.status(lambda s: s.update(stopped_by="early stopping", step=4))
    run.cell(lambda c: c.update(stopped_by="early stopping", steps_taken=4))
    run.reseal()
    assert {"stopped_by", "decisions"} <= set(mismatches(run.path, accountants=False))
