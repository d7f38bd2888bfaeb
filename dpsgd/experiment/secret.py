"""The secret of a released run: its key, and which data it was for. It never leaves the folder."""

from __future__ import annotations

import json
import os
import secrets
import traceback
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from analysis import schema
from dpsgd.errors import ConfigError, PrivacyError
from dpsgd.experiment.files import read_json
from dpsgd.experiment.prepared import Prepared
from dpsgd.experiment.resume.generations import CHECKPOINT_FILES
from dpsgd.randomness import Streams
from dpsgd.sources import KEY_BYTES

SECRET_FILE = "secret.key"  # noqa: S105  (a file's name)
TRACEBACK_FILE = "traceback.private.txt"
PRIVATE_FILES = (SECRET_FILE, TRACEBACK_FILE, *CHECKPOINT_FILES)
"""What a released run keeps in its folder and nobody else may see."""


@dataclass(frozen=True)
class Secret:
    """The key of a released run and the SHA-256 of its data."""

    key: bytes = field(repr=False)
    data: str = field(repr=False)


def keyed(prepared: Prepared, folder: Path) -> Prepared:
    """Return a released cell with its streams: of the key in ``folder``, or of a new one from the
    operating system, kept there. Any other cell is returned as it is.

    Raises:
        ConfigError: the key in ``folder`` was drawn for other data.
        PrivacyError: a key that is torn, or one that is gone though the run began with it.

    """
    if not prepared.cell.settings.release:
        return prepared
    secret = stored_secret(prepared, folder) or _made(folder, prepared.bundle.fingerprint)
    return replace(prepared, streams=Streams(secret.key, prepared.run_key, secret=True))


def stored_secret(prepared: Prepared, folder: Path) -> Secret | None:
    """Return the secret of a released cell, None if ``folder`` is of no run yet; raises as
    :func:`keyed`.
    """
    secret = _read(folder)
    if secret is None:
        if (folder / schema.LEDGER_FILE).exists():
            raise PrivacyError(
                f"{folder} holds this release without its {SECRET_FILE}: which data it was for is "
                "not known any more, and its steps cannot be repeated. Move that folder away: what "
                "is trained then is another release, whose ε adds to that one's"
            )
        return None
    if secret.data != prepared.bundle.fingerprint:
        raise ConfigError(
            "data", prepared.bundle.name,
            f"are not the data for which {folder} was made. The run key of a release says nothing "
            "of its data, and so other data have the same one",
            "move that folder away, or choose another runs_dir: this will be another release",
        )  # fmt: skip
    return secret


def data_of(folder: Path) -> str | None:
    """Return the SHA-256 of the data of a released run, for whoever has its secret; else None."""
    secret = _read(folder)
    return None if secret is None else secret.data


def keep_traceback(folder: Path, error: Exception) -> PrivacyError:
    """Keep what happened where nobody but the owner reads it; return what may be said of it."""
    file = folder / TRACEBACK_FILE
    file.unlink(missing_ok=True)
    _write(file, "".join(traceback.format_exception(error)))
    return PrivacyError(
        f"the run ended with {type(error).__name__}. Its message and traceback may quote the data, "
        f"and so they are kept in {file}, which must not leave"
    )


def _made(folder: Path, data: str) -> Secret:
    key = secrets.token_bytes(KEY_BYTES)
    folder.mkdir(parents=True, exist_ok=True)
    content = {"warning": "whoever has this key can take the noise off the model",
               "key": key.hex(), "data": data}  # fmt: skip
    try:
        _write(folder / SECRET_FILE, json.dumps(content, indent=1) + "\n")
    except FileExistsError:
        raise PrivacyError(f"{folder} is in use: another process has just made its key") from None
    return Secret(key, data)


def _write(file: Path, text: str) -> None:
    """Make ``file``, which must not be there, readable by its owner alone from its first byte."""
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as opened:
        opened.write(text)
        opened.flush()
        os.fsync(opened.fileno())


def _read(folder: Path) -> Secret | None:
    file = folder / SECRET_FILE
    if not file.exists():
        return None
    content: Any = read_json(file)
    try:
        secret = Secret(bytes.fromhex(content["key"]), str(content["data"]))
    except (TypeError, KeyError, ValueError):
        secret = None
    if secret is None or len(secret.key) != KEY_BYTES:
        # Its content is in no message: it may be most of a key.
        raise PrivacyError(f"{file} is torn; move its folder away") from None
    return secret
