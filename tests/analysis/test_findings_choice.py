from __future__ import annotations

import json
import re
from typing import Any

import pytest
from planted_cells import baseline, cell, set_value, sweep, write
from planted_run_files import table_of

from analysis.cells import read_cells
from analysis.findings.findings import findings
from analysis.findings.report import write_findings
from analysis.lines import family

NO_PREDICTIONS = ["run_key", "example", "label", "predicted", "confidence"]
AUDITED: dict[str, Any] = {"audit": "canaries", "config.audit.name": "canaries"}


def scored(made, score):
    for metric in ("macro_accuracy", "tail_band"):
        set_value(made, {"split": "validation", "metric": metric}, score, 1000)
    set_value(made, {"split": "validation", "metric": "accuracy"}, score, 1000)
    return made


def chosen(cells, folder):
    report = write_findings(table_of(folder / "runs", *cells), None, folder, [])
    return next(said for said in report.sentences if "favours" in said or "recommended" in said)


def lucky(rule: str, seeds: int = 3, **changed: Any):
    made = [cell(rule, 1.0, seed, more="other", **changed) for seed in range(seeds)]
    return [scored(content, 0.99) for content in made]


def test_an_audited_run_is_never_chosen(tmp_path):
    cells = [*sweep(["flat"], [0.1, 1.0], 2), *lucky("per_layer", 9, **AUDITED)]
    said = chosen(cells, tmp_path)
    assert "favours flat at C = " in said
    assert "audit" not in said
    assert "9 audited runs" in (tmp_path / "findings.md").read_text(encoding="utf-8")


def test_where_all_runs_were_audited_none_is_chosen(tmp_path):
    said = chosen([*lucky("flat", **AUDITED), baseline()], tmp_path)
    assert "No rule is recommended: every private run was audited (3 in all)" in said


OTHER = [
    ({"delta": 1e-5, "config.delta": 1e-5}, "δ = 1e-5"),
    ({"n_units": 4600}, "n = 4600"),
    ({"steps_planned": 600, "steps": 600}, "600 steps"),
    ({"unit": "user", "unit_name": "person"}, "unit user, unit name person"),
]


@pytest.mark.parametrize(("changed", "told"), OTHER)
def test_only_runs_on_one_footing_are_compared(tmp_path, changed, told):
    table = table_of(tmp_path, *sweep(["flat"], [0.1, 1.0], 3), *lucky("per_layer", **changed))
    report = write_findings(table, None, tmp_path, [])
    assert "favours flat at C" in " ".join(report.sentences)
    assert f"Not among them: 3 runs with {told}" in " ".join(report.sentences)
    tests = findings(family(table), table.iloc[:0].reindex(columns=NO_PREDICTIONS))
    assert {test.kind for test in tests} >= {"threshold", "gradient"}
    assert "rule" not in {test.kind for test in tests}


def ledger(folder, **changed):
    content = {"unit": "record", "data_fingerprint": "a", "n_units": 3600, "delta": 1e-4}
    content |= {"private": True, **changed}
    (folder / "ledger.json").write_text(json.dumps(content), encoding="utf-8")


def command(runs, out):
    said = " ".join(write_findings(read_cells(runs).table, runs, out, []).sentences)
    (found,) = re.findall(r"dpsgd\.ledger compose (.*?) says", said)
    return found


def test_the_command_names_the_folder_only_where_all_of_it_can_be_added_up(tmp_path):
    own, other = sweep(["flat"], [0.1, 1.0], 2), lucky("per_layer", 1, n_units=4600)
    runs = write(tmp_path / "the runs", *own, *other)
    for content in own:
        ledger(runs / content["run_key"], private=bool(content["private"]))
    assert command(runs, tmp_path) == f"'{runs}'"
    ledger(runs / other[0]["run_key"], n_units=4600)
    unfinished = runs / "unfinished"
    unfinished.mkdir()
    ledger(unfinished)
    private = [content["run_key"] for content in own if content["private"]]
    words = command(runs, tmp_path).split()
    assert words[:3] == ["--runs-dir", *f"'{runs}'".split()]
    named = {key for word in words[3:] for key in [p.name for p in runs.iterdir()]
             if key.startswith(word)}  # fmt: skip
    assert named == {*private, "unfinished"}


def test_one_lucky_seed_chooses_no_threshold_and_silences_no_rule(tmp_path):
    cells = [*sweep(["flat", "per_layer"], [0.1, 1.0], 3), scored(cell("flat", 5.0, 0), 0.99)]
    table = table_of(tmp_path, *cells)
    (flat,) = [line for line in family(table).lines if line.rule == "flat"]
    assert flat.norm(flat.best or 0) in (0.1, 1.0)
    said = write_findings(table, None, tmp_path, []).sentences
    assert not any("C = 5" in sentence for sentence in said if "favours" in sentence)
    assert any("1 pair with 1 seed was passed over" in sentence for sentence in said)
    text = (tmp_path / "findings.md").read_text(encoding="utf-8")
    assert "Passed over in choosing the best C, with 1 seed" in text
    assert "flat at C = 5" in text
    tests = findings(family(table), table.iloc[:0].reindex(columns=NO_PREDICTIONS))
    assert {test.effect.seeds for test in tests if test.kind in ("rule", "erasure")} == {3}


def test_a_rule_with_one_seed_only_is_named_where_others_have_more(tmp_path):
    cells = [*sweep(["flat"], [0.1, 1.0], 3), cell("per_layer", 1.0, 0), cell("psac", 1.0, 0)]
    write_findings(table_of(tmp_path, *cells), None, tmp_path, [])
    text = (tmp_path / "findings.md").read_text(encoding="utf-8")
    assert (
        "Not tested, with 1 seed at every C, where a test needs 2: per_layer at ε = 3; psac" in text
    )


def test_with_one_seed_each_the_best_is_still_the_best(tmp_path):
    one = [scored(cell("flat", norm, 0), score) for norm, score in ((0.1, 0.5), (1.0, 0.9))]
    (line,) = family(table_of(tmp_path, *one)).lines
    assert (line.norm(line.best or 0), line.passed_over) == (1.0, ())


@pytest.mark.parametrize(("accuracy", "told"), [(0.9, "that is flat at C = 0.1"), (0.1, ", too")])
def test_where_mean_and_tail_choose_another_threshold_than_accuracy_it_is_said(
    tmp_path, accuracy, told
):
    cells = sweep(["flat"], [0.1, 1.0], 2)
    for content in cells:
        small = content["clip_norm"] == 0.1
        scored(content, 0.3 if small else 0.6)
        set_value(content, {"split": "validation", "metric": "accuracy", "slice": "all"},
                  accuracy if small else 0.5, 1000)  # fmt: skip
    said = write_findings(table_of(tmp_path, *cells), None, tmp_path, []).sentences
    assert any("favours flat at C = 1:" in sentence for sentence in said)
    assert any("by validation accuracy alone" in one and told in one for one in said)


def test_a_front_of_many_equals_names_a_few(tmp_path):
    cells = sweep([f"rule{place}" for place in range(9)], [1.0], 2)
    write_findings(table_of(tmp_path, *cells), None, tmp_path, [])
    text = (tmp_path / "findings.md").read_text(encoding="utf-8")
    (front,) = [line for line in text.splitlines() if "Also on the front" in line]
    assert "; and 3 more" in front
    assert front.count("on test") == 5
