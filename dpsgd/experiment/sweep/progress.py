"""How far a sweep is: a line that lives on a terminal, now and then a line in a log file."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from dpsgd.experiment.sweep.planned import SweepPlan
from dpsgd.experiment.sweep.preview import duration
from dpsgd.experiment.sweep.states import Following, States

LOOK_EVERY = 1.0
"""Seconds between two looks at the runs folder."""
SAY_EVERY = 30.0
"""Seconds, at least, between two lines in a log file."""
TENTHS = 10


@contextmanager
def sweep_progress(
    console: Console, plan: SweepPlan, runs: Path, look_every: float = LOOK_EVERY
) -> Iterator[None]:
    """Show how far the missing cells of ``plan`` are while the block runs.

    What else is printed meanwhile must go to the same ``console``, which keeps the living line
    below it. A thread looks at the runs folder; nothing it meets there ends the sweep.
    """
    keys = [planned.run_key for planned in plan.missing]
    if not keys:
        yield
        return
    tell = _Living(console, len(keys)) if console.is_terminal else _Lines(console, len(keys))
    following, done = Following(runs, keys), threading.Event()

    def follow() -> None:
        while not done.wait(look_every):
            tell.show(following.look())

    thread = threading.Thread(target=follow, daemon=True, name="progress of the sweep")
    tell.start()
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        tell.end(following.look())


class _Left:
    """The time that is left, from the time that the finished cells took."""

    def __init__(self, total: int) -> None:
        self._total, self._started = total, time.monotonic()

    @property
    def taken(self) -> float:
        return time.monotonic() - self._started

    def words(self, states: States) -> str:
        ended = states.finished + states.failed
        if not states.finished or ended >= self._total:
            return ""
        return f"about {duration(self.taken * (self._total - ended) / ended)} left"


class _Living:
    """One line at the foot of a terminal, gone when the sweep ends."""

    def __init__(self, console: Console, total: int) -> None:
        self._left = _Left(total)
        self._bar = Progress(
            BarColumn(bar_width=16), TextColumn("{task.description}"), console=console,
            transient=True,
        )  # fmt: skip
        self._task = self._bar.add_task(_words(States(0, 0, 0, 0), total, ""), total=total)
        self._total = total

    def start(self) -> None:
        self._bar.start()

    def show(self, states: States) -> None:
        words = _words(states, self._total, self._left.words(states))
        self._bar.update(self._task, completed=states.finished, description=words)

    def end(self, states: States) -> None:
        self._bar.stop()
        self._bar.console.print(_ended(states, self._total, self._left.taken))


class _Lines:
    """A line at every tenth of a sweep that takes a while, none within half a minute of another."""

    def __init__(self, console: Console, total: int) -> None:
        self._console, self._total = console, total
        self._left, self._said, self._tenth = _Left(total), time.monotonic(), 0

    def start(self) -> None:
        """Say nothing: the preview has said what is going to happen."""

    def show(self, states: States) -> None:
        tenth = (states.finished + states.failed + states.ended) * TENTHS // self._total
        now = time.monotonic()
        if tenth > self._tenth and now - self._said >= SAY_EVERY:
            self._said, self._tenth = now, tenth
            left = self._left.words(states)
            self._console.print(_words(states, self._total, left), soft_wrap=True)

    def end(self, states: States) -> None:
        self._console.print(_ended(states, self._total, self._left.taken), soft_wrap=True)


def _words(states: States, total: int, left: str) -> str:
    words = [f"{states.finished} of {total} finished", f"{states.running} running"]
    words += _otherwise(states)
    return ", ".join([*words, left] if left else words)


def _ended(states: States, total: int, seconds: float) -> str:
    words = [f"{states.finished} of {total} finished", *_otherwise(states)]
    return ", ".join([*words, f"in {duration(seconds)}"])


def _otherwise(states: States) -> list[str]:
    """Say how many failed, and how many were ended before they were done."""
    counts = (("failed", states.failed), ("ended", states.ended))
    return [f"{count} {what}" for what, count in counts if count]
