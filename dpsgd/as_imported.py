"""Whether the package's files are still those that were imported: what runs is what is in memory.

A hash of a file that was edited in the meantime would name other code than that which draws the
noise. This module is imported before all others of the package.
"""

from __future__ import annotations

import sys
from pathlib import Path

from dpsgd.errors import PrivacyError

PACKAGE = Path(__file__).resolve().parent

_State = tuple[int, int, int]


def _state(file: Path) -> _State | None:
    try:
        at = file.stat()
    except OSError:  # gone by now, or a link to nothing, such as an editor's lock
        return None
    return at.st_mtime_ns, at.st_size, at.st_ino


def _states() -> dict[Path, _State | None]:
    return {file: _state(file) for file in PACKAGE.rglob("*.py")}


_FILES = _states()
_LOADED: set[str] = set()
"""Modules that were loaded when their files were looked at, and found as they had been."""


def check_files() -> None:
    """Raise PrivacyError if a file of the package was changed, added or removed since the import:
    what was read from the files just now would not be what is in memory.
    """
    now = _states()
    other = [file for file in {**_FILES, **now} if _FILES.get(file) != now.get(file)]
    if other:
        _refuse(other[0])
    _LOADED.update(_modules())


def check_modules() -> None:
    """Raise PrivacyError if a module was loaded from a file that had changed since the import."""
    for name in _modules() - _LOADED:
        file = Path(str(sys.modules[name].__file__)).resolve()
        if file in _FILES and _FILES[file] != _state(file):
            _refuse(file)
        _LOADED.add(name)


def _modules() -> set[str]:
    mine = (name for name in list(sys.modules) if name.partition(".")[0] == "dpsgd")
    return {name for name in mine if getattr(sys.modules[name], "__file__", None)}


def _refuse(file: Path) -> None:
    raise PrivacyError(
        f"{file.relative_to(PACKAGE.parent)} changed after this process imported the package: the "
        "code in memory is not the files', and a run that is resumed could draw the same noise for "
        "other sums. Start a new process"
    )
