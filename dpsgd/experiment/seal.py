"""What binds a run's files together once it is finished."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from analysis import schema

SEALED = (
    schema.CONFIG_FILE,
    schema.LEDGER_FILE,
    schema.CELL_FILE,
    schema.MODEL_FILE,
    schema.TELEMETRY_FILE,
    schema.EVALUATION_FILE,
    schema.PREDICTIONS_FILE,
    schema.AUDIT_FILE,
    schema.GRADIENTS_FILE,
)
"""The page and its evidence are left out: they may be rendered again when more is known."""


def sealed_files(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of every file of a run that does not change once it is finished."""
    return {name: sha256(folder / name) for name in SEALED if (folder / name).exists()}


def sha256(file: Path) -> str:
    """Return the SHA-256 of a file, hex."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def seal_of(status: Mapping[str, Any]) -> str:
    """Return one number for a finished run: the SHA-256 of its files' hashes and of how it ended.

    Whoever edits the files of a run can edit their hashes too. A seal that was published, or kept
    elsewhere, is what such an edit cannot reach.
    """
    bound = {key: status.get(key) for key in ("files", "step", "stopped_by", "status")}
    return hashlib.sha256(json.dumps(bound, sort_keys=True).encode()).hexdigest()
