"""The page to attach to a model: what it says, and what it says that it does not know."""

import re

import pytest
from ledgers import Folder

from analysis import schema
from dpsgd import train
from dpsgd.experiment.files import read_json
from dpsgd.experiment.ledger import ledger_page
from dpsgd.experiment.ledger.environment import NOT_A_CHECKOUT, code_state
from dpsgd.experiment.ledger_view import shown_page, write_shown_page
from dpsgd.experiment.verify import verify
from dpsgd.ledger import main

TINY = {"debug": "fast", "tracker": "none", "telemetry.window": 2}


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    """A run that ends first, then another C, another seed and the baseline."""
    folder = tmp_path_factory.mktemp("sweep")
    base = TINY | {"runs_dir": str(folder)}
    first = train(base).folder
    alone = (first / schema.LEDGER_PAGE).read_text(encoding="utf-8")
    train(base | {"clip.norm": 3.0})
    train(base | {"clip.norm": 3.0, "seed": 1})
    train(base | {"mechanism": "neither"})
    return first, alone


def test_prose_fits_80_columns(sweep):
    first, alone = sweep
    for page in (alone, shown_page(first)):
        prose = [line for line in page.splitlines() if not line.startswith("|")]
        assert max(map(len, prose)) <= 80


def test_every_section_that_a_reader_needs_is_there(sweep):
    _, alone = sweep
    heads = re.findall(r"^## (.+)$", alone, re.MULTILINE)
    assert heads == [
        "What is protected", "Mechanisms", "ε by accountant", "Not covered by ε", "Data",
        "Randomness and arithmetic", "Quality evidence", "Code and environment",
    ]  # fmt: skip
    for words in (
        "unit: record, relation: add_or_remove_one", "void against anyone who knows the seed",
        "declared public", "Clipping rule: name=flat", "Envelope, for every unit",
        "Sampling: poisson",
        "Conversion to (ε, δ) by pld", "SHAKE-256", "exact real-valued Gaussians",
        "so that this page does not show them", "config SHA-256",
    ):  # fmt: skip
        assert words in " ".join(alone.replace("\n> ", " ").split()), words


def test_a_page_at_the_end_of_its_run_measures_itself_and_nothing_else(sweep):
    _, alone = sweep
    text = " ".join(alone.split())
    assert "Recall of rare classes against C: not measured at another C" in text
    assert "Calibration (ECE) by rarity: tail" in text
    assert "Memorisation: not measured" in text
    assert "Budget of tuning: not measured here" in text
    assert "Non-private baseline: not measured" in text
    assert "| accuracy " in alone


def test_shown_later_it_has_what_the_sweep_knows(sweep):
    first, _ = sweep
    text = " ".join(shown_page(first).split())
    assert re.search(r"all else but the seed equal: C=1 \S+, C=3 \S+ \(mean of 2 seeds\)", text)
    assert "other runs on these data: 2 private, 1 with ε = ∞" in text
    assert (
        "Non-private baseline: beside it; its numbers are themselves a release with ε = ∞" in text
    )
    assert "Memorisation: not measured" in text


def test_what_was_written_then_still_renders_from_its_ledger(sweep, capsys):
    first, alone = sweep
    write_shown_page(first)
    assert (first / schema.LEDGER_PAGE).read_text(encoding="utf-8") != alone
    verdict = verify(first, accountants=False)
    assert verdict.holds, [str(m) for m in verdict.findings.mismatches]
    with pytest.raises(SystemExit) as left:
        main(["show", str(first)])
    assert left.value.code == 0
    assert capsys.readouterr().out == (first / schema.LEDGER_PAGE).read_text(encoding="utf-8")
    other = read_json(first / schema.EVIDENCE_FILE)["sources"][0]
    Folder(first.parent / other).cell(lambda v: v["metrics"].update(value=[0.5] * 10_000))
    assert not verify(first, accountants=False).holds


def test_evidence_from_data_that_are_not_public_says_so_and_is_not_released(tmp_path):
    run = train(TINY | {"runs_dir": str(tmp_path), "data.holdout": "private"})
    page = (run.folder / schema.LEDGER_PAGE).read_text(encoding="utf-8")
    assert "Read raw from data that are not public: outside ε" in " ".join(page.split())
    evidence = read_json(run.folder / schema.EVIDENCE_FILE)
    released = ledger_page(run.ledger | {"release": True}, evidence)
    assert "Not shown" in released
    assert "| accuracy " not in released


def test_the_state_of_the_code_is_a_commit_or_not_a_checkout():
    state = code_state()
    checkout = re.fullmatch(r"[0-9a-f]{40}", state["commit"])
    assert checkout or state["commit"] == NOT_A_CHECKOUT
    assert isinstance(state["dirty"], bool) == bool(checkout)
