"""Stores of MLflow that do not do what one hopes of them."""

import contextlib
import socket
import sqlite3


def closed_port():
    """A port at which nobody listens."""
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        return opened.getsockname()[1]


@contextlib.contextmanager
def silent_server():
    """The port of a server that takes connections and never answers."""
    with socket.socket() as opened:
        opened.bind(("127.0.0.1", 0))
        opened.listen(64)
        yield opened.getsockname()[1]


@contextlib.contextmanager
def locked_database(file):
    """Hold the exclusive lock of a SQLite file."""
    database = sqlite3.connect(file)
    database.execute("BEGIN EXCLUSIVE")
    try:
        yield
    finally:
        database.rollback()
        database.close()
