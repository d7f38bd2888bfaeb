"""The process beside a sweep: copies cells as they end, the rest and the summary at the end."""

from __future__ import annotations

import time

from dpsgd.experiment.track.address import Address
from dpsgd.experiment.track.client import connect
from dpsgd.experiment.track.ended import Ends, ends_of
from dpsgd.experiment.track.helper import at_most, orphaned, run
from dpsgd.experiment.track.push import FEW, Pusher, reason
from dpsgd.experiment.track.summary import summarise
from dpsgd.experiment.track.sweeps import tags_of
from dpsgd.experiment.track.wire import Message, Wire

NICENESS = 5
LOOK_EVERY = 1.0
TRY_AGAIN = 5.0
"""Seconds between two attempts at a store that does not answer."""
BATCH_SECONDS = 5.0
"""How long cells are copied before the sweep is listened to again."""


def main() -> None:
    """Follow the sweep of the process that started this one."""
    run(follow, NICENESS)


def follow(wire: Wire, address: Address, hello: Message) -> None:
    """Copy cells until the sweep says that it is over, or is gone."""
    follower = _Follower(address, hello["name"], hello["keys"])
    while True:
        message = wire.receive(follower.pause)
        if message is None and orphaned(hello):
            return
        if message is not None:
            at_most(int(message["finish"]) + 5)
            wire.send({"final": True, **follower.finish(wire, message["finish"])})
            return
        follower.look()


class _Follower:
    def __init__(self, address: Address, name: str, keys: list[str]) -> None:
        self._address, self._name, self._keys = address, name, keys
        self._pusher: Pusher | None = None
        self._error: str | None = None
        self.pause = 0.0

    def look(self) -> None:
        """Copy what has ended since the last look."""
        pusher = self._ready()
        if pusher is None:
            self.pause = TRY_AGAIN
            return
        began = time.monotonic()  # to make the store ready took longer, and is done once
        ends = self._waiting(pusher)
        # Ten thousand cells are not looked through every second.
        self.pause = max(LOOK_EVERY, 20 * (time.monotonic() - began))
        pusher.push(ends, time.monotonic() + BATCH_SECONDS)
        if pusher.error is not None:
            self.pause = TRY_AGAIN

    def finish(self, wire: Wire, seconds: float) -> Message:
        """Copy the rest and the summary; return how many are ``left``, and the ``error`` if any."""
        until = time.monotonic() + seconds
        pusher = self._ready()
        if pusher is None:
            return {"left": len(ends_of(self._address.runs, self._keys)), "error": self._error}
        ends = self._waiting(pusher)
        wire.send({"left": len(ends)})
        pusher.push(ends, until - 1.0, lambda done, of: wire.send({"left": of - done}))
        left, error = len(self._waiting(pusher)), pusher.error
        if time.monotonic() < until:
            try:
                summarise(pusher.store, self._address.runs, self._name, self._keys)
            except Exception as failure:
                error = error or reason(self._address, failure)
        error = error or next(iter(pusher.failed.values()), None)
        return {"left": left, "error": error, "experiment_id": pusher.store.experiment_id}

    def _ready(self) -> Pusher | None:
        if self._pusher is None:
            try:
                tags = tags_of({self._name: self._keys})
                pusher = Pusher(connect(self._address), self._address.runs, tags)
                if len(self._keys) > FEW:
                    pusher.learn(ask=False)
                self._pusher = pusher
            except Exception as error:  # whatever a tracker does, the sweep goes on
                self._error = reason(self._address, error)
        return self._pusher

    def _waiting(self, pusher: Pusher) -> Ends:
        open_keys = [key for key in self._keys if pusher.known.get(key) != "FINISHED"]
        ends = ends_of(self._address.runs, open_keys)
        return {key: end for key, end in ends.items() if pusher.known.get(key) != end[0]}


if __name__ == "__main__":
    main()
