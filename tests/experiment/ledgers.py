"""Ledgers without a run, and edits of those of a run, for the tests of the ledger."""

import pandas as pd
import yaml

from analysis import schema
from dpsgd import part
from dpsgd.clipping.groups import Groups
from dpsgd.experiment.files import read_json, write_json, write_text
from dpsgd.experiment.ledger import LEDGER_VERSION, ledger_page
from dpsgd.experiment.ledger.entries import step_entries
from dpsgd.experiment.seal import sealed_files, sha256

GROUPS = Groups(("all",), (("weight",),), (10,))


def planted(
    name="a", sigma=1.2, steps=20, batch=20.0, n=400, rule="clip/flat", delta=1e-3, **changes
):
    """A ledger as far as composition reads it; ``stream_id`` is ``name``."""
    built, sampler = part(rule), part("sampling/poisson").records(n, batch)
    state = built.bind(GROUPS, sigma, batch)
    return {
        "ledger_version": LEDGER_VERSION,
        "run_key": name,
        "private": True,
        "mechanism": "private",
        "unit": "record",
        "unit_name": "record",
        "relation": "add_or_remove_one",
        "n_units": n,
        "delta": delta,
        "epsilon": 0.01,
        "noise_multiplier": sigma,
        "steps": steps,
        "data_fingerprint": "same",
        "data_statistics": [],
        "stream_id": name,
        "result_version": 3,
        "entries": step_entries(built, state, sampler, sigma, steps, name, "add_or_remove_one"),
    } | changes


class Folder:
    """A run's folder, and edits of it that keep everything consistent that can be."""

    def __init__(self, path):
        self.path = path

    def json(self, name, change):
        """Let ``change`` edit a JSON file in place."""
        value = read_json(self.path / name)
        change(value)
        write_json(self.path / name, value)

    def ledger(self, change):
        self.json(schema.LEDGER_FILE, change)

    def cell(self, change):
        self.json(schema.CELL_FILE, change)

    def status(self, change):
        self.json(schema.STATUS_FILE, change)

    def config(self, change):
        file = self.path / schema.CONFIG_FILE
        value = yaml.safe_load(file.read_text(encoding="utf-8"))
        change(value)
        file.write_text(yaml.safe_dump(value, sort_keys=False), encoding="utf-8")

    def steps_of(self, name, step):
        """Let a table end with ``step``."""
        table = pd.read_parquet(self.path / name)
        table.loc[table.index[-1], "step"] = step
        table.to_parquet(self.path / name, index=False)

    def reseal(self):
        """What a careful forger does: render the page again, and bind the files again."""
        ledger = read_json(self.path / schema.LEDGER_FILE)
        evidence = read_json(self.path / schema.EVIDENCE_FILE)
        if evidence is not None:
            evidence["model_sha256"] = sha256(self.path / schema.MODEL_FILE)
            write_json(self.path / schema.EVIDENCE_FILE, evidence)
        write_text(self.path / schema.LEDGER_PAGE, ledger_page(ledger, evidence))
        self.status(lambda s: s.update(files=sealed_files(self.path)))


def entry_event(entry):
    """The innermost event of an entry of Poisson draws: the Gaussian."""
    return entry["event"]["event"]["event"]
