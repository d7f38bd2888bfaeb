"""A child says how it ended, and nothing of it reaches who waits for it."""

import os
import signal
import socket
import subprocess
import sys
import time

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from dpsgd.experiment.files import write_json
from dpsgd.experiment.processes import is_running
from dpsgd.experiment.sweep.children import in_child
from dpsgd.experiment.sweep.failed import only
from dpsgd.experiment.sweep.halt import NO_MORE, NOW, Halt
from dpsgd.experiment.sweep.killed import mark_killed
from dpsgd.experiment.terminated import Terminated


def call(target, *args, folder, end=lambda: False):
    return in_child(target, *args, log=folder / "log.txt", private=False, end=end)


def told_and_returned(tell, value):
    tell({"a": 1})
    tell({"b": 2})
    sys.stdout.write("said\n")
    return value


def preloaded(tell):
    loaded = [name for name in ("torch", "dp_accounting", "mlflow") if name in sys.modules]
    return loaded, getattr(sys.modules["__main__"], "__file__", None)


def raises(tell):
    raise LookupError("first\nsecond")


def leaves(tell):
    tell({"known": True})
    os._exit(9)


def killed(tell):
    tell({"known": True})
    os.kill(os.getpid(), signal.SIGKILL)


def interrupted(tell):
    os.kill(os.getpid(), signal.SIGINT)
    return "unmoved"


def tidies(tell, file):
    file.touch()
    try:
        time.sleep(60)
    except Terminated as error:
        file.write_text(error.stopped_by)
        raise


def test_a_child_tells_returns_and_prints_into_its_log(tmp_path):
    result = call(told_and_returned, [1, 2], folder=tmp_path)
    assert (result.value, result.error, result.exitcode) == ([1, 2], None, 0)
    assert result.told == {"a": 1, "b": 2}
    assert (tmp_path / "log.txt").read_text() == "said\n"


def test_a_child_has_torch_and_neither_mlflow_nor_the_main_module(tmp_path):
    assert call(preloaded, folder=tmp_path).value == (["torch", "dp_accounting"], None)


def test_what_is_raised_arrives_in_one_line_with_its_traceback_in_the_log(tmp_path):
    result = call(raises, folder=tmp_path)
    assert result.error == ("LookupError", "first")
    assert "LookupError: first\nsecond" in (tmp_path / "log.txt").read_text()


@pytest.mark.parametrize(("how", "code", "by"), [(leaves, 9, None), (killed, -9, "SIGKILL")])
def test_what_a_child_told_survives_it(how, code, by, tmp_path):
    result = call(how, folder=tmp_path)
    assert (result.value, result.error, result.exitcode, result.signal) == (None, None, code, by)
    assert result.told == {"known": True}


def test_ctrl_c_is_not_for_children(tmp_path):
    assert call(interrupted, folder=tmp_path).value == "unmoved"


def test_a_child_that_is_asked_to_end_does_so_in_order(tmp_path):
    file = tmp_path / "tidied"
    result = call(tidies, file, folder=tmp_path, end=file.exists)
    assert result.error == ("Terminated", "143")
    assert file.read_text() == "SIGTERM"


def test_a_private_log_is_its_owners_alone(tmp_path):
    log = tmp_path / "log.private.txt"
    in_child(told_and_returned, 1, log=log, private=True, end=lambda: False)
    assert log.stat().st_mode & 0o077 == 0


def test_only_a_running_status_of_that_very_process_becomes_killed(tmp_path):
    status = {"status": "RUNNING", "pid": 12, "host": socket.gethostname(), "step": 4}
    for change, marked in (
        ({}, True), ({"pid": 13}, False), ({"host": "x"}, False), ({"status": "FINISHED"}, False),
    ):  # fmt: skip
        write_json(tmp_path / "status.json", status | change)
        assert mark_killed(tmp_path, 12, "SIGKILL", release=False) == marked


def test_a_process_that_has_ended_is_not_alive_though_nobody_has_waited_for_it():
    with subprocess.Popen(["sleep", "60"]) as process:
        assert is_running(process.pid)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert not is_running(process.pid)
    assert not is_running(process.pid)


def test_what_was_asked_of_a_sweep_is_never_weakened(tmp_path):
    halt = Halt(tmp_path)
    assert halt.asked() is None
    for ask, stands in ((NO_MORE, NO_MORE), (NOW, NOW), (NO_MORE, NOW)):
        halt.ask(ask)
        assert halt.asked() == stands


def test_the_keys_of_the_printed_command_are_read_back_as_words():
    keys = ["1234e567aaaa", "00012345bbbb", "deadbeef0123"]
    word = only(["-m", "a=1", 'hydra.sweeper.only=["x"]'], keys).split()[-1].strip("'")
    value = OverridesParser.create().parse_override(word).value()
    assert [str(key) for key in value] == ["1234e567", "00012345", "deadbeef"]
