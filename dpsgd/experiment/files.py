"""Write files whole or not at all."""

from __future__ import annotations

import errno
import json
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dpsgd.errors import ConfigError, UnwritableError


def write_whole(path: Path, write: Callable[[Path], None]) -> None:
    """Let ``write`` fill a temporary file beside ``path``, then put it in place in one move.

    Raises UnwritableError, which names ``path``, if the disk is full, read-only or gone.
    """
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
        os.close(handle)
        temporary = Path(name)
        try:
            write(temporary)
            temporary.replace(path)
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


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text whole or not at all."""
    write_whole(path, lambda p: _text(p, text))


def write_bytes(path: Path, content: bytes) -> None:
    """Write bytes whole or not at all."""
    write_whole(path, lambda p: _bytes(p, content))


def _text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def _bytes(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def write_json(path: Path, value: Any) -> None:
    """Write JSON without NaN or Infinity, whole or not at all."""
    write_text(path, json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: Path) -> Any | None:
    """Return the JSON in ``path``, or None if there is none or it is torn."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, json.JSONDecodeError, UnicodeDecodeError):
        return None


def check_folder(path: Path, key: str) -> None:
    """Raise ConfigError unless ``path`` is, or can be made, a folder that we can write to."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        raise ConfigError(key, path, f"cannot be written to: {error.strerror}") from None
