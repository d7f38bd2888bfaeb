"""Run folders as finished cells leave them, without training any."""

import json

from analysis import schema

RUN_KEYS = [f"{i:016x}" for i in range(1, 9)]


def plant(runs, key, status="FINISHED", version="4", folder=None, **cell):
    """A run folder of ``key``, of any status; returns it."""
    place = runs / (folder or key)
    place.mkdir(parents=True, exist_ok=True)
    said = {
        "status": status, "started_at": "2026-01-02T03:04:05+00:00", "host": "here", "pid": 1,
        "heartbeat": "2026-01-02T03:04:05+00:00", "step": 7,
    }  # fmt: skip
    (place / schema.STATUS_FILE).write_text(json.dumps(said))
    if status == "FINISHED":
        (place / schema.CELL_FILE).write_text(json.dumps(cell_of(key, version) | cell))
    return place


def cell_of(key, version="4"):
    rows = [
        ("test", "all", "accuracy", 0.75), ("test", "all", "tail_worst", None),
        ("validation", "all", "accuracy", 0.5), ("test", "label", "accuracy", 0.25),
    ]  # fmt: skip
    names = ("split", "slice_kind", "metric", "value")
    columns = zip(names, zip(*rows, strict=True), strict=True)
    return {
        "run_key": key, "label": f"flat C=1 ε=3 s{int(key, 16)}", "epsilon": 2.99, "steps": 12,
        "seconds": 3.5, "seconds_training": 1.25, "result_version": version,
        "finished_at": "2026-01-02T03:04:09+00:00",
        "metrics": {name: list(values) for name, values in columns},
    }  # fmt: skip
