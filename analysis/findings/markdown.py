"""``findings.md``: sentences, their evidence, the recommendation, and how it was tested."""

from __future__ import annotations

import math
from collections.abc import Sequence

from analysis.findings.escaping import escaped, in_cell
from analysis.findings.evidence import COLUMNS
from analysis.findings.model import KINDS, Finding
from analysis.findings.statistics import LEVEL, flip_seeds
from analysis.idle import IN_PROPORTION
from analysis.lines import ENOUGH


def q_text(q: float) -> str:
    """Return ``q = 0.004``, and a bound where it is smaller than can be trusted."""
    return "q < 0.0001" if q < 1e-4 else f"q = {q:.1g}"


def numbered(claims: Sequence[Finding], start: int) -> list[str]:
    """Return the sentences as a Markdown list from ``start``."""
    return [f"{i}. {escaped(claim.sentence)}; {q_text(claim.q)}."
            for i, claim in enumerate(claims, start)]  # fmt: skip


def table(claims: Sequence[Finding], start: int) -> list[str]:
    """Return the evidence of the sentences as a Markdown table, shares with three decimals."""
    heads = ("no.", "kind", "ε", "what", "against", "measure", "slice", "n", "seeds", "value",
             "reference", "difference", "95 % interval", "p", "q")  # fmt: skip
    rows = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for i, claim in enumerate(claims, start):
        effect = claim.effect
        numbers = [f"{value:.4g}" for value in (claim.value, claim.reference, effect.mean)]
        texts = [str(i), claim.kind, _epsilon(claim.epsilon), claim.subject, claim.against,
                 claim.measure, _slice(claim), str(claim.n),
                 str(effect.seeds), *numbers, f"[{effect.lo:.4g}, {effect.hi:.4g}]",
                 f"{effect.p:.2g}", f"{claim.q:.2g}"]  # fmt: skip
        rows.append("| " + " | ".join(in_cell(text) for text in texts) + " |")
    return rows


def method(tests: int, seeds: int) -> list[str]:
    """Return how it was tested, for ``tests`` tests over at most ``seeds`` seeds."""
    smallest = 2 / 2**seeds if seeds else 1.0
    return [
        f"- **How many.** {tests} comparisons were tested; each kind, on every slice with enough"
        " examples, is fixed before any result is looked at:",
        *(f"  - {kind}: {what}." for kind, what in KINDS.items()),
        f"- **Correction.** Benjamini and Hochberg over all of them: q ≤ {LEVEL:g} is a claim, and"
        f" of the claims at most about {100 * LEVEL:.0f} % are expected to be false."
        f" Where nothing is true, the chance of any claim is at most {100 * LEVEL:.0f} %. The"
        " procedure asks that tests be independent or positively dependent; these share runs."
        " Intervals are 95 % each, not corrected, and cut to what can be: a share to 0 to 1, a"
        " difference of two to −1 to 1, and a difference of two differences to −2 to 2.",
        "- **Whom a claim is about.** Where `predictions.parquet` is there: other seeds *and* other"
        " test examples of the slice, for the same training data. The variance is that of the means"
        " of seeds plus that of the means of examples, both paired: runs of one seed share initial"
        " weights and test examples. Each is multiplied by its own squared t quantile (Banerjee"
        " 1960), so that neither many examples nor many seeds stand in for the other. Kept and clip"
        " fraction are of all records that training drew, and speak for other seeds alone; so does"
        " recall without predictions.",
        "- **Few seeds.** The variance over seeds is shared by the tests of one kind on one slice:"
        " each takes the larger of its own and the mean of all, with fewer degrees of freedom for"
        " the runs they share (not of memorisation, where most of it is the one baseline's)."
        " With one seed nothing is tested. The seeds that are said to be"
        f" needed would pass at {LEVEL:g} divided by the number of tests, with mean and"
        " spread unchanged.",
        f"- **Why Student's t.** A sign-flip test over {seeds} seeds cannot go below p ="
        f" {smallest:.2g}; with {tests} tests it could reach a claim from {flip_seeds(tests)} seeds"
        " on. The t test takes the differences between seeds to be normal, as means over many"
        " examples nearly are; with under ten seeds nothing in the data can check that.",
        f"- **C** of each rule is the one with the best mean validation accuracy of those with"
        f" {ENOUGH} seeds or more, if any has as many; all values are of the test split. The runs"
        " that chose C are also the ones that are tested, on other examples: a rule with more"
        " values of C had more chances to be lucky in its seeds. Where C does nothing"
        f" ({', '.join(IN_PROPORTION)} with lr_scale=by_norm) the tests take the smallest of those"
        " with the most seeds, whatever its result, and the recommendation all of them together.",
        f"- Every test, claimed or not, is a row of `findings.csv` ({', '.join(COLUMNS)}).",
    ]


def _slice(claim: Finding) -> str:
    kind, name = claim.slice.kind, claim.slice.name
    return "all examples" if kind == "all" else f"{kind} {name}"


def _epsilon(epsilon: float) -> str:
    return "∞" if math.isinf(epsilon) else f"{epsilon:g}"
