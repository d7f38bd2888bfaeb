"""What a cell imports only when it gets there: for a process that starts others to run cells.

Importing this module costs about a second, once; a child that finds all of it in memory is spared
that second. It starts no thread and computes nothing with tensors, so that a fork of it is sound.
"""

from __future__ import annotations

import importlib
import pkgutil
from contextlib import suppress

from dpsgd.errors import PrivacyError
from dpsgd.experiment.installed import version_of
from dpsgd.experiment.ledger.environment import LIBRARIES, code_state, sources
from dpsgd.experiment.ledger.kernels import processor
from dpsgd.experiment.parts import make_ready
from dpsgd.experiment.remembered import own_versions

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
    code_state()  # asks git, once a process: the code that counts is what was imported here
    with suppress(PrivacyError):  # of files that changed meanwhile, whoever runs a cell will say it
        sources()  # the files likewise; what is computed with them is asked where a cell runs
        own_versions()
    processor()
    make_ready()
    for name in LIBRARIES:
        version_of(name)


warm()
