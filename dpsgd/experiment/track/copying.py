"""One run into the store, once."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dpsgd.experiment.track.client import Store, metrics, params
from dpsgd.experiment.track.contents import Contents

MOST_ENTITIES, MOST_PARAMS = 1000, 100
"""What MLflow takes in one call."""


def copy(store: Store, made: Contents, tags: Mapping[str, str]) -> str:
    """Copy a run and return its id there. Until all of it is there the copy is RUNNING."""
    everything = {"run_key": made.run_key, "kind": "cell", **made.tags, **tags}
    client = store.client
    run = client.create_run(
        store.experiment_id, run_name=made.name, tags=everything, start_time=made.start
    ).info.run_id
    for some_metrics, some_params in _batches(made.metrics, made.params):
        client.log_batch(run, metrics=metrics(some_metrics), params=params(some_params))
    with tempfile.TemporaryDirectory() as folder:  # one call for all files
        for file in made.files:
            shutil.copyfile(file, Path(folder, file.name))
        for name, text in made.texts.items():
            Path(folder, name).write_text(text, encoding="utf-8")
        client.log_artifacts(run, folder)
    client.set_terminated(run, made.status, end_time=made.end)
    return run


def _batches(
    rows: Sequence[Any], pairs: Sequence[Any]
) -> Iterator[tuple[Sequence[Any], Sequence[Any]]]:
    """Give metrics and params in as few calls as MLflow allows."""
    while rows or pairs:
        some_pairs, pairs = pairs[:MOST_PARAMS], pairs[MOST_PARAMS:]
        room = MOST_ENTITIES - len(some_pairs)
        some_rows, rows = rows[:room], rows[room:]
        yield some_rows, some_pairs
