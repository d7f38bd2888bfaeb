"""``python -m benchmarks.kill_sweep``: a small sweep, killed by SIGKILL at random moments.

The same sweep runs once undisturbed, and once in attempts. Each attempt is hit a random time after
it began: one of the cells that train, or the sweep with all its processes. Then it runs to its end,
and every cell is compared with the undisturbed sweep's.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis import schema
from benchmarks.kill import COMPARED, cell_differs, file_hash
from dpsgd.experiment.files import read_json
from dpsgd.experiment.verify import verify

SWEEP = ("sweep=smoke", "steps=400", "checkpoint=0.2", "tracker=none", "runs_dir=runs")
WHOLE = 0.5
"""How often the whole sweep is hit, and not one of its cells."""
PERIOD = 0.01
GONE = 60.0
"""Seconds that processes of a killed sweep may take to notice that it is gone."""


@dataclass(frozen=True)
class Hit:
    """What was killed, and how many cells were finished then."""

    what: str
    finished: int


def main() -> None:
    chosen = _arguments()
    command = [*SWEEP, f"hydra/launcher={chosen.launcher}", *chosen.overrides]
    with tempfile.TemporaryDirectory() as temporary:
        whole, broken = Path(temporary, "whole"), Path(temporary, "broken")
        began = time.monotonic()
        _to_the_end(whole, command)
        usual = time.monotonic() - began
        print(f"undisturbed: {len(_finished(whole))} cells in {usual:.0f} s", flush=True)
        hits, renewed = _hit(broken, command, chosen.kills, chosen.seed, usual)
        _to_the_end(broken, command)
        print("\n".join(_table(hits)))
        faults = renewed + _faults(whole, broken)
    print(shlex.join(["python", "-m", "benchmarks.kill_sweep", *sys.argv[1:]]))
    print(f"{len(hits)} kills; what went wrong: {'; '.join(faults) or 'nothing'}")
    sys.exit(1 if faults else 0)


def _hit(
    folder: Path, command: Sequence[str], kills: int, seed: int, usual: float
) -> tuple[list[Hit], list[str]]:
    """Hit the sweep ``kills`` times; return the hits, and finished cells that were run again."""
    chance = random.Random(seed)  # noqa: S311  (a moment, no secret)
    hits: list[Hit] = []
    seen: dict[str, str] = {}
    renewed: list[str] = []
    process = _begin(folder, command)
    while len(hits) < kills:
        _wait_for_work(process, folder)
        # Over all attempts about the time that an undisturbed sweep takes: it must not end before.
        time.sleep(chance.uniform(0, 1.5 * usual / kills))
        what = "sweep" if chance.random() < WHOLE or not _kill_one(folder, chance) else "cell"
        if what == "sweep" and process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            _wait_until_gone(folder)
        now = _finished(folder)
        renewed += [f"{key} was run twice" for key in seen if now.get(key) != seen[key]]
        seen = now
        if process.poll() == 0:
            break  # everything is finished
        hits.append(Hit(what, len(now)))
        if process.poll() is not None:  # killed, or over with a cell that was
            process = _begin(folder, command)
    process.wait()
    return hits, renewed


def _faults(whole: Path, broken: Path) -> list[str]:
    """Return how what the broken sweep left differs from what the whole one did."""
    one, other = _folders(whole), _folders(broken)
    found = [f"cells {sorted(set(one) ^ set(other))}"] if set(one) != set(other) else []
    for key in sorted(set(one) & set(other)):
        files = [f for f in COMPARED if file_hash(one[key] / f) != file_hash(other[key] / f)]
        found += [f"{key}: {name}" for name in [*files, *cell_differs(one[key], other[key])]]
        if not verify(other[key], accountants=False).holds:
            found.append(f"{key}: its ledger does not hold")
    rows = (broken / "runs" / schema.INDEX_FILE).read_text(encoding="utf-8").splitlines()
    ends = Counter(row["run_key"] for row in map(json.loads, rows) if row["status"] == "FINISHED")
    return found + [f"{key} finished {count} times" for key, count in ends.items() if count > 1]


def _begin(folder: Path, command: Sequence[str]) -> subprocess.Popen[bytes]:
    folder.mkdir(exist_ok=True)
    environment = os.environ | {
        "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).resolve().parents[1]),
    }  # fmt: skip
    with (folder / "log.txt").open("ab") as log:
        return subprocess.Popen(  # noqa: S603  (our own command)
            [sys.executable, "-m", "dpsgd.run", *command], cwd=folder, env=environment,
            stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip


def _to_the_end(folder: Path, command: Sequence[str]) -> None:
    code = _begin(folder, command).wait()
    if code:
        sys.exit(f"a sweep that nobody hit ended with exit code {code}: {folder / 'log.txt'}")


def _wait_for_work(process: subprocess.Popen[bytes], folder: Path) -> None:
    while process.poll() is None and not _training(folder):
        time.sleep(PERIOD)


def _kill_one(folder: Path, chance: random.Random) -> bool:
    """Kill one cell that trains; return whether there was one."""
    pids = _training(folder)
    if not pids:
        return False
    try:
        os.kill(chance.choice(pids), signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


def _wait_until_gone(folder: Path) -> None:
    deadline = time.monotonic() + GONE
    while _training(folder):
        if time.monotonic() > deadline:
            sys.exit("cells of a sweep that was killed train on")
        time.sleep(PERIOD)


def _training(folder: Path) -> list[int]:
    """Return the processes that train a cell below ``folder``."""
    states: list[Any] = [read_json(f / schema.STATUS_FILE) for f in _folders(folder).values()]
    running = [s["pid"] for s in states if isinstance(s, dict) and s.get("status") == "RUNNING"]
    return [pid for pid in running if _lives(pid)]


def _lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def _folders(folder: Path) -> dict[str, Path]:
    return {f.parent.name: f.parent for f in (folder / "runs").glob(f"*/{schema.STATUS_FILE}")}


def _finished(folder: Path) -> dict[str, str]:
    """Return when each finished cell ended, by run key."""
    found: dict[str, str] = {}
    for key, run in _folders(folder).items():
        status: Any = read_json(run / schema.STATUS_FILE)
        if isinstance(status, dict) and status.get("status") == "FINISHED":
            found[key] = str(status["heartbeat"])
    return found


def _table(hits: Sequence[Hit]) -> list[str]:
    lines = ["kill  of     cells finished"]
    return lines + [
        f"{number:4}  {hit.what:5}  {hit.finished:14}" for number, hit in enumerate(hits, 1)
    ]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kill_sweep")
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    parser.add_argument("--launcher", default="local")
    parser.add_argument("overrides", nargs="*", help="settings of the sweep, as of dpsgd.run")
    return parser.parse_args()


if __name__ == "__main__":
    main()
