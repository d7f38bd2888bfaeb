"""What a cell imports only when it gets there: for a process that starts others to run cells.

Importing this module costs about a second, once; a child that finds all of it in memory is spared
that second. It starts no thread and computes nothing with tensors, so that a fork of it is sound.
"""

from __future__ import annotations

import importlib
import pkgutil

import pydantic

from dpsgd.experiment.ledger.environment import code_state, sources

PACKAGES = ("dpsgd.clipping", "dpsgd.models", "dpsgd.sampling", "dpsgd.telemetry", "dpsgd.training")
"""Of these, every module: which of them a cell needs, its configuration says."""

MODULES = (
    "dp_accounting",
    "dpsgd.data.images",
    "dpsgd.experiment.cell",
    "dpsgd.experiment.prepared",
    "pyarrow.pandas_compat",
    "pyarrow.parquet",
    "pydantic.type_adapter",
    "torch.fx.experimental.symbolic_shapes",  # the first backward pass: half a second, for sympy
    "torch.utils.serialization.config",
)


def warm() -> None:
    """Import what cells import."""
    for name in MODULES:
        importlib.import_module(name)
    for name in PACKAGES:
        package = importlib.import_module(name)
        for module in pkgutil.iter_modules(package.__path__, f"{name}."):
            importlib.import_module(module.name)
    pydantic.TypeAdapter(int)  # looks for plugins among all that is installed, once a process
    code_state()  # asks git, once a process: the code that counts is what was imported here
    sources()  # the files likewise; what is computed with them is asked where a cell runs


warm()
