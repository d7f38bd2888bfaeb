"""Where the options of the configuration are."""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).resolve().parents[1]


def config_folder(name: str) -> Path:
    """Return ``conf`` or ``sweeps``: inside an installed wheel, or beside the package."""
    installed = HERE / name
    return installed if installed.is_dir() else HERE.parent / name
