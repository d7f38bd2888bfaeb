"""Where nothing is true, claims are as rare as is said, of every kind and of all together."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from planted_findings import EVERY, LABELS, PER_LABEL, planted

from analysis.findings.findings import _KINDS as KINDS
from analysis.findings.findings import corrected, findings
from analysis.findings.outcomes import Outcomes
from analysis.findings.run_rows import RunRows
from analysis.lines import family

TRIALS, SEEDS = 200, 3
OF_KIND = {"erasure", "gradient", "attribution", "rule", "threshold", "calibration"}
SHAPE = (len(EVERY), SEEDS, len(LABELS), PER_LABEL)
TABLE, PREDICTIONS = planted(np.random.default_rng(0), SEEDS, cells=EVERY)
CELLS = family(TABLE)
FIRST = Outcomes(CELLS, PREDICTIONS)


def _with(right, sure, kept):
    """Return the planted cells with other outcomes: what findings read of tables, as arrays."""
    source = replace(FIRST)
    for name in ("lines", "partners", "_inside", "_draws", "_releases"):
        source.__dict__[name] = getattr(FIRST, name)
    shares = right.mean(-1)
    every = np.concatenate([shares.mean(-1, keepdims=True), shares], -1).reshape(
        -1, 1 + len(LABELS)
    )
    keys = [f"{r}-{n}-{s}" + ("" if m in ("private", "neither") else m)
            for r, n, m in EVERY for s in range(SEEDS)]  # fmt: skip
    places = {key: place for place, key in enumerate(keys)}
    source.__dict__["_metrics"] = {
        "recall": RunRows(places, every), "kept": RunRows(places, kept.reshape(every.shape)),
        "ece": RunRows(places, np.full(every.shape, np.nan)),
        "ece_calibrated": RunRows(places, np.full(every.shape, np.nan)),
    }  # fmt: skip
    source.__dict__["_right"] = RunRows(places, right.reshape(len(keys), -1).astype(float))
    source.__dict__["_sure"] = RunRows(places, sure.reshape(len(keys), -1))
    return source


def _nothing(generator, spread=0.5):
    """Return outcomes of which no rule, mechanism or C knows anything."""
    hard = generator.normal(1.5, 1.0, SHAPE[2:])
    chance = 1 / (1 + np.exp(-(hard + generator.normal(0, spread, (*SHAPE[:2], 1, 1)))))
    right = generator.random(SHAPE) < chance
    sure = np.clip(chance + generator.normal(0, 0.05, SHAPE), 0.3, 1)
    kept = 0.4 + generator.normal(0, 0.02, (*SHAPE[:2], 1 + len(LABELS)))
    return right, sure, kept


def test_outcomes_as_arrays_give_the_tests_of_tables():
    own = PREDICTIONS.set_index(["run_key", "example"])
    right = (own["predicted"] == own["label"]).to_numpy().reshape(SHAPE)
    rows = TABLE.loc[TABLE["metric"] == "kept", "value"].to_numpy(float)
    found = _with(right, own["confidence"].to_numpy().reshape(SHAPE), rows)
    by_arrays = corrected([one for kind in KINDS for one in kind(found)])
    by_tables = findings(CELLS, PREDICTIONS)
    assert [one.sentence for one in by_arrays] == [one.sentence for one in by_tables]
    assert {one.kind for one in by_tables} == OF_KIND
    assert [one.q for one in by_arrays] == pytest.approx([one.q for one in by_tables], nan_ok=True)


def test_where_nothing_is_true_claims_are_as_rare_as_is_said():
    generator = np.random.default_rng(5)
    together, alone = 0, Counter()
    for _ in range(TRIALS):
        source = _with(*_nothing(generator))
        tests = {kind: kind(source) for kind in KINDS}
        together += any(
            one.claimed for one in corrected([t for own in tests.values() for t in own])
        )
        for own in filter(None, tests.values()):  # no cell has an audit
            alone[own[0].kind] += any(one.claimed for one in corrected(own))
    assert set(alone) == OF_KIND
    # 5 % of 200 are 10; more than 16 would happen by chance in under 2 % of such series.
    assert together <= 16
    assert max(alone.values()) <= 16


def test_an_effect_of_every_kind_is_found():
    right, sure, kept = _nothing(np.random.default_rng(1), spread=0.01)
    lost = np.random.default_rng(2).random(right.shape) < 0.97
    for place, (rule, norm, mechanism) in enumerate(EVERY):
        if rule == "flat" and mechanism in ("private", "clip_only") and norm == FIRST_NORM:
            right[place, :, -1] &= ~lost[place, :, -1]
            kept[place, :, -1] -= 0.3
    source = _with(right, sure, kept)
    tests = corrected([one for kind in KINDS for one in kind(source)])
    assert {one.kind for one in tests if one.claimed and one.wanted} == OF_KIND


FIRST_NORM = next(line.norm(best) for line, best in FIRST.lines if line.rule == "flat")
