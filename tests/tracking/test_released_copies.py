import pytest
from tracked_runs import finished, tracker, unfinished

from dpsgd.errors import PrivacyError
from dpsgd.experiment.track.contents import contents
from dpsgd.experiment.track.ended import ended
from dpsgd.experiment.track.push import push
from dpsgd.experiment.track.summary import table

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
RELEASED = {"config.release": True}
QUOTED = "record 17 of Ada Lovelace"


def test_of_a_released_run_only_what_its_gate_lets_out_is_copied(tmp_path):
    folder = finished(tmp_path, "a", steps=(), mean_age=41, **RELEASED)
    (folder / "secret.key").write_text("geheim")
    (folder / "traceback.private.txt").write_text(QUOTED)
    made = contents(folder, *ended(folder))
    assert {name for name, *_ in made.metrics} & {"private/kept/label/8", "kept/label/8/x"} == set()
    assert made.start == made.end
    assert {file.name for file in made.files} == {"cell.json", "config.yaml"}


@pytest.mark.parametrize("name", ["cell.json", "config.yaml", "telemetry.parquet"])
def test_a_released_run_that_is_not_as_sealed_stays(tmp_path, name):
    folder = finished(tmp_path, "a", **RELEASED)
    with (folder / name).open("ab") as opened:
        opened.write(b"\n")
    with pytest.raises(PrivacyError, match=name):
        contents(folder, *ended(folder))
    other = finished(tmp_path, "b")
    with (other / name).open("ab") as opened:
        opened.write(b"\n")
    if name != "telemetry.parquet":
        assert contents(other, *ended(other)).run_key == "b"


@pytest.mark.parametrize("release", [True, False])
def test_a_traceback_of_a_released_run_never_leaves(runs, release):
    trace = f"Traceback\nValueError: {QUOTED}"
    unfinished(runs, "a", release=release, stopped_by="ValueError", traceback=trace)
    assert push(runs, tracker()).complete
    left = [file for file in (runs / "mlartifacts").rglob("*") if file.is_file()]
    left += [runs / "mlflow.db"]
    assert any(QUOTED.encode() in file.read_bytes() for file in left) is not release
    assert (QUOTED in str(table(runs, ["a"])["error"][0])) is not release


def test_a_run_of_which_nobody_knows_whether_it_is_released_counts_as_such(tmp_path):
    folder = unfinished(tmp_path, "a", traceback=QUOTED)
    (folder / "config.yaml").write_text("[")
    assert QUOTED not in table(tmp_path, ["a"])["error"][0]
