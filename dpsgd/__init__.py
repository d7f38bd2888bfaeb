"""The clipping atlas: see which kinds of example a DP-SGD clipping rule erases.

From Python: ``train`` a cell from a dict, ``load`` a finished run, build a configured ``part``, and
``PrivateTraining``, the private step with its ledger inside a loop of your own.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from dpsgd import as_imported as as_imported  # before all other code: it notes the files

if TYPE_CHECKING:
    from dpsgd.errors import ConfigError, PrivacyError
    from dpsgd.experiment.opened import Run, load
    from dpsgd.experiment.own_loop import Budget, PrivateTraining
    from dpsgd.python import part, train

__version__ = "0.1.0"
__all__ = [
    "Budget",
    "ConfigError",
    "PrivacyError",
    "PrivateTraining",
    "Run",
    "load",
    "part",
    "train",
]

_HOMES = {
    "Budget": "dpsgd.experiment.own_loop",
    "ConfigError": "dpsgd.errors",
    "PrivacyError": "dpsgd.errors",
    "PrivateTraining": "dpsgd.experiment.own_loop",
    "Run": "dpsgd.experiment.opened",
    "load": "dpsgd.experiment.opened",
    "part": "dpsgd.python",
    "train": "dpsgd.python",
}


def __getattr__(name: str) -> Any:
    """Import on first use: torch takes seconds, and ``--help`` needs none of it."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
