"""Planted runs with an audit, and what ``python -m dpsgd.audit`` says of them."""

import json

import numpy as np
import pandas as pd
import pytest

from analysis import schema
from dpsgd import audit

EXAMPLES = 200


def planted(folder, seed, *, refuted=False, kind="membership", norm=1.0, gain=1.0):
    """A finished run of ``folder`` whose members have a loss that is lower by ``gain``."""
    run = folder / f"{norm:g}{seed:015d}"
    run.mkdir(parents=True)
    generator = np.random.default_rng(seed)
    included = generator.random(EXAMPLES) < 0.5
    hard = 3 * np.random.default_rng(99).normal(size=EXAMPLES)
    score = hard + gain * included + 0.3 * generator.normal(size=EXAMPLES)
    nll = np.log1p(np.exp(-score))
    pd.DataFrame({
        "canary": range(EXAMPLES), "kind": "member", "included": included, "score": -nll,
        "nll": nll, "slice": np.where(np.arange(EXAMPLES) < 40, "rare", "common"),
        "example": [str(i) for i in range(EXAMPLES)], "release": "private",
    }).to_parquet(run / schema.AUDIT_FILE)  # fmt: skip
    cell = {
        "label": f"flat C={norm:g} ε=3 s{seed}", "run_key": run.name, "seed": seed,
        "epsilon": 3.0, "delta": 1e-5,
        "config.seed": seed, "config.clip.norm": norm, "audit": kind, "audit_canaries": EXAMPLES,
        "audit_guesses": 40, "audit_correct": 30, "audit_significance": 0.05,
        "audit_epsilon": 0.4, "audit_epsilon_gaussian": 0.6, "audit_refuted": refuted,
    }  # fmt: skip
    (run / schema.CELL_FILE).write_text(json.dumps(cell))
    (run / schema.STATUS_FILE).write_text(json.dumps({"status": "FINISHED"}))
    return run


def said(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        audit.main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return ended.value.code, captured.out + captured.err
