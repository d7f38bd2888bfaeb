"""``python -m dpsgd.ledger show|verify|compose``: privacy ledgers, read, checked and added up."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from analysis import schema
from dpsgd.errors import ConfigError, PrivacyError, folded
from dpsgd.experiment.named_runs import named_runs, takes_runs_dir, words


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; exit with 1 for a ledger that does not hold, 2 for a bad question."""
    options = _parser().parse_args(words(arguments))
    try:
        sys.exit(options.do(options))
    except (ConfigError, PrivacyError) as error:
        print(folded(str(error)), file=sys.stderr)  # noqa: T201
        sys.exit(2)


def _show(options: argparse.Namespace) -> int:
    from dpsgd.experiment.ledger_view import shown_page, write_shown_page  # noqa: PLC0415

    for folder in _folders(options):
        page = write_shown_page(folder) if options.write else shown_page(folder)
        print(page, end="")  # noqa: T201
    return 0


def _verify(options: argparse.Namespace) -> int:
    from dpsgd.experiment.ledger_view import verdict_lines  # noqa: PLC0415
    from dpsgd.experiment.verify import verify  # noqa: PLC0415

    folders = _folders(options)
    if options.seal and len(folders) != 1:
        raise ConfigError("seal", options.seal, "is that of one run: give one")
    failed = 0
    for folder in folders:
        try:
            verdict = verify(folder, seal=options.seal)
        except ConfigError as error:
            print(f"{folder.name}: cannot be verified\n  {error}")  # noqa: T201
            failed += 1
            continue
        print("\n".join(verdict_lines(verdict)))  # noqa: T201
        failed += not verdict.holds
    return 1 if failed else 0


def _compose(options: argparse.Namespace) -> int:
    from dpsgd.experiment.composition import total  # noqa: PLC0415
    from dpsgd.experiment.ledger_view import total_lines  # noqa: PLC0415
    from dpsgd.experiment.verify import verify  # noqa: PLC0415

    verdicts = [verify(folder, accountants=False) for folder in _folders(options)]
    for verdict in verdicts:
        if not verdict.holds:
            raise ConfigError(
                "run", verdict.folder.name, f"does not hold: {verdict.findings.mismatches[0]}",
                "python -m dpsgd.ledger verify says what is wrong with it",
            )  # fmt: skip
    result = total([(verdict.folder, verdict.ledger) for verdict in verdicts], options.delta)
    print("\n".join(total_lines(result, verdicts)))  # noqa: T201
    return 0


def _folders(options: argparse.Namespace) -> list[Path]:
    return named_runs(options.run, options.runs_dir, schema.LEDGER_FILE)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m dpsgd.ledger", description="Privacy ledgers, read, checked and added up."
    )
    commands = parser.add_subparsers(required=True, metavar="show|verify|compose")
    for name, do, about in (
        ("show", _show, "the page of a run, with what the runs folder knows of its quality"),
        ("verify", _verify, "compute ε again, and compare ledger, config, steps, model and page"),
        ("compose", _compose, "what several runs, or a whole sweep, cost together"),
    ):
        command = commands.add_parser(name, help=about, description=about)
        command.add_argument(
            "run", nargs="*", help="a run's folder, the start of its key, or a folder of runs"
        )
        takes_runs_dir(command)
        command.set_defaults(do=do)
        if name == "show":
            command.add_argument("--write", action="store_true", help="write it to the run, too")
        if name == "verify":
            command.add_argument("--seal", help="the run's seal as you know it from elsewhere")
        if name == "compose":
            command.add_argument("--delta", type=float, help="the δ of the total")
    return parser


if __name__ == "__main__":
    main()
