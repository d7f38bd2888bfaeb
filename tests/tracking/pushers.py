"""A process that pushes at the same moment as others do."""

from tracked_runs import tracker

from dpsgd.experiment.track.client import connect
from dpsgd.experiment.track.push import push

_AT_ONCE = []


def keep(barrier):
    _AT_ONCE.append(barrier)


def push_at_once(runs):
    connect(tracker().address(runs))  # seconds of imports, which no two processes take alike
    _AT_ONCE[0].wait(180)
    return push(runs, tracker())
