"""What the cells do not carry: what was not told apart, and how many seeds would be needed."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.findings.model import KINDS, Finding
from analysis.findings.phrases import at, bits, interval, of_line, of_slice, points
from analysis.findings.statistics import FEWEST, flip_seeds, seeds_needed
from analysis.lettering import one_line
from analysis.lines import ENOUGH, Family, private_lines
from analysis.wording import counted, epsilon_text

_NAMED = 10


def limits(cells: Family, tests: Sequence[Finding]) -> list[str]:
    """Return sentences: no tests at all, slices too small, and the largest effect of each kind
    among those that are not claimed, with the seeds that would tell it from 0.
    """
    found = [*_few(cells, tests), *_too_few_seeds(cells), *_idle(cells), *_small(cells)]
    tested = [test for test in tests if test.effect.p == test.effect.p]
    for kind in KINDS:
        own = [test for test in tested if test.kind == kind and not test.claimed]
        if own:
            found.append(_largest(kind, own, len(tested)))
    return found


def _few(cells: Family, tests: Sequence[Finding]) -> list[str]:
    if any(test.effect.p == test.effect.p for test in tests):
        return []
    seeds = max(cells.named.groupby("condition")["replicate"].nunique().tolist())
    if not cells.lines:
        return ["Nothing is claimed: no private cell is finished."]
    if all(line.best is None for line in cells.lines):
        return ["Nothing is claimed: no private cell has a validation accuracy to choose C by."]
    if seeds < 2:
        needed = flip_seeds(max(len(tests), 1))
        return [
            "Nothing is claimed: there is 1 seed, and what another would do is unknown. A t test"
            " needs 2 at the least, and 3 to 5 are a good start (seed=0,1,2); a sign-flip test,"
            f" which takes no distribution for granted, {needed} for {counted(len(tests), 'test')}."
        ]
    return [
        "Nothing is claimed: no comparison has two seeds on both sides that differ, as of a private"
        " cell and a finished baseline."
    ]


def _too_few_seeds(cells: Family) -> list[str]:
    """Return which rules and thresholds have too few seeds, where others have enough."""
    seeds = cells.named.groupby("condition")["replicate"].nunique().to_dict()
    if max(seeds.values()) < ENOUGH:
        return []
    lines = private_lines(cells.table, cells.named)
    found: list[str] = []
    alone = [line for line in lines if line.best is not None and seeds[line.best] < ENOUGH]
    if alone:
        named = _listed([f"{line.name} at {epsilon_text(line.epsilon)}" for line in alone])
        found.append(f"Not tested, with 1 seed at every C, where a test needs {ENOUGH}: {named}.")
    passed = [
        f"{of_line(line, condition)}, {epsilon_text(line.epsilon)}"
        for line in lines
        if not line.idle
        for condition in line.passed_over
    ]
    if passed:
        found.append(
            f"Passed over in choosing the best C, with 1 seed where others have {ENOUGH} or more:"
            f" {_listed(passed)}."
        )
    return found


def _idle(cells: Family) -> list[str]:
    """Return of which rules no C was chosen or compared, as it does nothing."""
    lines = private_lines(cells.table, cells.named)
    named = dict.fromkeys(line.rule for line in lines if line.idle and len(line.norms) > 1)
    if not named:
        return []
    return [
        f"Not compared, the values of C of {', '.join(named)}: the weights are in proportion to C,"
        " and lr_scale=by_norm divides by C, so that C does nothing and its values are the same"
        " runs with other noise."
    ]


def _listed(names: Sequence[str]) -> str:
    more = f"; and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return "; ".join(names[:_NAMED]) + more


def _small(cells: Family) -> list[str]:
    small = [column for column in cells.columns if column.n_low < FEWEST]
    if not small:
        return []
    named = ", ".join(f"“{one_line(column.name)}” (n = {column.n_low})" for column in small[:10])
    more = f" and {len(small) - 10} more" if len(small) > 10 else ""
    return [f"Not tested, with fewer than {FEWEST} test examples: {named}{more}."]


def _largest(kind: str, own: Sequence[Finding], tests: int) -> str:
    test = max(own, key=lambda one: abs(one.effect.mean))
    needed = seeds_needed(test.effect, tests)
    more = (
        f"if it is as large as it looks, {needed} seeds would do"
        if needed
        else "more seeds alone would not do: it needs more examples in the slice"
        if test.effect.of_examples
        else "over 100 seeds would be needed"
    )
    unit = "%" if kind == "gradient" else ""
    size = f"{abs(100 * test.effect.mean):.0f} %" if unit else points(test.effect.mean)
    ends = interval(test.effect)
    if test.unit == "bits":
        size = bits(test.effect.mean)
        ends = f"[{test.effect.lo:.1f}, {test.effect.hi:.1f}]".replace("-", "−")
    against = f" ({test.against})" if kind == "attribution" else f" against {test.against}"
    return (
        f"Not told apart, {kind}: {len(own)} of the tests. The largest difference among them:"
        f" {at(test.epsilon)[0].lower()}{at(test.epsilon)[1:]}, {test.subject}{against},"
        f" {of_slice(test.slice)}: {size} {ends}, q = {test.q:.3f}; {more}."
    )
