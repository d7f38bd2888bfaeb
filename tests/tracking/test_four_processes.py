import subprocess
import sys
import time
from pathlib import Path

import pytest
from tracked_runs import cell, tracker

from dpsgd.experiment.mlflow_names import metrics_of
from dpsgd.experiment.track.client import connect
from dpsgd.experiment.track.push import push

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
CELLS = 3
HALF = 150_000
"""Bytes of a database in which some tables are missing: an empty one has 950,000."""
ONE = """
import sys
sys.path.insert(0, {here!r})
from pathlib import Path
from tracked_runs import cell, finished, tracker
for number in range({cells}):
    folder = Path({runs!r}, f"{{sys.argv[1]}}{{number}}")
    tracker().open(folder)
    finished(folder.parent, folder.name)
    tracker().upload(folder, cell(folder.name))
"""


@pytest.mark.slow
def test_four_processes_that_find_no_database_lose_no_metric(tmp_path, held):
    code = ONE.format(here=str(Path(__file__).parent), runs=str(tmp_path), cells=CELLS)
    four = [
        subprocess.Popen([sys.executable, "-c", code, name], stderr=subprocess.PIPE)
        for name in "abcd"
    ]
    told = [process.communicate(timeout=240)[1].decode() for process in four]
    assert [process.returncode for process in four] == [0] * 4, told
    assert push(tmp_path, tracker()).complete
    found = held(tmp_path)
    assert sorted(found) == [f"{name}{number}" for name in "abcd" for number in range(CELLS)]
    client = connect(tracker().address(tmp_path)).client
    for runs in found.values():
        (run,) = runs
        assert run.info.status == "FINISHED"
        assert len(run.data.metrics) == len(metrics_of(cell())) + 2
        losses = client.get_metric_history(run.info.run_id, "train/loss")
        assert [(m.step, m.value) for m in losses] == [(1, 1.0), (2, 0.5)]


@pytest.mark.slow
def test_a_database_is_made_by_one_of_many(tmp_path):
    three = [subprocess.Popen(connecting(tmp_path), stdout=subprocess.PIPE) for _ in range(3)]
    assert len({process.communicate(timeout=240)[0] for process in three}) == 1
    assert [process.returncode for process in three] == [0] * 3


@pytest.mark.slow
def test_a_process_killed_while_it_makes_the_database_leaves_none(tmp_path):
    with subprocess.Popen(connecting(tmp_path)) as maker:
        while sum(file.stat().st_size for file in tmp_path.glob("mlflow.d*[bw]")) < HALF:
            assert maker.poll() is None
            time.sleep(0.001)
        maker.kill()
    store = connect(tracker().address(tmp_path))
    assert list(store.runs("")) == []
    assert [file.name for file in tmp_path.glob("mlflow.db*")] == ["mlflow.db"]


def connecting(runs):
    code = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from pathlib import Path
from tracked_runs import tracker
from dpsgd.experiment.track.client import connect
print(connect(tracker().address(Path({str(runs)!r}))).experiment_id)
"""
    return [sys.executable, "-c", code]
