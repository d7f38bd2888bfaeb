import shlex
from pathlib import Path

import pytest
from stores import closed_port
from tracked_runs import finished, tracker

from dpsgd import track

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")


def test_it_copies_what_is_missing_and_says_so(runs, capsys):
    finished(runs, "a")
    track.main(["push", str(runs)])
    assert "1 copied, 0 there already" in capsys.readouterr().out
    track.main(["push", str(runs)])
    shown = capsys.readouterr().out
    assert "0 copied, 1 there already" in shown
    assert "mlflow ui" in shown


def test_it_exits_with_1_and_the_command_if_the_store_is_dead(tmp_path, capsys):
    finished(tmp_path, "a")
    uri = f"http://me:geheim@127.0.0.1:{closed_port()}"
    with pytest.raises(SystemExit) as left:
        track.main(["push", str(tmp_path), "--uri", uri])
    shown = capsys.readouterr()
    assert left.value.code == 1
    assert "1 not tried" in shown.out
    assert "python -m dpsgd.track push" in shown.err
    assert "geheim" not in shown.out + shown.err


def test_no_such_folder_is_an_error(tmp_path, capsys):
    with pytest.raises(SystemExit) as left:
        track.main(["push", str(tmp_path / "nowhere")])
    assert left.value.code == 2
    assert "is no folder" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("uri", "experiment", "more"),
    [
        (None, "clipping-atlas", []),
        ("http://me:geheim@db:5000", "clipping-atlas", ["--uri", "http://me:***@db:5000"]),
        (None, "my own", ["--experiment", "my own"]),
    ],
)
def test_the_command_that_is_shown_names_what_is_not_usual(uri, experiment, more):
    shown = tracker(uri, experiment).address(Path("my runs")).push_command
    assert shlex.split(shown) == ["python", "-m", "dpsgd.track", "push", "my runs", *more]
