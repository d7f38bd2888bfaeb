"""``python -m dpsgd.audit RUN…``: what the audits of finished runs say, alone and together."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console
from rich.table import Table

from analysis import schema
from dpsgd.accounting import format_epsilon
from dpsgd.errors import ConfigError, folded
from dpsgd.experiment.audit_text import powerless, reach_of
from dpsgd.experiment.exposed import ExposedGroup, exposed
from dpsgd.experiment.many_runs import Tested, many_runs
from dpsgd.experiment.named_runs import FOLDER, named_runs, takes_runs_dir, words
from dpsgd.experiment.record import finished
from dpsgd.experiment.shadows import FEWEST, attacks, groups

ATTACKS = {"lira_online": "LiRA", "lira_offline": "LiRA off"}
VERDICT = {True: "REFUTED", False: "holds", None: "no claim"}
NO_POWER = "no power"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; exit with 1 if a claimed ε is refuted, 2 for a bad question."""
    options = _parser().parse_args(words(arguments))
    console = Console(highlight=False)
    try:
        folders, cells = _audited(options)
        _print_runs(console, cells)
        rows = [row for group in groups(folders, cells) for row in attacks(group)]
        together = list(many_runs(folders, cells))
        exposures = list(exposed(folders, cells))
    except ConfigError as error:
        print(folded(str(error)), file=sys.stderr)  # noqa: T201
        sys.exit(2)
    if exposures:
        _print_exposures(console, exposures)
    if rows:
        _print_attacks(console, rows)
    if together:
        _print_together(console, together)
    if options.out is not None:
        pd.DataFrame(rows).to_csv(options.out, index=False)
        console.print(f"attacks: {options.out}", soft_wrap=True)
    refuted = [cell["audit_refuted"] for cell in cells] + [one.refuted for one in together]
    sys.exit(1 if any(refuted) else 0)


def _audited(options: argparse.Namespace) -> tuple[list[Path], list[dict[str, Any]]]:
    """Return the finished, audited runs that were named. Raises ConfigError for none."""
    folders = named_runs(options.run, options.runs_dir, schema.AUDIT_FILE)
    found = {folder: finished(folder) for folder in folders}
    audited = {f: c for f, c in found.items() if c is not None and "audit" in c}
    if not audited:
        named = options.run or [str(options.runs_dir or FOLDER)]
        raise ConfigError(
            "run", ", ".join(named), "must be finished runs with an audit",
            "train one with audit=gradient, audit=canaries or audit=membership",
        )  # fmt: skip
    ordered = sorted(audited.items(), key=lambda pair: (pair[1]["label"], pair[0].name))
    return [folder for folder, _ in ordered], [cell for _, cell in ordered]


def _print_runs(console: Console, cells: Sequence[dict[str, Any]]) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("run", "audit", "guesses\nright", "ε\nclaimed", "ε ≥", "ε ≥\nGaussian",
                 "ε ≥ at\nmost", ""):  # fmt: skip
        left = name in ("run", "audit", "")
        table.add_column(name, justify="left" if left else "right", vertical="bottom",
                         overflow="fold")  # fmt: skip
    for cell in cells:
        table.add_row(
            _without_audit(cell), cell["audit"], f"{cell['audit_correct']}/{cell['audit_guesses']}",
            format_epsilon(float(cell["epsilon"])), _bound(cell["audit_epsilon"]),
            _bound(cell["audit_epsilon_gaussian"]), _bound(reach_of(cell)),
            NO_POWER if powerless(cell) else VERDICT[cell["audit_refuted"]],
        )  # fmt: skip
    console.print(table)
    levels = sorted({1 - cell["audit_significance"] for cell in cells})
    console.print(
        f"ε ≥: lower bounds, each with confidence {', '.join(f'{level:.0%}' for level in levels)}, "
        "for any mechanism, and for one whose trade-off curve is of Gaussian shape; at most: the "
        "larger of both, had all guesses been right. holds: so many right guesses do not refute "
        "the run's own privacy profile, which proves nothing. no power: nor would all of them, "
        "right, so that more guesses are needed to say anything. no claim: ε = ∞. –: ε is of "
        "users and the coins are of their records, which bounds nothing"
    )


def _print_exposures(console: Console, found: Sequence[ExposedGroup]) -> None:
    for group in found:
        several = group.runs > 1
        seeds = f", {group.runs} seeds" if several else ""
        console.print(f"\n{group.label}{seeds}: exposure in bits", soft_wrap=True)
        table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
        spread = "runs" if several else "95 %"
        for name in ("slice", "canaries\nin", "exposure", spread, "fitted", "−\nothers’", spread):
            table.add_column(name, justify="left" if name == "slice" else "right",
                             vertical="bottom", overflow="fold")  # fmt: skip
        for one in group.slices:
            table.add_row(
                one.name if one.name == one.kind else f"{one.kind} {one.name}", str(one.canaries),
                f"{one.exposure:.2f}", _from_to(one.between, ""), _signed(one.extrapolated, ""),
                _signed(one.gap, "+"), _from_to(one.gap_between, "+"),
            )  # fmt: skip
        console.print(table)
    console.print(
        "\nexposure: log2 of how many references a canary stands out from, mean over those that "
        "were in; fitted: beyond the number of references, by a skew-normal. − others’: minus that "
        "of all other canaries of a slice. runs: lowest to highest of them. –: too few to say"
    )


