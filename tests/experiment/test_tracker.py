import json
import posixpath
import subprocess
import sys

import pandas as pd
import pytest

from dpsgd.experiment.mlflow_names import legal_name, legal_names, metrics_of
from dpsgd.experiment.tracker import MlflowTracker, NoTracker, without_password

COLUMNS = ("split", "slice_kind", "slice", "metric", "value", "n", "lo", "hi", "release")


def _cell():
    rows = [
        ("test", "label", "8/x", "recall", 0.5, 10, 0.1, 0.9, "public"),
        ("test", "label", "9", "recall", None, 0, None, None, "public"),
        ("test", "label", "7", "recall", float("nan"), 0, None, None, "public"),
        ("test", "label", "..", "recall", 0.1, 1, None, None, "public"),
        ("test", "label", "8_x", "recall", 0.2, 1, None, None, "public"),
        ("test", "label", "8+x", "recall", 0.3, 1, None, None, "public"),
        ("validation", "label", "9", "nll", 0.7, 1, None, None, "public"),
        ("train", "label", "8/x", "kept", 0.25, 10, None, None, "private"),
        ("test", "all", "all", "tail_worst", 0.3, 10, 0.1, 0.9, "public"),
    ]
    return {
        "run_key": "abc", "label": "flat C=1 ε=3 s0", "rule": "flat", "mechanism": "clip_only",
        "private": False,
        "epsilon": "inf", "delta": 1e-4, "noise_multiplier": 0.0, "seconds": 1.0, "steps": 3,
        "finished_at": "2026-01-02T03:04:05+00:00",
        "config.clip.norm": 1.0,
        "metrics": dict(zip(COLUMNS, map(list, zip(*rows, strict=True)), strict=True)),
    }  # fmt: skip


def test_null_metrics_are_not_numbers_and_names_say_split_and_slice():
    found = metrics_of(_cell())
    assert found["eval/recall/label/8/x"] == 0.5
    assert found["validation/nll/label/9"] == 0.7
    assert found["kept/label/8/x"] == 0.25
    assert found["privacy/delta"] == 1e-4
    assert found["tail/worst"] == 0.3
    assert "eval/recall/label/9" not in found
    assert "eval/recall/label/7" not in found


@pytest.mark.parametrize(
    "name", ["a(b)[c],@%#=+&|", "a//b", "x" * 400, "/lead", "a/../b", "..", "a/"]
)
def test_names_are_made_legal(name):
    legal = legal_name(name)
    assert not set("()[],@%#=+&|") & set(legal)
    assert "//" not in legal
    assert posixpath.normpath(legal) == legal
    assert not legal.startswith(("/", ".."))
    assert len(legal) <= 250


def test_different_names_stay_different():
    names = ["k/a+b", "k/a_b", "k/a=b", "K/a_b", "x" * 400, "x" * 401, "plain"]
    legal = legal_names(names)
    assert len({v.casefold() for v in legal.values()}) == len(names)
    assert legal["plain"] == "plain"


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_a_cell_is_copied_once(tmp_path):
    folder = tmp_path / "abc"
    folder.mkdir()
    telemetry = [
        (step, kind, name, group, stat, value, release)
        for step in (1, 2)
        for kind, name, group, stat, value, release in [
            ("all", "all", "all", "loss", 1.0 / step, "private"),
            ("label", "8", "all", "loss", 99.0, "private"),
            ("label", "8", "all", "kept", 0.5, "private"),
            ("label", "8", "0", "kept", 99.0, "private"),
            ("label", "9", "all", "kept", float("nan"), "private"),
        ]
    ]
    columns = ["step", "slice_kind", "slice", "group", "stat", "value", "release"]
    pd.DataFrame(telemetry, columns=columns).to_parquet(folder / "telemetry.parquet")
    (folder / "cell.json").write_text(json.dumps(_cell()))
    tracker = MlflowTracker("mlflow", None, "clipping-atlas")
    tracker.open(tmp_path)
    told = [tracker.upload(folder, _cell()) for _ in range(2)]
    assert "mlflow ui" in told[0]
    from mlflow import MlflowClient  # noqa: PLC0415  (as slow as it is warned about)
    from mlflow.entities import ViewType  # noqa: PLC0415

    client = MlflowClient(tracking_uri=f"sqlite:///{tmp_path / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("clipping-atlas")
    (run,) = client.search_runs([experiment.experiment_id], run_view_type=ViewType.ALL)
    assert run.info.status == "FINISHED"
    assert run.data.tags["run_key"] == "abc"
    assert run.data.params["clip.norm"] == "1.0"
    assert "privacy/epsilon" not in run.data.metrics
    assert run.data.params["guarantee"].startswith("ε = ∞")
    view = json.loads(experiment.tags["mlflow.sharedViewState.atlas"])
    assert "viewStateShareKey=atlas" in told[0]
    assert "metrics.`kept/all/all`" in view["selectedColumns"]
    assert run.data.metrics["kept/label/8/x"] == 0.25
    recalls = [v for k, v in run.data.metrics.items() if k.startswith("eval/recall/")]
    assert sorted(recalls) == [0.1, 0.2, 0.3, 0.5]
    losses = client.get_metric_history(run.info.run_id, "train/loss")
    assert [(m.step, m.value) for m in losses] == [(1, 1.0), (2, 0.5)]
    assert run.data.metrics["private/kept/label/8"] == 0.5
    assert "private/kept/label/9" not in run.data.metrics
    files = {f.path for f in client.list_artifacts(run.info.run_id)}
    assert files == {"cell.json", "slices.json"}
    names = json.loads(
        (tmp_path / "mlartifacts" / run.info.run_id / "artifacts" / "slices.json").read_text()
    )
    assert set(names) == set(run.data.metrics)
    assert "eval/recall/label/8+x" in names.values()
    assert not (tmp_path / "mlruns").exists()
    assert (tmp_path / "mlartifacts").is_dir()


def test_a_broken_tracker_costs_no_run(tmp_path, caplog):
    folder = tmp_path / "abc"
    folder.mkdir()
    (tmp_path / "file").touch()  # MLflow would make a missing folder
    tracker = MlflowTracker("mlflow", f"sqlite:///{tmp_path}/file/folder.db", "x")
    tracker.open(tmp_path)
    assert tracker.upload(folder, _cell()) is None
    assert "MLflow" in caplog.text


def test_no_tracker_leaves_nothing(tmp_path):
    tracker = NoTracker("none")
    tracker.open(tmp_path)
    assert tracker.upload(tmp_path, _cell()) is None
    assert not list(tmp_path.iterdir())


def test_mlflow_is_imported_only_when_used():
    code = "import sys, dpsgd.experiment.tracker; sys.exit('mlflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("postgresql://me:geheim@db:5432/x", "postgresql://me:***@db:5432/x"),
        ("https://me:ge@heim@host/p?q=1", "https://me:***@host/p?q=1"),
        ("https://host:5000", "https://host:5000"),
        ("sqlite:////a/b.db", "sqlite:////a/b.db"),
    ],
)
def test_no_password_is_ever_shown(uri, shown):
    assert without_password(uri) == shown
