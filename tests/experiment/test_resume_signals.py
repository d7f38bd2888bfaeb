"""Real signals: SIGKILL leaves what a resume needs, SIGTERM and Ctrl-C end between two steps."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from resuming import TINY, bits, inside, kept, left, run, steps_seen

import dpsgd
from analysis import schema
from dpsgd.experiment.files import read_json
from dpsgd.experiment.resume import interruptible
from dpsgd.experiment.terminated import Terminated
from dpsgd.experiment.verify import verify

LONG = {"steps": 60, "telemetry.window": 7, "epsilon": 60.0, "clip": "adaptive"}
SLOWLY = """
import json, sys, time
from pathlib import Path
from dpsgd import train

def step(number, loss, clipped):
    print(number, flush=True)
    time.sleep(0.05)

train(json.loads(sys.argv[1]), step)
"""


@pytest.fixture(autouse=True)
def _ctrl_c_is_heard():
    # However the tests were started: what a shell puts into the background ignores it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return bits(run(tmp_path_factory.mktemp("whole"), LONG))


def ended(folder, number, after, **settings):
    """Train in a process of its own, send it ``number`` while a step runs, return its exit code."""
    with inside(folder):
        child = subprocess.Popen(
            [sys.executable, "-c", SLOWLY, json.dumps(TINY | LONG | settings)],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env=os.environ | {"PYTHONPATH": str(Path(dpsgd.__file__).parents[1])},
        )  # fmt: skip
    assert child.stdout is not None
    for line in child.stdout:
        if int(line) == after:
            child.send_signal(number)
            break
    child.stdout.read()
    child.stdout.close()
    child.wait(timeout=60)
    (found,) = (folder / "runs").glob(f"*/{schema.STATUS_FILE}")
    return child.returncode, found.parent.resolve()


def test_sigkill(tmp_path, whole):
    code, folder = ended(tmp_path, signal.SIGKILL, 11)
    assert code == -signal.SIGKILL
    assert read_json(folder / schema.STATUS_FILE)["status"] == "RUNNING"
    verdict = verify(folder, accountants=False)
    assert verdict.holds
    assert "its process is gone" in verdict.state
    first = kept(folder)[0]
    assert 10 <= first <= 13
    seen, again = steps_seen(tmp_path, LONG)
    assert seen[0] == first + 1
    assert bits(again) == whole
    assert left(again) == []


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_an_orderly_end_keeps_the_step_that_was_running(tmp_path, whole, number, code):
    returned, folder = ended(tmp_path, number, 9, checkpoint=3600.0)
    # Python ends by the signal itself where nobody catches KeyboardInterrupt; a shell says 130.
    assert returned in (code, -number)
    status = read_json(folder / schema.STATUS_FILE)
    assert status["status"] == "KILLED"
    assert kept(folder) == [status["step"]]
    assert 9 <= status["step"] <= 11
    seen, again = steps_seen(tmp_path, LONG)
    assert seen == list(range(status["step"] + 1, 61))
    assert bits(again) == whole


def test_a_first_signal_waits_for_the_step_and_a_second_for_nothing():
    done = []

    def step(interrupts, *numbers):
        with interrupts.between_steps():
            for number in numbers:
                signal.raise_signal(number)
            done.append(interrupts.asked)
            interrupts.end()
            done.append("went on")

    for numbers, error in (((signal.SIGTERM,), Terminated), ((signal.SIGINT,), KeyboardInterrupt)):
        with interruptible() as interrupts, pytest.raises(error):
            step(interrupts, *numbers)
    assert done == [True, True]
    with interruptible() as interrupts, pytest.raises(KeyboardInterrupt):
        step(interrupts, signal.SIGTERM, signal.SIGINT)
    assert done == [True, True]
    assert Terminated().code == 143


def test_outside_of_training_it_ends_at_once_and_handlers_are_put_back():
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    for number, error in ((signal.SIGTERM, Terminated), (signal.SIGINT, KeyboardInterrupt)):
        with pytest.raises(error), interruptible():
            signal.raise_signal(number)
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


def test_a_signal_while_the_last_step_runs_is_not_forgotten():
    with interruptible() as interrupts, pytest.raises(Terminated), interrupts.between_steps():
        signal.raise_signal(signal.SIGTERM)


def test_handlers_of_others_and_other_threads_are_left_alone():
    seen = []
    mine = signal.signal(signal.SIGTERM, lambda number, frame: seen.append(number))
    try:
        with interruptible() as interrupts:
            signal.raise_signal(signal.SIGTERM)
        assert (seen, interrupts.asked) == ([signal.SIGTERM], False)
    finally:
        signal.signal(signal.SIGTERM, mine)
    inside_thread = []

    def elsewhere():
        with interruptible() as interrupts:
            inside_thread.append((signal.getsignal(signal.SIGTERM), interrupts.asked))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert inside_thread == [(mine, False)]
