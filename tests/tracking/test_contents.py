import json

import pytest
from tracked_runs import finished, tracker

from dpsgd.experiment.track.client import connect
from dpsgd.experiment.track.push import push

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


def test_what_a_cell_is_in_mlflow(runs, held):
    folder = finished(runs, "abc")
    (folder / "model.pt").touch()
    told = push(runs, tracker()).page
    store = connect(tracker().address(runs))
    client = store.client
    experiment = client.get_experiment(store.experiment_id)
    (run,) = held(runs)["abc"]
    assert "mlflow ui" in told
    assert run.info.status == "FINISHED"
    assert run.info.run_name == "flat C=1 ε=3 s0"
    assert run.info.end_time - run.info.start_time == 1000
    assert run.data.params["clip.norm"] == "1.0"
    assert "privacy/epsilon" not in run.data.metrics
    assert run.data.params["guarantee"].startswith("ε = ∞")
    view = json.loads(experiment.tags["mlflow.sharedViewState.atlas"])
    assert "viewStateShareKey=atlas" in told
    assert "metrics.`kept/all/all`" in view["selectedColumns"]
    assert run.data.metrics["kept/label/8/x"] == 0.25
    recalls = [v for k, v in run.data.metrics.items() if k.startswith("eval/recall/")]
    assert sorted(recalls) == [0.1, 0.2, 0.3, 0.5]
    losses = client.get_metric_history(run.info.run_id, "train/loss")
    assert [(m.step, m.value) for m in losses] == [(1, 1.0), (2, 0.5)]
    assert run.data.metrics["private/kept/label/8"] == 0.5
    assert "private/kept/label/9" not in run.data.metrics
    files = {file.path for file in client.list_artifacts(run.info.run_id)}
    assert files == {"cell.json", "config.yaml", "slices.json"}
    names = json.loads(
        (runs / "mlartifacts" / run.info.run_id / "artifacts" / "slices.json").read_text()
    )
    assert set(names) == set(run.data.metrics)
    assert "eval/recall/label/8+x" in names.values()
    assert not (runs / "mlruns").exists()


def test_a_store_that_cannot_be_made_costs_no_run(tmp_path):
    finished(tmp_path, "abc")
    (tmp_path / "file").touch()  # MLflow would make a missing folder
    pushed = push(tmp_path, tracker(f"sqlite:///{tmp_path}/file/folder.db"))
    assert pushed.left == ("abc",)
    assert pushed.error
