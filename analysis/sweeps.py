"""Which cells belong to a sweep: ``runs/sweeps/<name>.json``."""

from __future__ import annotations

import json
from pathlib import Path

_FOLDER = "sweeps"


def sweep_keys(runs: Path, name: str) -> list[str]:
    """Return the run keys of a sweep and of its baselines.

    Raises ``FileNotFoundError``, naming the sweeps that there are, if this one has no file, and
    ``OSError`` if the file lists no keys.
    """
    folder = runs / _FOLDER
    file = folder / f"{name}.json"
    known = sorted(path.stem for path in folder.glob("*.json"))
    if name not in known:
        raise FileNotFoundError(f"{file}: no such sweep; there are {', '.join(known) or 'none'}")
    try:
        listed = json.loads(file.read_text(encoding="utf-8"))
        found = [key for part in ("keys", "baselines") for key in listed.get(part) or ()]
    except (ValueError, AttributeError, TypeError) as error:
        raise OSError(f"{file} does not list the keys of a sweep") from error
    return list(dict.fromkeys(str(key) for key in found))
