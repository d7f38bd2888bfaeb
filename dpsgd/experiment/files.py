"""Write files whole or not at all."""

from __future__ import annotations

import errno
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from dpsgd.errors import ConfigError, PrivacyError, UnwritableError


def write_whole(path: Path, write: Callable[[Path], None], *, durable: bool = False) -> None:
    """Let ``write`` fill a temporary file beside ``path``, then put it in place in one move.

    ``durable`` waits until it is on the disk: what must be there after a loss of power. Raises
    UnwritableError, which names ``path``, if the disk is full, read-only or gone.
    """
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
        os.close(handle)
        temporary = Path(name)
        try:
            write(temporary)
            if durable:
                _sync(temporary)
            temporary.replace(path)
            if durable:
                _sync(path.parent)
        finally:
            temporary.unlink(missing_ok=True)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn what a system says of a write, which names no file or a temporary one, into an
    UnwritableError of ``path``.
    """
    try:
        yield
    except OSError as error:
        words = os.strerror(error.errno) if error.errno else str(error)
        raise UnwritableError(error.errno or errno.EIO, words, str(path)) from error


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_text(path: Path, text: str, *, durable: bool = False) -> None:
    """Write UTF-8 text whole or not at all."""
    write_whole(path, lambda p: _text(p, text), durable=durable)


def write_bytes(path: Path, content: bytes) -> None:
    """Write bytes whole or not at all."""
    write_whole(path, lambda p: _bytes(p, content))


def _text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def _bytes(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def write_json(path: Path, value: Any, *, durable: bool = False) -> None:
    """Write JSON without NaN or Infinity, whole or not at all."""
    text = json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    write_text(path, text, durable=durable)


def read_json(path: Path) -> Any | None:
    """Return the JSON in ``path``, or None if there is none or it is torn."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, json.JSONDecodeError, UnicodeDecodeError):
        return None


def check_folder(path: Path, key: str) -> None:
    """Raise ConfigError unless ``path`` is, or can be made, a folder that we can write to. Nothing
    is made.
    """
    try:
        there = next(folder for folder in (path, *path.absolute().parents) if folder.exists())
        if not there.is_dir():
            what = "is a file" if there == path else f"{there} is a file"
            raise ConfigError(key, path, f"must be a folder, and {what}")
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        raise ConfigError(key, path, f"cannot be written to: {error.strerror}") from None


@contextmanager
def leaving_nothing(runs: Path) -> Iterator[None]:
    """Take away what the block made of a folder of runs if it refuses to train: what is empty, and
    in a folder that was not there what accountants answered.
    """
    before = runs.exists()
    try:
        yield
    except (ConfigError, PrivacyError):
        if not before:
            shutil.rmtree(runs / ".cache", ignore_errors=True)
        for folder in (*(runs / name for name in (".claims", ".cache", ".hydra")), runs):
            with suppress(OSError):
                folder.rmdir()
        raise
