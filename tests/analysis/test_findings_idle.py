from __future__ import annotations

from pathlib import Path

import hydra
import pandas as pd
import pytest
import torch
from omegaconf import OmegaConf
from planted_cells import baseline, cell, set_value, sweep
from planted_run_files import table_of

from analysis.findings.findings import findings
from analysis.findings.report import write_findings
from analysis.idle import IN_PROPORTION, norm_is_idle
from analysis.lines import family
from dpsgd.clipping.one_group import OneGroup
from dpsgd.clipping.rule import ClipRule

CONF = Path(__file__).parents[2] / "conf" / "clip"
NO_PREDICTIONS = ["run_key", "example", "label", "predicted", "confidence"]
NORMS = torch.logspace(-3, 3, 40)[:, None].float()


def own_weights(name: str, norm: float) -> torch.Tensor | None:
    """Return weights over C for plain norms, of a rule with one clip group and no state but C."""
    config = OmegaConf.load(CONF / f"{name}.yaml")
    rule = hydra.utils.instantiate(OmegaConf.merge(config, {"norm": norm}))
    if not isinstance(rule, OneGroup) or type(rule).query is not ClipRule.query:
        return None
    state = {"threshold": torch.tensor([norm], dtype=torch.float64)}
    assert rule.scale(state).item() == pytest.approx(norm)  # so is the noise
    return rule.weights(NORMS, state, {}) / norm


@pytest.mark.parametrize("name", sorted(path.stem for path in CONF.glob("*.yaml")))
def test_the_rules_named_are_those_whose_weights_are_in_proportion_to_the_threshold(name):
    if "norm" not in OmegaConf.load(CONF / f"{name}.yaml"):
        assert name not in IN_PROPORTION
        return
    one, two = (own_weights(name, norm) for norm in (0.1, 5.0))
    alike = one is not None and two is not None and torch.allclose(one, two, rtol=1e-5)
    assert (name in IN_PROPORTION) == alike


@pytest.mark.parametrize(
    ("changed", "idle"),
    [
        ({}, True),
        ({"lr_scale": "fixed"}, False),
        ({"rule": "flat"}, False),
        ({"config.clip._target_": "mine.Automatic"}, False),
        ({"config.clip._target_": None}, True),
    ],
)
def test_a_threshold_is_idle_only_of_the_projects_rule_and_by_norm(changed, idle):
    run = {"rule": "automatic", "lr_scale": "by_norm",
           "config.clip._target_": "dpsgd.clipping.automatic.Automatic"}  # fmt: skip
    assert norm_is_idle(pd.DataFrame([run | changed])) == idle
    assert not norm_is_idle(pd.DataFrame([run, run | {"lr_scale": "fixed"}]))


def swept(scale, seeds=3):
    cells = sweep(["automatic"], [0.1, 1.0, 5.0], seeds, lr_scale=scale)
    for content in cells:
        lucky = content["clip_norm"] == 5.0
        for metric in ("accuracy", "macro_accuracy", "tail_band"):
            where = {"split": "validation", "metric": metric, "slice": "all"}
            set_value(content, where, 0.9 if lucky else 0.6, 1000)
    return cells


@pytest.mark.parametrize(("scale", "compared"), [("by_norm", False), ("fixed", True)])
def test_values_of_an_idle_threshold_are_neither_compared_nor_chosen(tmp_path, scale, compared):
    table = table_of(tmp_path, *swept(scale))
    tests = findings(family(table), table.iloc[:0].reindex(columns=NO_PREDICTIONS))
    assert ("threshold" in {test.kind for test in tests}) == compared
    alike = ["(C = 0.1; any C trains alike)" in test.subject for test in tests]
    assert all(alike) != compared
    (line,) = family(table).lines
    assert line.norm(line.best or 0) == (5.0 if compared else 0.1)
    said = " ".join(write_findings(table, None, tmp_path, []).sentences)
    assert ("favours automatic (any C):" in said) != compared
    assert ("favours automatic at C = 5:" in said) == compared
    text = (tmp_path / "findings.md").read_text(encoding="utf-8")
    assert ("the values of C of automatic" in text) != compared


def test_all_values_of_an_idle_threshold_are_one_choice_over_its_seeds(tmp_path):
    table = table_of(tmp_path, *swept("by_norm", 2), *sweep(["flat"], [0.1, 1.0], 2))
    said = " ".join(write_findings(table, None, tmp_path, []).sentences)
    assert "Of 3 pairs of rule and C" in said
    assert "(6 runs, 2 seeds" in said
    assert "mean accuracy (0.70) and accuracy of the tail (0.70)" in said


def test_the_smallest_threshold_with_the_most_seeds_stands_for_an_idle_one(tmp_path):
    cells = [cell("automatic", 0.1, 0), *(cell("automatic", 1.0, s) for s in range(3))]
    cells += [cell("automatic", 5.0, s) for s in range(3)]
    (line,) = family(table_of(tmp_path, *cells, *(baseline(s) for s in range(3)))).lines
    assert line.norm(line.best or 0) == 1.0
    assert line.titled(line.best or 0) == "automatic, C = 1 (any alike)"
