"""``python -m dpsgd.track push runs/``: copy runs to MLflow that it does not hold yet."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from dpsgd.experiment.named_runs import FOLDER, takes_runs_dir, words
from dpsgd.experiment.track.address import usual_tracker
from dpsgd.experiment.track.push import push
from dpsgd.experiment.track.pushed import Pushed
from dpsgd.experiment.tracker import MlflowTracker

SHOWN = 5
"""So many runs that could not be copied are named."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; exit with 1 if something is missing there, 2 for no such folder."""
    options = _parser().parse_args(words(arguments))
    runs, keys = _folder_and_keys(options)
    if not runs.is_dir():
        _leave(f"runs_dir={runs}: is no folder", 2)
    tracker = MlflowTracker("mlflow", options.uri, options.experiment)
    pushed = push(runs, tracker, keys or None, told=_progress())
    for line in lines(pushed):
        print(line)  # noqa: T201
    if not pushed.complete:
        _leave(f"the same command copies the rest: {tracker.address(runs).push_command}", 1)


def _folder_and_keys(options: argparse.Namespace) -> tuple[Path, list[str]]:
    """Return the folder of runs, which is the first word unless it was given in another way."""
    if options.runs_dir is not None or not options.run:
        return options.runs_dir or FOLDER, options.run
    return Path(options.run[0]), options.run[1:]


def lines(pushed: Pushed) -> list[str]:
    """Return what became of a push, for people."""
    found = [f"{len(pushed.copied)} copied, {pushed.already} there already"]
    if pushed.failed:
        found.append(f"{len(pushed.failed)} could not be copied:")
        found += [f"  {key}: {why}" for key, why in list(pushed.failed.items())[:SHOWN]]
    if pushed.left:
        found.append(f"{len(pushed.left)} not tried")
    if pushed.error is not None:
        found.append(f"MLflow: {pushed.error}")
    return found + ([pushed.page] if pushed.page is not None else [])


def _progress(every: float = 5.0) -> Callable[[int, int], None]:
    last = time.monotonic()

    def told(done: int, of: int) -> None:
        nonlocal last
        if time.monotonic() - last > every:
            last = time.monotonic()
            print(f"{done} of {of}", flush=True)  # noqa: T201

    return told


def _leave(message: str, code: int) -> NoReturn:
    print(message, file=sys.stderr)  # noqa: T201
    sys.exit(code)


def _parser() -> argparse.ArgumentParser:
    usual = usual_tracker()
    parser = argparse.ArgumentParser(prog="python -m dpsgd.track", description="Runs in MLflow.")
    commands = parser.add_subparsers(required=True, metavar="push")
    about = "copy runs that have ended and are not in MLflow yet, and the summary of each sweep"
    command = commands.add_parser("push", help=about, description=about)
    command.add_argument("run", nargs="*", help="the folder of runs, then run keys; none: all")
    takes_runs_dir(command)
    command.add_argument("--uri", default=usual["uri"], help="as tracker.uri; sqlite in RUNS")
    command.add_argument("--experiment", default=usual["experiment"], help="as tracker.experiment")
    return parser


if __name__ == "__main__":
    main()
