"""What a sweep holds around its cells, so that they reach MLflow and none of them waits for it."""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from analysis import schema
from dpsgd.errors import folded
from dpsgd.experiment.files import read_json
from dpsgd.experiment.track.address import Address
from dpsgd.experiment.track.child import Child
from dpsgd.experiment.track.ended import ends_of
from dpsgd.experiment.tracker import MlflowTracker, NoTracker, Tracker

log = logging.getLogger(__name__)

AT_THE_END = 30.0
"""Seconds that a sweep which is over waits for what is not copied yet."""
INTERRUPTED = 3.0
_MODULE = "dpsgd.experiment.track.following"


@contextlib.contextmanager
def pushing(
    tracker: Tracker,
    runs: Path,
    name: str,
    keys: Sequence[str],
    tell: Callable[[str], None] | None = None,
) -> Iterator[None]:
    """Copy the cells ``keys`` of the sweep ``name`` to the tracker while the body runs them.

    One process beside the sweep makes the store ready, follows the run folders, copies what has
    ended, and at the end the rest and the summary run. Cells themselves must have no tracker. A
    store that is locked, slow or dead raises nothing and delays nothing; ``tell`` (standard output)
    is told at the end where the cells are, or how many are missing and how to copy them.
    """
    say = tell or _print
    if isinstance(tracker, NoTracker):
        yield
    elif not isinstance(tracker, MlflowTracker):
        yield
        _by_itself(tracker, runs, keys, say)
    else:
        address = tracker.address(runs)
        try:
            child = Child(_MODULE, address, {"name": name, "keys": list(keys)})
        except OSError as error:
            log.warning("%s", _later(f"MLflow: {error}; push later:", address))
            yield
            return
        seconds = INTERRUPTED
        try:
            yield
            seconds = AT_THE_END
        finally:
            say(_finished(child, address, len(keys), seconds))


def _finished(child: Child, address: Address, cells: int, seconds: float) -> str:
    try:
        answer = child.ask({"finish": seconds}, seconds + 2.0)
    finally:
        child.end(now=True)
    if answer is not None and not answer["left"] and not answer.get("error"):
        return address.page(answer["experiment_id"])
    left = (answer or child.seen).get("left", cells)
    error = (answer or {}).get("error")
    why = f" ({error})" if error else ""
    what = f"MLflow: {left} of {cells} cells are not there yet{why}"
    return _later(f"{what}. All are in their folders; push later:", address)


def _later(why: str, address: Address) -> str:
    """Return words within 80 columns, and the command in a line of its own."""
    return f"{folded(why)}\n  {address.push_command}"


def _by_itself(
    tracker: Tracker, runs: Path, keys: Sequence[str], say: Callable[[str], None]
) -> None:
    """Hand finished cells to a tracker of the user's own, one after the other."""
    told: str | None = None
    for key in ends_of(runs, keys):
        cell = read_json(runs / key / schema.CELL_FILE)
        if not isinstance(cell, dict):
            continue
        try:
            told = tracker.upload(runs / key, cell) or told
        except Exception as error:  # whatever a tracker does, the sweep is over and complete
            log.warning("%s: %s", tracker.name, error)
            return
    if told is not None:
        say(told)


def _print(text: str) -> None:
    print(text, file=sys.stdout, flush=True)  # noqa: T201