def _print_attacks(console: Console, rows: Sequence[dict[str, Any]]) -> None:
    every: Any = pd.DataFrame(rows).groupby(["label", "runs"], sort=False)
    for (label, runs), found in every:
        console.print(f"\n{label}, {runs} seeds", soft_wrap=True)
        console.print(_attacks_table(found))
    console.print(
        "\nTPR: true positive rate at that false positive rate; –: too few examples to say. LiRA, "
        f"online and offline, needs {FEWEST} runs that differ in their seed alone. AUC − others’: "
        "minus that of all other examples of these runs; interval and p, of no difference, hold "
        "for slices of any size, and are not corrected for how many slices there are"
    )


def _attacks_table(rows: pd.DataFrame) -> Table:
    """Return a line for each slice and attack of runs that differ in their seed alone."""
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    names = ("slice", "n", "attack", "AUC", "95 %", "TPR at\n1 %", ".1 %", "AUC −\nothers’",
             "95 %", "p")  # fmt: skip
    for name in names:
        left = name in ("slice", "attack")
        table.add_column(name, justify="left" if left else "right", vertical="bottom",
                         overflow="fold" if left else "ellipsis")  # fmt: skip
    before = None
    every: Any = rows.groupby(["slice", "examples", "attack"], sort=False)
    for (name, examples, attack), found in every:
        by = found.set_index("metric")
        area = by.loc["membership_auc"]
        again = name == before
        table.add_row(
            "" if again else str(name), "" if again else str(examples),
            ATTACKS.get(str(attack), str(attack)), _shown(area["value"]),
            f"{_shown(area['lo'])}–{_shown(area['hi'])}" if pd.notna(area["lo"]) else "–",
            _shown(by.loc["tpr_at_1pct", "value"]), _shown(by.loc["tpr_at_01pct", "value"]),
            *_against_others(by),
        )  # fmt: skip
        before = name
    return table


def _print_together(console: Console, found: Sequence[Tested]) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    names = ("runs of", "chosen\non", "false\npositives", "false\nnegatives", "ε\nclaimed",
             "ε ≥", "μ ≥", "ε ≥\nGaussian", "")  # fmt: skip
    for name in names:
        table.add_column(name, justify="left" if name in ("runs of", "") else "right",
                         vertical="bottom")  # fmt: skip
    for one in found:
        trials = one.trials
        table.add_row(
            one.label, f"{one.chosen} runs", f"{trials.false_positives} of {trials.without}",
            f"{trials.false_negatives} of {trials.with_}", format_epsilon(one.claimed),
            _bound(one.epsilon), _bound(one.mu), _bound(one.epsilon_gaussian),
            NO_POWER if one.powerless else VERDICT[one.refuted],
        )  # fmt: skip
    console.print(table)
    console.print(
        "one example and one threshold over all runs, by Clopper and Pearson: chosen on the first "
        "half of the seeds, counted on the others. μ, and the last bound, assume a trade-off curve "
        "of Gaussian shape. Few runs bound little: 25 of each kind without a mistake say 1.8; no "
        "power: no mistake at all would refute the claim with so few"
    )


def _against_others(by: pd.DataFrame) -> tuple[str, str, str]:
    if "membership_auc_gap" not in by.index:
        return "", "", ""
    gap = by.loc["membership_auc_gap"]
    if pd.isna(gap["value"]):  # too few examples on a side
        return "–", "–", "–"
    p = "–" if pd.isna(gap["p"]) else f"{gap['p']:.2g}" if gap["p"] >= 1e-4 else "<1e-4"
    return _signed(gap["value"], "+"), _from_to((gap["lo"], gap["hi"]), "+"), p


def _bound(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}"


def _signed(value: float | None, sign: str) -> str:
    return "–" if value is None else f"{value:{sign}.2f}".replace("-", "−")


def _from_to(between: tuple[float, float] | None, sign: str) -> str:
    if between is None:
        return "–"
    return (" to " if sign else "–").join(_signed(end, sign) for end in between)


def _without_audit(cell: dict[str, Any]) -> str:
    """Return a label without the audit, which has its own column."""
    return str(cell["label"]).replace(f" audit={cell['audit']}", "")


def _shown(value: float) -> str:
    return "–" if pd.isna(value) else f"{value:.2f}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m dpsgd.audit",
        description="Lower bounds on ε, exposure by slice, and membership inference over seeds.",
    )
    parser.add_argument(
        "run", nargs="*", help="a run's folder, the start of its key, or a folder of runs"
    )
    takes_runs_dir(parser)
    parser.add_argument("--out", type=Path, metavar="CSV", help="write the attacks there")
    return parser


if __name__ == "__main__":
    main()
