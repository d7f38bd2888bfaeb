"""All findings of a family: tested, pooled, corrected together, and those worth a sentence."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import pandas as pd

from analysis.findings.attributions import attributions
from analysis.findings.calibrations import calibrations
from analysis.findings.erasure import erasures
from analysis.findings.gradients import gradients
from analysis.findings.memorisation import memorisations
from analysis.findings.model import Finding
from analysis.findings.outcomes import Outcomes
from analysis.findings.rivals import rules, thresholds
from analysis.findings.statistics import adjusted
from analysis.lines import Family, family

MOST = 12
_OF_KIND = 3
_KINDS = (erasures, gradients, attributions, rules, thresholds, calibrations, memorisations)


def findings(table: pd.DataFrame | Family, predictions: pd.DataFrame) -> list[Finding]:
    """Return every test of the cells of one family, with p-values corrected for all of them.

    ``predictions`` are those of the test split that ``wanted`` names; may be empty. Which are
    claimed is said by ``Finding.claimed``.
    """
    source = Outcomes(family(table), predictions)
    return corrected([finding for kind in _KINDS for finding in kind(source)])


def wanted(table: pd.DataFrame | Family) -> list[str]:
    """Return the run keys of which ``findings`` wants predictions: what it compares, and no more:
    every rule at its best C and at both ends, with their diagnostics and baselines.
    """
    source = Outcomes(family(table), _NONE)
    conditions = {best for _, best in source.lines}
    conditions |= {line.conditions[end] for line in source.cells.lines for end in (0, -1)}
    rows = source.partners
    rows = rows.loc[rows["condition"].isin(list(conditions)), :]
    names = ["run_key", "clip_only", "noise_only", "neither"]
    return [str(key) for key in dict.fromkeys(rows[names].to_numpy().ravel()) if pd.notna(key)]


def corrected(tests: Sequence[Finding]) -> list[Finding]:
    """Return tests with q: of all that are given, by Benjamini and Hochberg."""
    q = adjusted(np.array([test.effect.p for test in tests]))
    return [test.corrected(float(value)) for test, value in zip(tests, q, strict=True)]


def told(tests: Sequence[Finding]) -> list[Finding]:
    """Return the claims for the top, strongest first: at most 3 of a kind and 12 in all, one for
    each slice and subject of a kind.
    """
    claims = sorted((t for t in tests if t.claimed and t.wanted), key=lambda t: -t.strength)
    number: dict[str, int] = defaultdict(int)
    chosen: list[Finding] = []
    seen: set[tuple[object, ...]] = set()
    for claim in claims:
        key = (claim.kind, claim.slice, claim.subject, claim.epsilon)
        if number[claim.kind] < _OF_KIND and key not in seen:
            number[claim.kind] += 1
            chosen.append(claim)
            seen.add(key)
    return chosen[:MOST]


_NONE = pd.DataFrame(
    {name: [] for name in ["run_key", "example", "label", "predicted", "confidence"]}
)
