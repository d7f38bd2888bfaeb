"""Every kind of run holds: killed and repeated, stopped by its budget, of users, of one's own."""

import pytest
import torch
from ledgers import Folder

from analysis import schema
from dpsgd import Budget, PrivateTraining, part, train
from dpsgd.accounting.merging import noise_of
from dpsgd.errors import PrivacyError
from dpsgd.experiment.ledger import composed_event, environment
from dpsgd.experiment.plan import solve
from dpsgd.experiment.prepared import prepare
from dpsgd.experiment.settings import read_cell
from dpsgd.experiment.verify import verify
from dpsgd.python import resolved

TINY = {"debug": "fast", "tracker": "none", "telemetry.window": 2, "clip": "adaptive"}


def tiny(folder, **settings):
    return train(TINY | {"runs_dir": str(folder)} | settings)


def test_a_killed_run_is_consistent_and_not_finished_and_its_repeat_is_charged_once(tmp_path):
    def killed(step, loss, clip_fraction):
        if step == 2:
            raise KeyboardInterrupt

    settings = TINY | {"runs_dir": str(tmp_path), "clip": "flat"}
    with pytest.raises(KeyboardInterrupt):
        train(settings, on_step=killed)
    (folder,) = (f.parent for f in tmp_path.glob("*/status.json"))
    verdict = verify(folder)
    assert verdict.holds, [str(m) for m in verdict.findings.mismatches]
    assert verdict.state.startswith("KILLED: at least 2 of 3 steps taken. Not finished")
    assert verdict.seal is None
    assert "written before training" in (folder / schema.LEDGER_PAGE).read_text(encoding="utf-8")

    Folder(folder).status(lambda v: v.update(status="RUNNING", pid=2**22 + 1, step=4))
    verdict = verify(folder, accountants=False)
    assert "process is gone" in verdict.state
    assert [m.what for m in verdict.findings.mismatches] == ["steps taken"]

    again = train(settings)
    verdict = verify(again.folder)
    assert verdict.holds
    assert verdict.state.startswith("FINISHED")
    assert any("charged once" in remark for remark in verdict.findings.remarks)


def test_the_ledger_of_a_loop_of_ones_own_holds_until_it_is_touched(tmp_path):
    budget = Budget(epsilon=2.0, delta=1e-3, steps=5, batch=20)
    model = torch.nn.Linear(6, 3)
    PrivateTraining(model, part("clip/adaptive"), budget, records=200, ledger=tmp_path)
    verdict = verify(tmp_path)
    assert verdict.holds, [str(m) for m in verdict.findings.mismatches]
    Folder(tmp_path).ledger(lambda v: v.update(epsilon=1.0))
    assert {"page", "ε of the entries by pld"} <= {
        m.what for m in verify(tmp_path).findings.mismatches
    }


@pytest.mark.parametrize(
    "settings",
    [
        {"noise_multiplier": 0.8, "steps": 400, "epsilon": 3.0},
        {"relation": "replace_one"},
        {"accountant": "rdp"},
        {"mechanism": "noise_only"},
        {"users": "dirichlet", "users.count": 60, "users.alpha": 0.5, "batch": 20,
         "clip": "user_level", "sampling.max_records_per_user": 4, "unit_name": "person"},
    ],
    ids=["stopped by its budget", "replace_one", "rdp", "noise_only", "users"],
)  # fmt: skip
def test_every_kind_of_run_holds(tmp_path, settings):
    run = tiny(tmp_path, **settings)
    verdict = verify(run.folder)
    assert verdict.holds, [str(m) for m in verdict.findings.mismatches]
    if "steps" in settings:
        assert "stopped by budget" in verdict.state
    if settings.get("relation"):
        assert any("another grid" in remark for remark in verdict.findings.remarks)


def test_the_entries_alone_are_the_event_of_the_sampler(tmp_path):
    run = tiny(tmp_path)
    plan = solve(prepare(read_cell(resolved(TINY | {"runs_dir": str(tmp_path)}))), tmp_path)
    assert [one["purpose"] for one in run.ledger["entries"]] == ["gradient", "clip query"]
    whole = composed_event(run.ledger)
    assert whole == plan.prepared.sampler.event(noise_of(whole), plan.steps)
    assert noise_of(whole) == pytest.approx(plan.noise_multiplier, rel=1e-12)


def test_a_killed_run_is_not_repeated_by_other_code(tmp_path, monkeypatch):
    def killed(step, loss, clip_fraction):
        raise KeyboardInterrupt

    settings = TINY | {"runs_dir": str(tmp_path), "clip": "flat"}
    with pytest.raises(KeyboardInterrupt):
        train(settings, on_step=killed)
    monkeypatch.setattr(environment, "sources", lambda: "edited")
    with pytest.raises(PrivacyError, match=r"another environment \(sources\)"):
        train(settings)


def test_public_records_seen_by_a_model_without_an_epsilon_are_not_said_to_be_public(tmp_path):
    shown = {"telemetry.window": 2, "telemetry": "probe"}
    for mechanism, release in (("private", "public"), ("clip_only", "private")):
        found = tiny(tmp_path, mechanism=mechanism, **shown)
        assert found.ledger["slice_statistics"]["release"] == release
