"""``python -m dpsgd.audit`` over planted runs: bounds side by side, shadows, exit codes."""

import pandas as pd
import pytest
from audited_runs import planted, said

from analysis import schema


def test_seeds_are_each_others_shadows_and_lira_beats_the_threshold(tmp_path, capsys):
    for seed in range(6):
        planted(tmp_path / "runs", seed)
    table = tmp_path / "attacks.csv"
    code, text = said([tmp_path / "runs", "--out", table], capsys)
    assert code == 0
    assert "flat C=1 ε=3 s5" in text
    rows = pd.read_csv(table)
    area = rows[(rows["metric"] == "membership_auc") & (rows["slice"] == "all")]
    by = area.set_index("attack")["value"]
    assert by["lira_online"] > by["loss"] + 0.2
    assert by["lira_offline"] > by["loss"] + 0.1
    assert set(rows["slice"]) == {"all", "rare", "common"}
    assert (rows["runs"] == 6).all()


def test_runs_of_another_threshold_are_no_shadows(tmp_path, capsys):
    for seed in range(2):
        planted(tmp_path, seed, norm=1.0)
        planted(tmp_path, seed, norm=2.0)
    table = tmp_path / "attacks.csv"
    assert said([tmp_path, "--out", table], capsys)[0] == 0
    rows = pd.read_csv(table)
    assert set(rows["label"]) == {"flat C=1 ε=3", "flat C=2 ε=3"}
    assert (rows["runs"] == 2).all()
    assert set(rows["attack"]) == {"loss"}  # too few for LiRA


def test_a_refuted_claim_is_said_and_exits_with_one(tmp_path, capsys):
    planted(tmp_path, 0)
    planted(tmp_path, 1, refuted=True, kind="gradient")
    code, text = said([tmp_path], capsys)
    assert code == 1
    assert "REFUTED" in text


def test_other_examples_and_runs_without_audit_are_refused(tmp_path, capsys):
    planted(tmp_path, 0)
    other = planted(tmp_path, 1)
    table = pd.read_parquet(other / schema.AUDIT_FILE)
    table["example"] = table["example"] + "x"
    table.to_parquet(other / schema.AUDIT_FILE)
    code, text = said([tmp_path], capsys)
    assert code == 2
    assert "other audited examples" in text
    (tmp_path / "empty").mkdir()
    code, text = said([tmp_path / "empty", "--runs-dir", tmp_path / "empty"], capsys)
    assert code == 2


def test_a_slice_that_is_memorised_more_is_told_from_all_others_with_its_interval(tmp_path, capsys):
    for seed in range(3):
        run = planted(tmp_path / "runs", seed, gain=0.2)
        table = pd.read_parquet(run / schema.AUDIT_FILE)
        rare = (table["slice"] == "rare") & table["included"]
        table["nll"] = table["nll"].where(~rare, 1e-3)
        table.to_parquet(run / schema.AUDIT_FILE)
    out = tmp_path / "attacks.csv"
    code, text = said([tmp_path / "runs", "--out", out], capsys)
    assert code == 0
    assert "for slices of any size" in " ".join(text.split())
    gap = pd.read_csv(out).set_index(["metric", "slice"]).loc["membership_auc_gap"]
    assert set(gap.index) == {"rare", "common"}
    assert gap.loc["rare", "lo"] > 0.2
    assert gap.loc["rare", "p"] < 1e-3
    assert gap.loc["common", "value"] == pytest.approx(-gap.loc["rare", "value"])
