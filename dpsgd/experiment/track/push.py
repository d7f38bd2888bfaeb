"""Copy to MLflow what it does not hold yet. Asked twice, the second time finds nothing to do."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from analysis import schema
from dpsgd.experiment.track.address import Address
from dpsgd.experiment.track.client import Store, connect, locked
from dpsgd.experiment.track.contents import Contents, contents
from dpsgd.experiment.track.copying import copy
from dpsgd.experiment.track.ended import Ends, ends_of
from dpsgd.experiment.track.pushed import Pushed
from dpsgd.experiment.track.summary import summarise
from dpsgd.experiment.track.sweeps import SWEEP, sweeps_of, tags_of
from dpsgd.experiment.track.there import Copy, all_copies, settled
from dpsgd.experiment.tracker import MlflowTracker

FEW = 20
"""So many runs are asked for one by one; of more, all that the store has are listed."""
GIVE_UP = 3
"""A store that failed so often in a row is not asked again."""
PUSH_LOCK = "mlflow-push"

Tags = Mapping[str, Mapping[str, str]]
Told = Callable[[int, int], None]


def push(
    runs: Path,
    tracker: MlflowTracker,
    keys: Iterable[str] | None = None,
    told: Told | None = None,
) -> Pushed:
    """Copy the runs below ``runs`` that have ended, those of ``keys`` or all, with the summaries of
    their sweeps, and return what became of them. ``told(done, of)`` hears of progress.

    What is in the store is left alone, unless it was copied by half, or the run has ended otherwise
    since. Two pushers at once make no duplicates. Nothing is raised for a store that is locked,
    slow or dead.
    """
    keys = (
        sorted(file.parent.name for file in runs.glob(f"*/{schema.STATUS_FILE}"))
        if keys is None
        else list(keys)
    )
    todo = ends_of(runs, keys)
    address = tracker.address(runs)
    try:
        store = connect(address)
    except Exception as error:  # whatever a tracker does
        return Pushed((), 0, {}, tuple(todo), reason(address, error), None)
    sweeps = sweeps_of(runs)
    pusher = Pusher(store, runs, tags_of(sweeps))
    try:
        if len(todo) > FEW:
            pusher.learn(ask=True)
        pusher.push(todo, told=told)
        if pusher.error is None:
            for name, members in sweeps.items():
                if not todo.keys().isdisjoint(members):
                    summarise(store, runs, name, members)
    except Exception as error:
        return pusher.pushed(todo, reason(address, error))
    return pusher.pushed(todo)


@dataclass
class Pusher:
    """Copies runs to an open store, and remembers what became of them."""

    store: Store
    runs: Path
    tags: Tags
    copied: dict[str, str] = field(default_factory=dict)
    known: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    error: str | None = None

    def learn(self, *, ask: bool) -> None:
        """Learn what the store holds, so that most runs need no question: with ``ask`` from itself,
        else from what is remembered of it, if anything is.
        """
        remembered = self.store.memory.read()
        if not ask and remembered:
            for key, known in remembered.items():
                if self.tags.get(key, {}).keys() <= known.tags:
                    self.known[key] = known.status
            return
        for key, copies in all_copies(self.store).items():
            there = copies[0]
            if len(copies) == 1 and self.tags.get(key, {}).keys() <= there.tags.keys():
                self._know(key, there.status, there.tags)

    def push(
        self,
        ends: Ends,
        until: float = float("inf"),
        told: Told | None = None,
    ) -> None:
        """Copy runs that have ended, until ``time.monotonic()`` is ``until``."""
        in_a_row, self.error = 0, None
        for number, (key, (how, status)) in enumerate(ends.items()):
            if self._has(key, how):
                continue
            if in_a_row == GIVE_UP or time.monotonic() >= until:
                return
            try:
                made = contents(self.runs / key, how, status)
            except Exception as error:
                self.failed[key] = reason(self.store.address, error)
                continue
            try:
                self._put(made)
                in_a_row, self.error = 0, None
                self.failed.pop(key, None)
            except Exception as error:
                in_a_row += 1
                self.error = self.failed[key] = reason(self.store.address, error)
            if told is not None:
                told(number + 1, len(ends))

    def pushed(self, ends: Ends, error: str | None = None) -> Pushed:
        """Return what became of ``ends``."""
        there = {key for key, (how, _) in ends.items() if self._has(key, how)}
        left = tuple(key for key in ends if key not in there and key not in self.failed)
        return Pushed(
            tuple(key for key in ends if key in self.copied and key in there),
            sum(key not in self.copied for key in there),
            {key: why for key, why in self.failed.items() if key not in there},
            left, error or (self.error if left else None),
            self.store.address.page(self.store.experiment_id),
        )  # fmt: skip

    def _has(self, key: str, how: str) -> bool:
        return self.known.get(key) == how

    def _put(self, made: Contents) -> None:
        key = made.run_key
        tags = self.tags.get(key, {})
        with locked(self.store.address, PUSH_LOCK):
            there = settled(self.store, key)
            if there is not None and there.status == made.status:
                self._tag(there, tags)
            else:
                copy(self.store, made, tags)
                # The old copy goes only now, and another machine's that came in between as well.
                if there is not None:
                    self.store.client.delete_run(there.id)
                if self.store.address.uri is not None:
                    settled(self.store, key)
                self.copied[key] = made.status
            self._know(key, made.status, {**(there.tags if there else {}), **tags})

    def _know(self, key: str, status: str, tags: Iterable[str]) -> None:
        self.known[key] = status
        self.store.memory.add(key, status, [name for name in tags if name.startswith(SWEEP)])

    def _tag(self, there: Copy, tags: Mapping[str, str]) -> None:
        for name, value in tags.items():
            if there.tags.get(name) != value:
                self.store.client.set_tag(there.id, name, value)


def reason(address: Address, error: Exception) -> str:
    """Return the first line of an error, without a password."""
    first = (str(error).splitlines() or [""])[0] or type(error).__name__
    return address.scrubbed(first)
