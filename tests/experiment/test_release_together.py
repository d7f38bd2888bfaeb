"""Several releases: added up by whoever has their secrets; and what the terminal shows of one."""

import io

import pytest
import torch
from releases import BASE, released
from rich.console import Console

from dpsgd.engine import checks
from dpsgd.errors import ConfigError
from dpsgd.experiment.cell import run_cell
from dpsgd.experiment.composition import total
from dpsgd.experiment.ledger.evidence import of_the_folder
from dpsgd.experiment.prepared import prepare
from dpsgd.experiment.report import print_outcome, progress_bar
from dpsgd.experiment.secret import SECRET_FILE
from dpsgd.experiment.settings import read_cell
from dpsgd.python import resolved, train


def ledgers(*runs):
    return [(run.folder, run.ledger) for run in runs]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("together")
    return released(folder), released(folder, seed=1)


def test_releases_add_up_where_their_secrets_say_that_the_data_are_the_same(runs):
    one, two = runs
    found = total(ledgers(one, two))
    assert found.epsilon > found.largest
    research = {"release": False, "runs_dir": str(one.folder.parent)}
    beside = train(BASE | research)
    assert total(ledgers(one, beside)).epsilon > found.largest
    alone = total(ledgers(one))
    assert alone.epsilon == pytest.approx(one.ledger["epsilon"])


def test_without_a_secret_nobody_can_say_so(runs, tmp_path):
    elsewhere = tmp_path / "published"
    elsewhere.mkdir()
    with pytest.raises(ConfigError, match=r"^data_fingerprint=withheld(?s:.)*secret.key"):
        total([(elsewhere / str(i), run.ledger) for i, run in enumerate(runs)])


def test_releases_on_other_data_are_refused_without_a_word_of_either(runs, tmp_path):
    other = released(tmp_path, **{"data.keep": 0.5})
    with pytest.raises(ConfigError, match="data differ") as caught:
        total(ledgers(runs[0], other))
    for run in (runs[0], other):
        data = (run.folder / SECRET_FILE).read_text(encoding="utf-8").split('"')[-2]
        assert data[:8] not in str(caught.value)


def test_one_release_given_twice_is_refused(runs):
    with pytest.raises(ConfigError, match=r"^stream_id="):
        total(ledgers(runs[0], runs[0]))


def test_its_page_knows_of_no_other_run(runs):
    found = of_the_folder(runs[0].cell, "0" * 64, runs[0].folder.parent)
    assert found["sources"] == []
    assert found["same_data"] is None
    assert found["baseline"] is None


def test_the_terminal_shows_no_loss_and_no_seconds(tmp_path):
    shown = io.StringIO()
    console = Console(file=shown, force_terminal=True, width=100)
    config = resolved(BASE | {"runs_dir": str(tmp_path), "telemetry.window": 1})
    with progress_bar(console) as progress:
        outcome = run_cell(prepare(read_cell(config)), tmp_path, progress)
        live = shown.getvalue()
    print_outcome(console, outcome)
    text = shown.getvalue()
    assert "loss –" in live
    assert "ε so far" in live
    assert "secret.key" in text
    assert " s in all" not in text
    assert "inside ε" in text


def test_no_row_of_the_data_stops_a_release(tmp_path, monkeypatch):
    looked = []

    def look(*args):
        looked.append(args)
        return check(*args)

    check = checks.check_row_alone
    monkeypatch.setattr("dpsgd.training.micro.check_row_alone", look)
    monkeypatch.setattr("dpsgd.training.step.check_units_apart", lambda *args: looked.append(args))
    released(tmp_path)
    assert not looked
    train(BASE | {"release": False, "runs_dir": str(tmp_path)})
    assert looked


def test_a_gradient_that_is_not_finite_is_left_out_in_silence(tmp_path):
    config = resolved(BASE | {"runs_dir": str(tmp_path)})
    prepared = prepare(read_cell(config))
    prepared.bundle.train.inputs[:300] = float("nan")
    outcome = run_cell(prepared, tmp_path, lambda plan: lambda *facts: None)
    state = torch.load(outcome.folder / "model.pt", weights_only=True)
    assert all(bool(value.isfinite().all()) for value in state.values())
    for file in outcome.folder.iterdir():
        assert b"dropped" not in file.read_bytes()
