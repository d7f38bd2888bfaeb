"""``python -m dpsgd.calibrate``: σ for an ε, ε of a σ, what a budget allows, without training."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from dpsgd.accounting import (
    ESTIMATES,
    PLD,
    PRV,
    RDP,
    Accountant,
    Moments,
    check_delta,
    default_delta,
    estimates,
    format_delta,
    format_epsilon,
    largest_steps,
    poisson_gaussian,
)
from dpsgd.accounting.accountant import neighbouring_relation
from dpsgd.errors import ConfigError, folded
from dpsgd.experiment.question import Question, question_of

USAGE = """\
python -m dpsgd.calibrate epsilon=3 n=60000 batch=256 epochs=60 delta=1e-5
    σ by every accountant
python -m dpsgd.calibrate noise_multiplier=1.1 n=60000 batch=256 epochs=60
    ε by every accountant, and what papers quote
python -m dpsgd.calibrate epsilon=3 noise_multiplier=1.1 n=60000 batch=256 epochs=60
    the most steps, and the largest batch, that the budget allows

n is the number of units of privacy, batch the expected number of them in a step (or q=, the
probability of one); steps= in the place of epochs; delta: n^-1.1 rounded down unless given;
relation: add_or_remove_one unless given."""

ACCOUNTANTS: tuple[Accountant, ...] = (
    PLD("pld", 1e-4), RDP("rdp", None), PRV("prv", 1e-2), Moments("moments"),
)  # fmt: skip
BATCH_STEPS = 40


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; exit with 2 for a question that cannot be answered."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    if not given or set(given) & {"-h", "--help"}:
        print(USAGE)  # noqa: T201
        return
    console = Console(highlight=False)
    try:
        question = question_of(given)
        neighbouring_relation(question.relation)
        delta = default_delta(question.n) if question.delta is None else question.delta
        check_delta(delta, question.n)
        _answer(question, delta, console)
    except ConfigError as error:
        print(folded(str(error)), file=sys.stderr)  # noqa: T201
        sys.exit(2)


def _answer(question: Question, delta: float, console: Console) -> None:
    console.print(
        f"q = {question.q:.6g} (batch {question.batch:g} of n = {question.n}), "
        f"T = {question.steps} steps\nδ = {format_delta(delta)}, relation {question.relation}\n"
    )
    if question.noise_multiplier is None:
        console.print(_noise(question, delta))
    elif question.epsilon is None:
        console.print(_epsilon(question, question.noise_multiplier, delta))
    else:
        console.print(_budget(question, question.epsilon, question.noise_multiplier, delta))


def _noise(question: Question, delta: float) -> Table:
    target = question.epsilon or math.inf
    table = _table("accountant", "σ", "ε")
    for accountant in ACCOUNTANTS:
        try:
            sigma = accountant.calibrate(
                lambda s: poisson_gaussian(question.q, s, question.steps),
                question.relation, target, delta,
            )  # fmt: skip
            event = poisson_gaussian(question.q, sigma, question.steps)
            spent = accountant.epsilon(event, question.relation, delta)
            table.add_row(accountant.name, f"{sigma:.5g}", format_epsilon(spent))
        except ConfigError as error:
            table.add_row(accountant.name, "–", f"refused: {error.allowed}")
    return table


def _epsilon(question: Question, sigma: float, delta: float) -> Table:
    table = _table("accountant", "ε", "")
    event = poisson_gaussian(question.q, sigma, question.steps)
    for accountant in ACCOUNTANTS:
        try:
            spent = format_epsilon(accountant.epsilon(event, question.relation, delta))
            table.add_row(accountant.name, spent, "certifies")
        except ConfigError as error:
            table.add_row(accountant.name, "–", f"refused: {error.allowed}")
    if question.relation == "add_or_remove_one":
        for name, value in estimates(event, delta).items():
            table.add_row(name, format_epsilon(value), f"no bound: {ESTIMATES[name]}")
    return table


def _budget(question: Question, epsilon: float, sigma: float, delta: float) -> Table:
    table = _table("accountant", "most steps", "largest batch")
    for accountant in ACCOUNTANTS:
        try:
            steps = _most_steps(accountant, question, epsilon, sigma, delta)
            batch = _largest_batch(accountant, question, epsilon, sigma, delta)
            table.add_row(accountant.name, str(steps), f"{batch:.4g}")
        except ConfigError as error:
            table.add_row(accountant.name, "–", f"refused: {error.allowed}")
    return table


def _most_steps(
    accountant: Accountant, question: Question, epsilon: float, sigma: float, delta: float
) -> int:
    """Return the largest T at this q, looked for upwards from the one asked about."""
    limit = question.steps
    while True:
        found = largest_steps(
            accountant, lambda t: poisson_gaussian(question.q, sigma, t),
            question.relation, epsilon, delta, limit,
        )  # fmt: skip
        if found < limit:
            return found
        limit *= 4


def _largest_batch(
    accountant: Accountant, question: Question, epsilon: float, sigma: float, delta: float
) -> float:
    """Return the largest expected batch over this many steps, by bisection of q; 0 if none is."""

    def fits(q: float) -> bool:
        event = poisson_gaussian(q, sigma, question.steps)
        return accountant.epsilon(event, question.relation, delta) <= epsilon

    low, high = 1 / question.n, 1.0
    if not fits(low):
        return 0.0
    if fits(high):
        return float(question.n)
    for _ in range(BATCH_STEPS):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if fits(middle) else (low, middle)
        if high / low < 1 + 1e-3:
            break
    return low * question.n


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for i, column in enumerate(columns):
        table.add_column(column, justify="right" if i and column else "left")
    return table


if __name__ == "__main__":
    main()
