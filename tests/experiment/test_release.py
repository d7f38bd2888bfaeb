"""release=true end to end: what leaves, what stays, and the same release again."""

import json
import sqlite3
import stat

import pandas as pd
import pytest
import torch
from ledgers import Folder
from releases import BASE, UNITS, holding, released, secret_of

from analysis import schema
from analysis.cell_file import read_cell as read_point
from dpsgd.errors import ConfigError, PrivacyError
from dpsgd.experiment import cell as running
from dpsgd.experiment.allowed import CELL, STATUS
from dpsgd.experiment.identity import WITHHELD
from dpsgd.experiment.plan import solve
from dpsgd.experiment.prepared import prepare
from dpsgd.experiment.remembered import Remembered
from dpsgd.experiment.secret import PRIVATE_FILES, SECRET_FILE, TRACEBACK_FILE
from dpsgd.experiment.settings import read_cell
from dpsgd.experiment.track.push import push
from dpsgd.experiment.tracker import MlflowTracker
from dpsgd.experiment.verify import verify
from dpsgd.python import resolved
from dpsgd.sources import Cryptographic
from dpsgd.training.loop import Trainer


def bits(folder):
    state = torch.load(folder / schema.MODEL_FILE, weights_only=True)
    return {name: value.numpy().tobytes() for name, value in state.items()}


@pytest.fixture(scope="module", params=UNITS)
def run(request, tmp_path_factory):
    seen = []

    def watch(*facts):
        seen.append(facts)

    found = released(tmp_path_factory.mktemp("runs"), watch, **UNITS[request.param])
    assert found.ledger["unit"] == request.param
    return found, seen


def test_neither_key_nor_fingerprint_is_anywhere_but_in_the_secret(run):
    folder = run[0].folder
    secret = secret_of(folder)
    assert len(bytes.fromhex(secret["key"])) == 32
    for what in ("key", "data"):
        assert holding(folder.parent, secret[what]) == []
        assert holding(folder.parent, secret[what], besides=())  # the search can find
    assert run[0].ledger["data_fingerprint"] == WITHHELD


def test_the_secret_is_for_its_owner_alone(run):
    mode = (run[0].folder / SECRET_FILE).stat().st_mode
    assert stat.S_IMODE(mode) == 0o600


def test_every_row_that_left_is_public_or_accounted(run):
    for table in (run[0].telemetry, run[0].evaluation, pd.DataFrame(run[0].cell["metrics"])):
        assert len(table)
        assert set(table["release"]) <= {"public", "accounted"}
    assert "loss" not in set(run[0].telemetry["stat"])


def test_no_loss_reaches_whoever_watches_and_clip_fractions_are_the_noised_ones(run):
    _, seen = run
    assert [step for step, _, _ in seen] == [1, 2, 3]
    assert {loss for _, loss, _ in seen} == {None}
    assert {fraction for _, _, fraction in seen} == {None}  # no window was full


def test_times_are_days_and_nobody_is_named(run):
    status = json.loads((run[0].folder / schema.STATUS_FILE).read_text(encoding="utf-8"))
    for value in (status["started_at"], status["heartbeat"], run[0].cell["finished_at"]):
        assert len(value) == len("2026-01-02")
    assert not {"pid", "host", "traceback"} & status.keys()
    assert not [key for key in run[0].cell if key.startswith("seconds") or key == "micro_batch"]


def test_the_atlas_and_verify_read_it(run):
    point = read_point(run[0].folder / schema.CELL_FILE)
    assert point.scalars["run_key"] == run[0].cell["run_key"]
    verdict = verify(run[0].folder)
    assert verdict.holds, verdict.findings.mismatches
    assert verdict.seal


def test_its_page_says_how_it_is_keyed_and_what_is_outside(run):
    page = " ".join((run[0].folder / schema.LEDGER_PAGE).read_text(encoding="utf-8").split())
    for words in (
        "256 bits of the operating system", "ChaCha20", "void against anyone who has it",
        "withheld", "declared public", "on made-up rows", "From this run alone",
    ):  # fmt: skip
        assert words in page
    for words in ("void against anyone who knows the seed", "training loss", "Mersenne"):
        assert words not in page


