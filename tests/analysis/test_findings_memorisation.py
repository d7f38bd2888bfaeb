"""Findings on memorisation: a planted effect is found, and none where there is nothing."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from planted_audits import CANARIES, planted_audits
from planted_findings import LABELS, planted

from analysis.findings.findings import corrected, findings, told
from analysis.findings.limits import limits
from analysis.findings.memorisation import memorisations
from analysis.findings.outcomes import Outcomes
from analysis.findings.run_rows import RunRows
from analysis.lines import family

NONE = pd.DataFrame({n: [] for n in ["run_key", "example", "label", "predicted", "confidence"]})
BEFORE = {"0": 6.0, "1": 6.0, "2": 6.0, "3": 9.0}


def memorised(table):
    return corrected(memorisations(Outcomes(family(table), NONE)))


def test_a_slice_whose_exposure_falls_further_was_protected_more():
    table = planted_audits(np.random.default_rng(0), 8, before=BEFORE, after=1.44)
    found = {(test.subject.split()[0], test.slice.name): test for test in memorised(table)}
    assert {name for _, name in found} == {"all", *LABELS}
    assert found["flat", "all"].claimed
    assert found["flat", "3"].claimed
    assert found["flat", "3"].effect.mean == pytest.approx(3, abs=1)
    assert "it was protected by" in found["flat", "3"].sentence
    assert found["flat", "3"].sentence.count(" more (8 seeds, n = 20 records a run") == 1
    assert not any(found["flat", name].effect.mean > 0 for name in "012")


def test_the_numbers_of_a_sentence_are_those_of_the_table():
    table = planted_audits(np.random.default_rng(1), 5, before=BEFORE, after=2.0)
    test = next(t for t in memorised(table) if t.slice.name == "3" and "flat" in t.subject)
    rows = table.loc[(table["metric"] == "exposure") & (table["slice"] == "3")]
    own = rows.set_index("run_key")["value"]
    before, after = (own[list(keys)].mean() for keys in (test.runs[5:], test.runs[:5]))
    assert f"fell from {before:.1f} to {after:.1f} bits" in test.sentence
    assert "label “3” lost" in test.sentence or "label “3” gained" in test.sentence
    assert "diagnostic, not private" in test.sentence
    assert test.value == pytest.approx(before - after)
    assert test.effect.mean == pytest.approx(test.value - test.reference)


def test_an_attack_on_members_is_told_in_areas():
    table = planted_audits(np.random.default_rng(2), 8, before=BEFORE, audit="membership")
    test = next(t for t in memorised(table) if t.slice.name == "all")
    assert test.claimed
    assert "the area of an attack on all members fell from 0.7" in test.sentence
    assert "nobody shows 0.50" in test.sentence


def test_cells_without_an_audit_or_with_one_seed_claim_nothing():
    assert memorised(planted(np.random.default_rng(0), 3)[0]) == []
    alone = memorised(planted_audits(np.random.default_rng(0), 1, before=BEFORE))
    assert len(alone) > 0
    assert not any(test.claimed for test in alone)


def test_bits_do_not_push_shares_from_the_top():
    table = planted_audits(np.random.default_rng(3), 5, before=BEFORE)
    claims = [t for t in findings(table, NONE) if t.unit == "bits" and t.claimed]
    assert claims
    assert all(0 < test.strength < 1 for test in claims)
    assert set(told(claims)) <= set(claims)


def test_what_was_not_told_apart_is_said_in_bits():
    table = planted_audits(np.random.default_rng(4), 4)
    lines = [x for x in limits(family(table), memorised(table)) if "protection" in x]
    assert len(lines) == 1
    assert "bits [" in lines[0]


def test_on_shuffled_labels_claims_are_as_rare_as_is_said():
    # Canaries of very different exposures, dealt anew to the labels of every run in every trial.
    generator = np.random.default_rng(5)
    table = planted_audits(generator, 4, before=BEFORE)
    source = Outcomes(family(table), NONE)
    rows = source.by_metric("exposure_gap", "audit")
    labels = [i for i, column in enumerate(source.cells.columns) if column.kind == "label"]
    means = np.full((len(rows.values), len(LABELS)), 1.44)
    baselines = [place for key, place in rows.places.items() if key.startswith("none")]
    means[baselines] = [BEFORE[name] for name in LABELS]
    bits = generator.exponential(np.repeat(means, CANARIES, axis=1))
    claims = tested = 0
    for _ in range(200):
        dealt = generator.permuted(bits, axis=1).reshape(len(bits), len(LABELS), CANARIES).mean(2)
        values = rows.values.copy()
        values[:, labels] = dealt - (dealt.sum(1, keepdims=True) - dealt) / (len(LABELS) - 1)
        source._metrics["exposure_gap"] = RunRows(rows.places, values)
        tests = corrected([t for t in memorisations(source) if t.slice.kind != "all"])
        claims += any(test.claimed for test in tests)
        tested += len(tests)
    assert tested == 200 * 2 * len(LABELS)
    # 5 % of 200 are 10; more than 16 would happen by chance in under 2 % of such series.
    assert claims <= 16
