"""The user's own code behind a configuration, by content: an edited model is another run."""

from __future__ import annotations

import ast
import hashlib
import sys
import sysconfig
from collections.abc import Iterable
from importlib.util import resolve_name
from pathlib import Path
from types import ModuleType
from typing import Any
from weakref import WeakKeyDictionary

from dpsgd.errors import ConfigError

_LIBRARIES = tuple(
    Path(sysconfig.get_paths()[name]).resolve()
    for name in ("stdlib", "platstdlib", "purelib", "platlib")
)
_PACKAGE = Path(__file__).resolve().parents[1]
_SEEN: WeakKeyDictionary[ModuleType, str] = WeakKeyDictionary()
"""Each module's file as it was when first asked for."""
_FOREIGN: WeakKeyDictionary[ModuleType, bool] = WeakKeyDictionary()


def own_code(targets: Iterable[str]) -> dict[str, str]:
    """Return module name to SHA-256 of its file, for the modules of ``targets`` that are neither
    this package's nor an installed library's, and for those of the same kind that they use.

    Raises ConfigError for code without a file, and for a file that changed since its module was
    first used: the code that runs would not be the code that the key names.
    """
    waiting = [sys.modules[n] for n in {t.rpartition(".")[0] for t in targets} if n in sys.modules]
    found: dict[str, str] = {}
    done: set[str] = set()
    while waiting:
        module = waiting.pop()
        if module.__name__ in done or _known_as_foreign(module):
            continue
        done.add(module.__name__)
        found[module.__name__] = _digest(module)
        waiting += _used_by(module)
    return dict(sorted(found.items()))


def targets_in(value: Any) -> list[str]:
    """Return every ``_target_`` in plain data, at any depth."""
    if isinstance(value, dict):
        own = [str(value["_target_"])] if "_target_" in value else []
        inside = [inner for inner in value.values() if isinstance(inner, dict | list)]
        return own + targets_in(inside)
    return [t for inner in value for t in targets_in(inner)] if isinstance(value, list) else []


def note(module: ModuleType) -> None:
    """Remember the file of a module of the user's own as it is now, when it is first used."""
    file = getattr(module, "__file__", None)
    if module not in _SEEN and not _known_as_foreign(module) and file and Path(file).is_file():
        _SEEN[module] = hashlib.sha256(Path(file).read_bytes()).hexdigest()


def _digest(module: ModuleType) -> str:
    file = getattr(module, "__file__", None)
    if file is None or not Path(file).is_file():
        raise ConfigError(
            "_target_", module.__name__,
            "is code without a file, whose changes the run key could not see; put it into a module",
        )  # fmt: skip
    now = hashlib.sha256(Path(file).read_bytes()).hexdigest()
    if _SEEN.setdefault(module, now) != now:
        raise ConfigError(
            "_target_", module.__name__,
            f"{file} changed after it was imported: the code in memory is not the file's. "
            "Start a new process",
        )  # fmt: skip
    return now


def _used_by(module: ModuleType) -> list[ModuleType]:
    """Return the loaded modules that this one imports, or whose classes and functions it holds."""
    names = _imported(module)
    for value in list(vars(module).values()):
        if isinstance(value, ModuleType):
            names.add(value.__name__)
        elif isinstance(value, type):
            names |= {base.__module__ for base in value.__mro__}
        else:
            names.add(str(getattr(value, "__module__", "")))
    return [sys.modules[name] for name in names if name in sys.modules]


def _imported(module: ModuleType) -> set[str]:
    tree = ast.parse(Path(str(module.__file__)).read_bytes())
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            relative = "." * node.level + (node.module or "")
            base = resolve_name(relative, module.__package__) if node.level else relative
            names |= {base, *(f"{base}.{alias.name}" for alias in node.names)}
    return names


def _known_as_foreign(module: ModuleType) -> bool:
    """Return :func:`_foreign`, asked once a module: links are resolved for it."""
    if module not in _FOREIGN:
        _FOREIGN[module] = _foreign(module)
    return _FOREIGN[module]


def _foreign(module: ModuleType) -> bool:
    """Whether a module is this package's, a library's or built in."""
    name = module.__name__
    if name in sys.builtin_module_names or (name in sys.stdlib_module_names and name != "__main__"):
        return True
    file = getattr(module, "__file__", None)
    if file is None:
        return name != "__main__"  # a namespace package has no code of its own
    path = Path(file).resolve()
    return path.is_relative_to(_PACKAGE) or any(path.is_relative_to(root) for root in _LIBRARIES)
