"""Audited cells: honest runs are not refuted, and runs with a planted fault are."""

import json
import shutil

import pandas as pd
import pytest
import torch
from deciding import SHARED
from ledgers import Folder

from analysis import schema
from dpsgd import train
from dpsgd.errors import ConfigError
from dpsgd.experiment.verify.run import verify
from dpsgd.training import step as step_module
from dpsgd.training.canaries import CanaryBatch

AUDITED = {
    "data": "digits", "model": "mlp", "steps": 60, "batch": 200, "epsilon": 4.0, "tracker": "none",
    "audit": "gradient",
}  # fmt: skip


def audited(folder, **settings):
    return train(AUDITED | {"runs_dir": str(folder)} | settings)


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    return audited(tmp_path_factory.mktemp("honest"))


def test_an_honest_run_is_not_refuted_and_its_bounds_are_below_its_epsilon(honest):
    cell = honest.cell
    assert cell["audit_refuted"] is False
    assert 0 < cell["audit_epsilon_gaussian"] < cell["epsilon"]
    assert cell["audit_epsilon"] < cell["epsilon"]
    assert cell["audit_guesses"] == 200
    assert cell["audit_correct"] > 110


def test_canaries_count_in_n_whatever_their_coins_and_in_no_slice(honest):
    ledger = json.loads((honest.folder / schema.LEDGER_FILE).read_text())
    table = pd.read_parquet(honest.folder / schema.AUDIT_FILE)
    assert len(table) == 1000
    assert 400 < table["included"].sum() < 600
    n = ledger["n_units"]
    assert ledger["sampler"]["sampling_probability"] == pytest.approx(200 / n)
    train_units = honest.telemetry.query(
        "stat == 'units' and slice_kind == 'all' and group == 'all'"
    )
    drawn = train_units["value"].sum()
    expected = 200 * 60 * (n - 1000) / n
    assert drawn == pytest.approx(expected, rel=0.05)


def test_verify_holds_of_an_audited_run_and_finds_an_edited_coin(honest):
    verdict = verify(honest.folder, accountants=False)
    assert verdict.holds, verdict.findings.mismatches
    file = honest.folder / schema.AUDIT_FILE
    kept = file.read_bytes()
    table = pd.read_parquet(file)
    table["included"] = ~table["included"]
    table.to_parquet(file, index=False)
    try:
        assert not verify(honest.folder, accountants=False).holds
    finally:
        file.write_bytes(kept)


def test_the_page_says_who_has_a_coin_and_what_is_raw(honest):
    page = " ".join((honest.folder / schema.LEDGER_PAGE).read_text(encoding="utf-8").split())
    assert "1000 synthetic units beside the data's" in page
    assert "audit.parquet" in page.partition("## Not covered by ε")[2].partition("## Data")[0]


def test_the_page_has_the_lower_bound_beside_the_certified_epsilon(honest):
    page = " ".join((honest.folder / schema.LEDGER_PAGE).read_text(encoding="utf-8").split())
    beside = page.partition("## ε by accountant")[2].partition("## Not covered")[0]
    assert f"Audited lower bound: audit=gradient: {honest.cell['audit_correct']} of 200" in beside
    assert f"ε ≥ {honest.cell['audit_epsilon']:.3g} for any mechanism" in beside
    assert "is not refuted" in beside


def test_verify_says_what_the_audit_found(honest):
    verdict = verify(honest.folder)
    assert verdict.holds, verdict.findings.mismatches
    (line,) = [one for one in verdict.findings.remarks if one.startswith("audit=gradient")]
    assert "coins guessed right" in line


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"audit_correct": 199}, "audit_correct"), ({"audit_epsilon": 0.0}, "audit_epsilon"),
        ({"audit_epsilon_gaussian": 0.1}, "audit_epsilon_gaussian"),
        ({"audit_refuted": True}, "claim that the audit refutes"),
        ({"audit_refuted": None}, "audit_refuted"),
    ],
)  # fmt: skip
def test_an_audit_that_its_coins_do_not_bear_out_is_found(honest, tmp_path, change, what):
    shutil.copytree(honest.folder, tmp_path / honest.folder.name)
    run = Folder(tmp_path / honest.folder.name)
    run.cell(lambda value: value.update(change))
    run.reseal()
    assert what in [one.what for one in verify(run.path).findings.mismatches]


@pytest.mark.parametrize("kind", ["left out", "another"])
def test_a_ledger_that_tells_of_another_audit_is_found(honest, tmp_path, kind):
    shutil.copytree(honest.folder, tmp_path / honest.folder.name)
    run = Folder(tmp_path / honest.folder.name)
    if kind == "another":
        run.ledger(lambda value: value["audit"].update(canaries=1))
    else:
        run.ledger(lambda value: value.pop("audit"))
        (run.path / schema.AUDIT_FILE).unlink()
    run.reseal()
    found = verify(run.path, accountants=False).findings.mismatches
    assert "audit" in [one.what for one in found]


def test_a_third_of_the_noise_is_refuted(tmp_path, monkeypatch):
    honest_noise = step_module.gaussian_noise
    monkeypatch.setattr(
        step_module, "gaussian_noise",
        lambda like, groups, std, source: honest_noise(
            like, groups, [value / 3 for value in std], source
        ),
    )  # fmt: skip
    assert audited(tmp_path).cell["audit_refuted"] is True


def test_units_that_are_not_clipped_are_refuted(tmp_path, monkeypatch):
    clipped = CanaryBatch.weighted_sum
    monkeypatch.setattr(CanaryBatch, "weighted_sum", lambda self, w: clipped(self, 2.5 * w))
    assert audited(tmp_path).cell["audit_refuted"] is True


def test_users_are_audited_as_users(tmp_path):
    cell = audited(
        tmp_path, **SHARED, model="logistic", **{"clip.unit": "user", "audit.canaries": 6},
        users="given",
    ).cell  # fmt: skip
    assert cell["unit"] == "user"
    assert cell["n_units"] == 66
    assert cell["audit_refuted"] is False


def test_where_users_are_protected_by_their_records_a_canary_brings_all_that_a_user_may(tmp_path):
    run = audited(
        tmp_path, users="dirichlet", sampling="poisson_capped_users",
        **{"users.count": 100, "audit.canaries": 50, "steps": 5},
    )  # fmt: skip
    sampler = json.loads((run.folder / schema.LEDGER_FILE).read_text())["sampler"]
    chosen = 4
    assert sampler["max_records_per_user"] == chosen
    assert sampler["n_records"] <= 100 * chosen + 50 * chosen
    assert sampler["n_records"] > 50 * chosen
    assert run.cell["n_units"] == 150
    assert run.cell["audit_canaries"] == 50
    assert run.cell["audit_refuted"] is False
    assert verify(run.folder, accountants=False).holds


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"mechanism": "clip_only"}, "audit"),
        ({"relation": "replace_one"}, "relation"),
        ({"audit.canaries": 1}, "audit.canaries"),
        ({"audit.guesses": 0.0}, "audit.guesses"),
        ({"audit.canaries": 10**6}, "audit.canaries"),
    ],
)
def test_an_audit_that_says_nothing_is_refused(tmp_path, settings, key):
    with pytest.raises(ConfigError) as caught:
        audited(tmp_path, **settings)
    assert caught.value.key == key
    assert not list(tmp_path.glob("*/ledger.json"))


def test_a_baseline_has_no_audit(tmp_path):
    assert "audit_refuted" not in audited(tmp_path, mechanism="neither").cell
    assert torch.is_grad_enabled()
