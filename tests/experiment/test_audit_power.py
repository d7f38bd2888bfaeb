"""What an audit could have said at most: where even right guesses refute nothing, it says so."""

import json

import pytest
from audited_runs import planted, said

from analysis import schema
from dpsgd import load, train
from dpsgd.auditing.curves import gaussian_curve
from dpsgd.auditing.guesses import Guesses, refutes
from dpsgd.auditing.power import all_right, reach
from dpsgd.experiment.audit_text import audit_line, powerless
from dpsgd.experiment.verify.run import verify

EXPOSURES = [
    ("all", "all", "exposure", 1.53, 65, 1.2, 1.9), ("label", "8", "exposure", 2.5, 7, 1.0, 4.0),
    ("label", "8", "exposure_gap", 1.1, 7, -0.2, 2.4),
    ("column", "a city with a name of many letters", "exposure", 0.75, 9, None, None),
]  # fmt: skip


def changed(run, **values):
    file = run / schema.CELL_FILE
    file.write_text(json.dumps(json.loads(file.read_text()) | values))


def with_exposures(run, more=0.0):
    names = ("slice_kind", "slice", "metric", "value", "n", "lo", "hi")
    columns = zip(names, zip(*EXPOSURES, strict=True), strict=True)
    metrics = {name: list(column) for name, column in columns}
    metrics["value"] = [value + more for value in metrics["value"]]
    changed(run, audit="canaries", metrics=metrics | {"split": ["audit"] * len(EXPOSURES)})


@pytest.mark.parametrize("made", [1, 4, 20, 200])
def test_no_number_of_right_guesses_says_more_than_all_of_them(made):
    most = reach(Guesses(1000, made, 0), 1e-5, 0.05)
    for correct in (0, made // 2, made):
        guesses = Guesses(1000, made, correct)
        assert reach(guesses, 1e-5, 0.05) == most
        if refutes(guesses, gaussian_curve(0.5), 0.05):
            assert refutes(all_right(guesses), gaussian_curve(0.5), 0.05)


def test_four_guesses_bound_nothing_and_two_hundred_do():
    assert reach(Guesses(20, 4, 4), 1e-5, 0.05).largest == 0
    assert reach(Guesses(1000, 200, 0), 1e-5, 0.05).largest > 3


def test_a_verdict_that_no_guesses_could_change_is_no_verdict(tmp_path, capsys):
    changed(planted(tmp_path, 0), audit_guesses=4, audit_correct=2)
    changed(planted(tmp_path, 1, norm=2.0), audit_could_refute=True, audit_reach=3.25)
    changed(planted(tmp_path, 2, norm=4.0), audit_could_refute=False, audit_reach=1.25)
    code, text = said([tmp_path], capsys)
    rows = {line.split()[1]: line.rstrip() for line in text.splitlines() if line[:6] == "flat C"}
    assert code == 0
    assert rows["C=1"].endswith("0  no power")
    assert rows["C=2"].endswith("3.25  holds")
    assert rows["C=4"].endswith("1.25  no power")


def test_a_refuted_claim_stays_refuted_whatever_the_bounds_say():
    cell = {"audit_refuted": True, "audit_could_refute": True, "audit_epsilon": 0.1,
            "audit_reach": 0.2, "epsilon": 3.0}  # fmt: skip
    assert not powerless(cell)


def test_a_run_keeps_what_its_guesses_could_have_refuted(tmp_path):
    run = train({
        "debug": "fast", "audit": "gradient", "audit.canaries": 20, "tracker": "none",
        "runs_dir": str(tmp_path),
    })  # fmt: skip
    cell = load(run.folder).cell
    assert cell["audit_could_refute"] is False
    assert cell["audit_reach"] == 0
    assert "could not have been refuted by 4 guesses" in audit_line(cell)
    assert cell["label"] == "flat C=1 ε=3 audit=gradient s0"
    assert verify(run.folder, accountants=True).holds


def test_exposure_is_printed_by_slice_within_80_columns(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    run = planted(tmp_path / "one", 0)
    with_exposures(run)
    text = said([tmp_path / "one"], capsys)[1]
    assert "label 8" in text
    assert "2.50 1.00–4.00" in text
    assert "+1.10 −0.20 to +2.40" in text
    assert max(map(len, text.splitlines())) <= 80


def test_exposure_of_several_seeds_is_their_mean_and_how_far_they_lie_apart(tmp_path, capsys):
    for seed in range(2):
        with_exposures(planted(tmp_path, seed), more=float(seed))
    line = next(line for line in said([tmp_path], capsys)[1].splitlines() if "label 8" in line)
    assert line.split()[2:5] == ["14", "3.00", "2.50–3.50"]
