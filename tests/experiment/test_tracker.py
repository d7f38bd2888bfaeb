import json

import pytest

from dpsgd.experiment.tracker import MlflowTracker, legal_name, metrics_of

COLUMNS = ("split", "slice_kind", "slice", "metric", "value", "n", "lo", "hi", "release")


def _cell():
    rows = [
        ("test", "label", "8/x", "recall", 0.5, 10, 0.1, 0.9, "public"),
        ("test", "label", "9", "recall", None, 0, None, None, "public"),
        ("train", "label", "8/x", "kept", 0.25, 10, None, None, "private"),
        ("test", "all", "all", "tail_worst", 0.3, 10, 0.1, 0.9, "public"),
    ]
    return {
        "run_key": "abc", "label": "flat C=1 ε=3 s0", "rule": "flat", "mechanism": "private",
        "epsilon": "inf", "noise_multiplier": 0.0, "seconds": 1.0, "steps": 3,
        "config.clip.norm": 1.0,
        "metrics": dict(zip(COLUMNS, map(list, zip(*rows, strict=True)), strict=True)),
    }  # fmt: skip


def test_null_metrics_are_not_numbers_and_names_say_split_and_slice():
    found = metrics_of(_cell())
    assert found["eval/recall/label/8_x"] == 0.5
    assert found["kept/label/8_x"] == 0.25
    assert found["tail/worst"] == 0.3
    assert "eval/recall/label/9" not in found


@pytest.mark.parametrize("name", ["a(b)[c],@%#=+&|", "a//b", "x" * 400, "/lead"])
def test_names_are_made_legal(name):
    legal = legal_name(name)
    assert not set("()[],@%#=+&|") & set(legal)
    assert "//" not in legal
    assert not legal.startswith("/")
    assert len(legal) <= 250


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_a_cell_is_copied_once(tmp_path):
    folder = tmp_path / "abc"
    folder.mkdir()
    (folder / "cell.json").write_text(json.dumps(_cell()))
    tracker = MlflowTracker("mlflow", None, "clipping-atlas")
    tracker.open(tmp_path)
    told = [tracker.upload(folder, _cell()) for _ in range(2)]
    assert "mlflow ui" in told[0]
    from mlflow import MlflowClient  # noqa: PLC0415  (as slow as it is warned about)

    client = MlflowClient(tracking_uri=f"sqlite:///{tmp_path / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("clipping-atlas")
    (run,) = client.search_runs([experiment.experiment_id])
    assert run.info.status == "FINISHED"
    assert run.data.tags["run_key"] == "abc"
    assert run.data.metrics["kept/label/8_x"] == 0.25
    assert (tmp_path / "mlartifacts").is_dir()


def test_a_broken_tracker_costs_no_run(tmp_path, caplog):
    folder = tmp_path / "abc"
    folder.mkdir()
    tracker = MlflowTracker("mlflow", f"sqlite:///{tmp_path}/no/such/folder.db", "x")
    tracker.open(tmp_path)
    assert tracker.upload(folder, _cell()) is None
    assert "MLflow" in caplog.text
