"""One job of a sweep, under any launcher: it runs its cell in a child, and never raises.

A launcher whose job raises or dies stops, or takes other jobs with it.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from dpsgd.errors import BusyError
from dpsgd.experiment.sweep.children import LOST, ChildResult, in_child
from dpsgd.experiment.sweep.ended import (
    ELSEWHERE,
    FAILED,
    FINISHED,
    KILLED,
    STOPPED,
    Ended,
    not_run,
    write_ended,
)
from dpsgd.experiment.sweep.halt import NO_MORE, NOW, Halt
from dpsgd.experiment.sweep.killed import mark_killed
from dpsgd.experiment.sweep.worker import follow_leader
from dpsgd.experiment.terminated import Terminated

KILLERS = ("KeyboardInterrupt", "SystemExit", Terminated.__name__)
OUT_OF_MEMORY = "SIGKILL: by hand, or out of memory"


def run_in_child(config: Mapping[str, Any], runs: Path, sweep: Path, job: str) -> dict[str, Any]:
    """Run the cell of a resolved configuration in a child, as job ``job`` of the sweep whose
    folder is ``sweep``; return what became of it (:class:`Ended` as plain data), and keep that
    there.
    """
    halt = Halt(sweep)
    if halt.asked():
        ended = not_run("the sweep was stopped before it began")
    else:
        ended = _run(config, runs, sweep, job)
        if not ended.finished and config.get("on_failure") == "stop":
            halt.ask(NO_MORE)
    with suppress(OSError):  # a disk that is full: the launcher still has what is returned
        write_ended(sweep, job, ended)
    return ended.plain()


def _run(config: Mapping[str, Any], runs: Path, sweep: Path, job: str) -> Ended:
    halt = Halt(sweep)
    follow_leader(sweep)
    release = bool(config.get("release"))
    log = sweep / job / ("log.private.txt" if release else "log.txt")
    try:
        result = in_child(
            _train, config, runs, log=log, private=release, end=lambda: halt.asked() == NOW
        )
        ended = _what_became(result, runs, log, release)
        if ended.error == Terminated.stopped_by and halt.asked() == NOW:
            return replace(ended, error=STOPPED)
        return ended
    except Exception as error:
        with suppress(OSError), log.open("a", encoding="utf-8") as opened:
            traceback.print_exc(file=opened)
        said = _in_one_line(type(error).__name__, error, log, release)
        return Ended(None, FAILED, said, "", str(log), False)


def _train(tell: Any, config: Mapping[str, Any], runs: Path) -> dict[str, Any]:
    # A job's own process trains nothing: torch is imported where the cell runs.
    from dpsgd.experiment.sweep.one import train_cell  # noqa: PLC0415

    return train_cell(tell, config, runs)


def _what_became(result: ChildResult, runs: Path, log: Path, release: bool) -> Ended:
    key = result.told.get("run_key")
    folder = None if key is None else runs / key
    if result.value is not None:
        kept = _keep_log(log, folder, only_if_said=True)
        return Ended(key, FINISHED, "", result.value["line"], kept, result.value["repeated"])
    if result.error is not None:
        name, line = result.error
        if name == BusyError.__name__:
            return Ended(key, ELSEWHERE, line, "", str(log), False)  # the folder is another's
        status = KILLED if name in KILLERS else FAILED
        kept = _keep_log(log, folder)
        asked = name == Terminated.__name__
        error = Terminated.stopped_by if asked else _in_one_line(name, line, kept, release)
        return Ended(key, status, error, "", kept, False)
    error = _sudden(result)
    if folder is not None:
        mark_killed(folder, result.pid, result.signal or error, release=release)
    return Ended(key, KILLED, error, "", _keep_log(log, folder), False)


def _sudden(result: ChildResult) -> str:
    if result.signal == "SIGKILL":
        return OUT_OF_MEMORY
    if result.exitcode == LOST:
        return "the process that started its children was killed"
    return result.signal or f"its process ended with exit code {result.exitcode}"


def _keep_log(log: Path, folder: Path | None, *, only_if_said: bool = False) -> str | None:
    """Move a job's output into its cell's folder, if there is one; return where it is."""
    if only_if_said and log.exists() and not log.stat().st_size:
        log.unlink()
    if not log.exists():
        return None
    if folder is None or not folder.is_dir():
        return str(log)
    kept = folder / log.name
    log.replace(kept)
    return str(kept)


def _in_one_line(name: str, error: object, log: Path | str | None, release: bool) -> str:
    """Return what was raised as a line of the sweep's table and records, which are no private
    files: of a released run without its message.
    """
    if release:
        return f"{name}: its message may quote the data, and so it is in {log} alone"
    lines = str(error).splitlines()
    return f"{name}: {lines[0]}" if lines and lines[0] else name
