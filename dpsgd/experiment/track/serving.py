"""The process beside single runs: makes the store ready, copies what it is told to, and ends."""

from __future__ import annotations

import time

from dpsgd.experiment.processes import is_running
from dpsgd.experiment.track.address import Address
from dpsgd.experiment.track.client import connect
from dpsgd.experiment.track.ended import ends_of
from dpsgd.experiment.track.helper import at_most, orphaned, run
from dpsgd.experiment.track.push import Pusher, reason
from dpsgd.experiment.track.wire import Message, Wire

NICENESS = 5
"""Less than beside a sweep: at the end of training somebody waits."""
AFTERWARDS = 60
"""Seconds for what is left to copy when whom we serve is gone."""


def main() -> None:
    """Serve the process that started this one."""
    run(serve, NICENESS)


def serve(wire: Wire, address: Address, hello: Message) -> None:
    """Copy runs for the process at the other end, and at its end those that it left behind."""
    server = _Server(address)
    while True:
        try:
            message = wire.receive(5.0)
        except EOFError:
            break
        if message is None:
            if orphaned(hello):
                break
            server.push(server.expected)  # of those that raised nobody asks
            continue
        if "expect" in message:
            server.expected.append(message["expect"])
            server.ready()
        if "push" in message:
            key = message["push"]
            answer = server.push([key])
            server.expected = [other for other in server.expected if other != key]
            wire.send(answer)
    if server.expected:
        at_most(AFTERWARDS)
        _wait_for_end_of(hello["parent"])
        server.push(server.expected)


def _wait_for_end_of(parent: int) -> None:
    """Wait a little: its pipes close before it is gone, and only then was its run killed."""
    until = time.monotonic() + 3.0
    while is_running(parent) and time.monotonic() < until:
        time.sleep(0.05)


class _Server:
    def __init__(self, address: Address) -> None:
        self._address, self._pusher = address, None
        self.expected: list[str] = []

    def ready(self) -> Pusher | str:
        """Return what copies, or why there is nothing that could."""
        if self._pusher is None:
            try:
                self._pusher = Pusher(connect(self._address), self._address.runs, {})
            except Exception as error:  # whatever a tracker does
                return reason(self._address, error)
        return self._pusher

    def push(self, keys: list[str]) -> Message:
        """Copy these runs, as far as they have ended."""
        ends = ends_of(self._address.runs, keys)
        pusher = self.ready() if ends else "it has not ended"
        if isinstance(pusher, str):
            return {"final": True, "error": pusher}
        pusher.push(ends)
        error = next(iter(pusher.pushed(ends).failed.values()), None)
        if error is not None:
            self._pusher = None  # the store is opened anew next time
        return {"final": True, "error": error, "experiment_id": pusher.store.experiment_id}


if __name__ == "__main__":
    main()
