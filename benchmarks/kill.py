"""``python -m benchmarks.kill``: one cell, killed by SIGKILL at random moments and resumed.

The same cell is trained once undisturbed, and once in attempts, each of which is killed a random
time after it began to train. Every file of both is compared, and the ledger is verified after each
attempt.
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
import os
import random
import shlex
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from analysis import schema
from dpsgd.experiment.files import read_json
from dpsgd.experiment.verify import verify

CELL: dict[str, Any] = {
    "data": "mnist_tail", "model": "mlp", "steps": 400, "clip": "adaptive", "telemetry.window": 7,
    "tracker": "none", "checkpoint": 0.1, "runs_dir": "runs",
}  # fmt: skip
COMPARED = (
    schema.MODEL_FILE, schema.TELEMETRY_FILE, schema.GRADIENTS_FILE, schema.EVALUATION_FILE,
    schema.PREDICTIONS_FILE, schema.LEDGER_FILE,
)  # fmt: skip
PERIOD = 0.005
"""Seconds between two looks at whether a process has begun to train."""


@dataclass(frozen=True)
class Attempt:
    """One process: the step that it began after, whether it ended, and whether the ledger held."""

    begun: int
    ended: bool
    holds: bool


def main() -> None:
    chosen = _arguments()
    os.environ["OMP_NUM_THREADS"] = "1"
    multiprocessing.set_start_method("forkserver")
    multiprocessing.set_forkserver_preload(["dpsgd.python"])
    settings = CELL | dict(one.split("=", 1) for one in chosen.overrides)
    with tempfile.TemporaryDirectory() as temporary:
        whole, broken = Path(temporary, "whole"), Path(temporary, "broken")
        folder = _to_the_end(whole, settings)
        usual = float(_read(folder / schema.CELL_FILE)["seconds_training"])
        print(f"undisturbed: {usual:.1f} s of training")
        attempts = _killed(broken, settings, chosen.kills, chosen.seed, usual)
        again = _to_the_end(broken, settings)
        print("\n".join(_table(attempts)))
        differing = [
            name for name in COMPARED if file_hash(folder / name) != file_hash(again / name)
        ]
        differing += cell_differs(folder, again)
        held = verify(again).holds and all(one.holds for one in attempts)
    kills = sum(not one.ended for one in attempts)
    print(shlex.join(["python", "-m", "benchmarks.kill", *sys.argv[1:]]))
    print(f"{kills} kills; files that differ from the undisturbed run's: "
          f"{', '.join(differing) or 'none'}")  # fmt: skip
    print(f"the ledger held after every attempt and at the end: {held}")
    sys.exit(1 if differing or not held else 0)


def _killed(
    folder: Path, settings: dict[str, Any], kills: int, seed: int, usual: float
) -> list[Attempt]:
    """Kill ``kills`` attempts, each after a random part of what makes the run last for all."""
    chance, found = random.Random(seed), list[Attempt]()  # noqa: S311  (a moment, no secret)
    while len(found) < kills:
        process = _begin(folder, settings)
        _wait_until_it_trains(process, folder, len(found) + 1)
        time.sleep(chance.uniform(0, 2 * usual / kills))
        process.kill()
        process.join()
        if process.exitcode not in (0, -signal.SIGKILL):
            sys.exit(f"an attempt failed before it was killed: exit code {process.exitcode}")
        (run,) = _folders(folder)
        status = _read(run / schema.STATUS_FILE)
        ended = status["status"] == "FINISHED"
        held = verify(run, accountants=False).holds
        found.append(Attempt(int(status["begun"]), ended, held))
        if ended:
            break
    return found


def _wait_until_it_trains(process: BaseProcess, folder: Path, attempt: int) -> None:
    while process.is_alive():
        for run in _folders(folder):
            if _read(run / schema.STATUS_FILE).get("attempts") == attempt:
                return
        time.sleep(PERIOD)


def _to_the_end(folder: Path, settings: dict[str, Any]) -> Path:
    process = _begin(folder, settings)
    process.join()
    if process.exitcode:
        sys.exit(f"an attempt that nobody killed failed: exit code {process.exitcode}")
    (run,) = _folders(folder)
    return run


def _begin(folder: Path, settings: dict[str, Any]) -> BaseProcess:
    folder.mkdir(exist_ok=True)
    process = multiprocessing.Process(target=_train, args=(folder, settings))
    process.start()
    return process


def _train(folder: Path, settings: dict[str, Any]) -> None:
    from dpsgd import train  # noqa: PLC0415  (not in the parent, which trains nothing)

    os.chdir(folder)  # the same configuration in both folders
    train(settings)


def _folders(folder: Path) -> list[Path]:
    return [file.parent for file in (folder / "runs").glob(f"*/{schema.STATUS_FILE}")]


def _read(file: Path) -> dict[str, Any]:
    return read_json(file) or {}


def _table(attempts: list[Attempt]) -> list[str]:
    lines = ["attempt  begun after step  ended     ledger"]
    for number, one in enumerate(attempts, 1):
        how = "FINISHED" if one.ended else "killed"
        held = "holds" if one.holds else "DOES NOT HOLD"
        lines.append(f"{number:7}  {one.begun:16}  {how:8}  {held}")
    return lines


def file_hash(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def cell_differs(first: Path, second: Path) -> list[str]:
    """Return the keys of ``cell.json`` that differ, but for times."""
    one, other = (_read(folder / schema.CELL_FILE) for folder in (first, second))
    keys = [k for k in one if not k.startswith("seconds") and k != "finished_at"]
    return [f"{schema.CELL_FILE} {key}" for key in keys if one[key] != other.get(key)]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kill")
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("overrides", nargs="*", help="settings of the cell, as of dpsgd.run")
    return parser.parse_args()


if __name__ == "__main__":
    main()