def test_an_edited_ledger_of_a_release_is_found_out(tmp_path):
    folder = Folder(released(tmp_path).folder)
    folder.ledger(lambda ledger: ledger.update(data_fingerprint="0" * 64))
    folder.reseal()
    named = [str(mismatch) for mismatch in verify(folder.path).findings.mismatches]
    assert len(named) == 1
    assert named[0].startswith("run_key")


def test_two_data_sets_have_one_name_and_other_data_are_refused(tmp_path):
    cells = [read_cell(resolved(BASE | {"runs_dir": str(tmp_path)})) for _ in range(2)]
    one, other = (prepare(cell) for cell in cells)
    other.bundle.train.inputs[0] += 1
    again = prepare(cells[1])
    object.__setattr__(other.bundle, "fingerprint", "f" * 64)
    assert one.run_key == other.run_key == again.run_key
    assert one.baseline_key == other.baseline_key
    first = running.run_cell(one, tmp_path, lambda plan: lambda *facts: None)
    assert first.folder.name == one.run_key
    with pytest.raises(ConfigError, match=r"are not the data(?s:.)*move that folder") as caught:
        running.run_cell(other, tmp_path, lambda plan: lambda *facts: None)
    assert "f" * 10 not in str(caught.value)
    assert secret_of(first.folder)["data"] not in str(caught.value)
    repeated = running.run_cell(again, tmp_path, lambda plan: lambda *facts: None)
    assert repeated.repeated


def test_a_killed_release_asked_again_is_the_same_release(tmp_path):
    def kill(step, loss, clip_fraction):
        if step == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        released(tmp_path / "a", kill)
    (folder,) = (tmp_path / "a").glob(f"*/{SECRET_FILE}")
    status = json.loads((folder.parent / schema.STATUS_FILE).read_text(encoding="utf-8"))
    assert status["status"] == "KILLED"
    before = folder.read_bytes()
    again = released(tmp_path / "a")
    assert folder.read_bytes() == before
    whole = tmp_path / "b" / folder.parent.name
    whole.mkdir(parents=True)
    (whole / SECRET_FILE).write_bytes(before)
    assert bits(released(tmp_path / "b").folder) == bits(again.folder)
    assert verify(again.folder).holds
    other = released(tmp_path / "c")
    assert other.folder.name == again.folder.name
    assert other.ledger["stream_id"] != again.ledger["stream_id"]
    assert bits(other.folder) != bits(again.folder)


def test_on_another_environment_it_is_refused(tmp_path):
    folder = Folder(released(tmp_path).folder)
    folder.status(lambda status: status.update(status="KILLED"))
    folder.ledger(lambda ledger: ledger["environment"].update(threads=99))
    with pytest.raises(PrivacyError, match="another environment"):
        released(tmp_path)


@pytest.mark.parametrize("torn", [None, "{", '{"key": "00", "data": "x"}'])
def test_a_release_whose_key_is_gone_or_torn_is_not_continued(tmp_path, torn):
    file = released(tmp_path).folder / SECRET_FILE
    file.unlink()
    if torn is not None:
        file.write_text(torn, encoding="utf-8")
    with pytest.raises(PrivacyError, match=r"without its secret.key|is torn"):
        released(tmp_path)


def test_its_epsilon_is_computed_whatever_a_cache_says(tmp_path, monkeypatch):
    monkeypatch.setattr(Remembered, "epsilon", lambda *question: 0.01)
    settings = BASE | {"noise_multiplier": 1.0, "epsilon": 50.0}
    plans = [
        solve(prepare(read_cell(resolved(settings | {"release": release}))), tmp_path)
        for release in (True, False)
    ]
    assert plans[0].epsilon > 0.1
    assert plans[1].epsilon == 0.01  # nothing but the cache was asked


def test_what_a_failure_says_stays_in_a_private_file(tmp_path, monkeypatch):
    def fail(*_, **__):
        raise ValueError("record 17 holds 0.1234567")

    monkeypatch.setattr(Trainer, "_step", fail)
    with pytest.raises(PrivacyError, match="ended with ValueError") as caught:
        released(tmp_path)
    assert "record 17" not in str(caught.value)
    assert caught.value.__suppress_context__
    (file,) = tmp_path.glob(f"*/{TRACEBACK_FILE}")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "record 17" in file.read_text(encoding="utf-8")
    assert holding(tmp_path, "record 17", besides=PRIVATE_FILES) == []
    status = json.loads((file.parent / schema.STATUS_FILE).read_text(encoding="utf-8"))
    assert status["status"] == "FAILED"
    assert status["stopped_by"] == "ValueError"
    assert status.keys() <= STATUS


