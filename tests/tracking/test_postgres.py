import time

import psycopg2
import pytest
from servers import TrackingServer, postgres
from tracked_runs import cell, finished, tracker

from dpsgd.experiment.mlflow_names import metrics_of
from dpsgd.experiment.track import pushing as holding
from dpsgd.experiment.track.push import push
from dpsgd.experiment.track.pushing import pushing

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
CELLS, STOPPED_AT, STEPS = 30, 6, 40
DOWN = 5.0
ROWS = """
select t.value, r.status, m.key, m.step, m.value
from runs r join tags t on t.run_uuid = r.run_uuid and t.key = 'run_key'
join metrics m on m.run_uuid = r.run_uuid where r.lifecycle_stage = 'active'
"""


@pytest.mark.slow
def test_a_server_on_postgresql_that_is_stopped_meanwhile_loses_no_metric(tmp_path, monkeypatch):
    monkeypatch.setattr(holding, "AT_THE_END", 10.0)
    keys, waited = [f"k{number}" for number in range(CELLS)], []
    with postgres() as database:
        server = TrackingServer(database, tmp_path / "artifacts")
        server.start()
        try:
            server.wait()
            runs, store = tmp_path / "runs", tracker(server.uri)
            with pushing(store, runs, "ours", keys, lambda line: None):
                for number, key in enumerate(keys):
                    began = time.monotonic()
                    finished(runs, key, steps=range(1, STEPS + 1))
                    waited.append(time.monotonic() - began)
                    time.sleep(0.25)  # it trains
                    if number == STOPPED_AT:
                        server.stop()
                        stopped = time.monotonic()
                    if number > STOPPED_AT and stopped and time.monotonic() - stopped > DOWN:
                        server.start()
                        stopped = None
                if stopped:
                    server.start()
            server.wait()
            assert push(runs, store).complete
            assert not push(runs, store).copied
        finally:
            server.stop()
        with psycopg2.connect(database) as connection, connection.cursor() as cursor:
            cursor.execute(ROWS)
            rows = cursor.fetchall()
        connection.close()
    assert {status for _, status, *_ in rows} == {"FINISHED"}
    found = {key: [(m, step, v) for k, _, m, step, v in rows if k == key] for key in keys}
    for of_one in found.values():
        losses = sorted((step, v) for m, step, v in of_one if m == "train/loss")
        assert losses == [(step, 1 / step) for step in range(1, STEPS + 1)]
        assert len(of_one) == len(metrics_of(cell())) + 2 * STEPS  # the loss and one slice
    assert max(waited) < 5.0  # one call to a server that hangs takes longer