def test_what_nobody_listed_stays_inside(tmp_path, monkeypatch):
    planted = 0.7182818
    row_of, recorder_of, evaluate = running.cell_row, running.recorder_of, running.evaluate_scores

    def cell_row(plan, metrics, seconds):
        cell = row_of(plan, metrics, seconds) | {"train_loss": planted, "note": str(planted)}
        rows = {"release": "private", "metric": "accuracy", "value": planted}
        for name in cell["metrics"]:
            cell["metrics"][name].append(rows.get(name, "train"))
        return cell

    def recorder(plan, trainer):
        made = recorder_of(plan, trainer)
        place = {"step": 1, "unit": "record", "slice_kind": "all", "slice": "all", "group": "all"}
        for stat_, release in (("loss", "private"), ("kept", "private"), ("loss", "accounted"),
                               ("loss", None), ("invented", "public")):  # fmt: skip
            made.rows.append(
                place | {"stat": stat_, "release": release, "value": planted, "n": 8128}
            )
        return made

    def evaluated(*args, **kwargs):
        table = evaluate(*args, **kwargs)
        extra = table.iloc[:1].assign(release="private", value=planted, n=8128)
        return pd.concat([table, extra], ignore_index=True)

    monkeypatch.setattr(running, "cell_row", cell_row)
    monkeypatch.setattr(running, "recorder_of", recorder)
    monkeypatch.setattr(running, "evaluate_scores", evaluated)
    run = released(tmp_path)
    settings = {key for key in run.cell if key.startswith("config.")}
    assert run.cell.keys() - settings <= CELL
    assert len(run.telemetry)
    for table in (run.telemetry, run.evaluation, pd.DataFrame(run.cell["metrics"])):
        assert planted not in set(table["value"])
        assert 8128 not in set(table["n"])
    assert holding(tmp_path, str(planted)) == []


def test_a_ledger_with_a_key_that_nobody_listed_is_refused(tmp_path, monkeypatch):
    plain = running.ledger_of
    monkeypatch.setattr(running, "ledger_of", lambda plan: plain(plan) | {"mean_age": 41})
    with pytest.raises(PrivacyError, match="mean_age"):
        released(tmp_path)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_mlflow_holds_what_the_folder_shows_and_no_secret(tmp_path):
    run = released(tmp_path, tracker="mlflow")
    assert push(tmp_path, MlflowTracker("mlflow", None, "clipping-atlas")).complete
    secret = secret_of(run.folder)
    for what in ("key", "data"):
        assert holding(tmp_path, secret[what]) == []
    with sqlite3.connect(tmp_path / "mlflow.db") as store:
        names = {name for (name,) in store.execute("select key from metrics")}
        (times,) = store.execute("select end_time - start_time from runs")
    store.close()
    assert "privacy/epsilon" in names
    assert not [name for name in names if "loss" in name or name.startswith("private")]
    assert times == (0,)
    artifacts = {file.name for file in (tmp_path / "mlartifacts").rglob("*") if file.is_file()}
    assert not artifacts & set(PRIVATE_FILES)


def test_all_that_privacy_rests_on_is_drawn_by_the_cryptographic_source(tmp_path, monkeypatch):
    asked = []
    for name in ("normal", "uniform"):
        plain = getattr(Cryptographic, name)

        def noted(self, size, name=name, plain=plain):
            asked.append(name)
            return plain(self, size)

        monkeypatch.setattr(Cryptographic, name, noted)
    released(tmp_path)
    # Three steps: coins, the gradient's noise, the counts' noise.
    assert sorted(asked) == ["normal"] * 6 + ["uniform"] * 3


def test_initial_weights_follow_from_the_seed():
    models = [prepare(read_cell(resolved(BASE | {"release": r}))).model for r in (True, False)]
    states = [[v.numpy().tobytes() for v in model.state_dict().values()] for model in models]
    assert states[0] == states[1]
