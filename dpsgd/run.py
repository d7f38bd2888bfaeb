"""``python -m dpsgd.run``: train one cell, or many with ``-m``."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import hydra
from hydra.core.config_store import ConfigStore
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf

from dpsgd.errors import BusyError, ConfigError, PrivacyError, UnwritableError, folded
from dpsgd.experiment.options import config_folder
from dpsgd.messages import explain
from dpsgd.typed import as_hydra_reads

OURS = (ConfigError, PrivacyError, BusyError, UnwritableError)
"""Errors that are for people, who want their message alone."""


def main() -> None:
    """Run the command line; exit with 2 for settings that cannot be used, 1 for a failed run, 75
    for one that another process has.
    """
    # Hydra would print and hide the cause of its own errors; ours read better.
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")
    store = ConfigStore.instance()
    for file in sorted(config_folder("sweeps").glob("*.yaml")):
        store.store(group="sweep", name=file.stem, node=_sweep(file), package="_global_")
    entry = hydra.main(
        version_base="1.3", config_path=str(config_folder("conf")), config_name="config"
    )(job)
    try:
        sys.argv[1:] = as_hydra_reads(sys.argv[1:])
        if {"--help", "-h"} & set(sys.argv[1:]):
            _print_help(entry)
        else:
            entry()
    except OURS as error:
        _leave(_said(error), code_of(error))
    except HydraException as error:
        _leave(folded(explain(error)), 2)
    except BrokenPipeError:
        sys.exit(1)  # whoever read our output stopped reading
    except OSError as error:
        where = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        _leave(f"{where}. If that is in runs_dir, make room there or choose another folder", 2)
    except KeyboardInterrupt:
        _leave("interrupted: finished cells are kept; the same command trains the rest", 130)


def job(config: DictConfig) -> dict[str, Any] | None:
    """Run the cell of one resolved configuration: here, or as a job of a multirun in a child.

    Of a job, returns what became of it; it raises nothing, so that no launcher ends before the
    other cells have run.
    """
    hydra_config = HydraConfig.get()
    runs = Path(hydra_config.runtime.cwd, str(config.runs_dir))
    if hydra_config.mode == RunMode.RUN:
        _run_here(_plain(config), runs)
        return None
    from dpsgd.experiment.sweep.job import run_in_child  # noqa: PLC0415

    sweep = Path(hydra_config.runtime.cwd, hydra_config.sweep.dir)
    return run_in_child(_plain(config), runs, sweep, str(hydra_config.sweep.subdir))


def _run_here(config: dict[str, Any], runs: Path) -> None:
    # torch and what stands on it take seconds to import: not for --help or a misspelt key.
    from rich.console import Console  # noqa: PLC0415

    from dpsgd.experiment.cell import run_cell  # noqa: PLC0415
    from dpsgd.experiment.files import check_folder, leaving_nothing  # noqa: PLC0415
    from dpsgd.experiment.prepared import prepare  # noqa: PLC0415
    from dpsgd.experiment.report import print_outcome, progress_bar  # noqa: PLC0415
    from dpsgd.experiment.settings import read_cell  # noqa: PLC0415
    from dpsgd.experiment.threads import torch_threads  # noqa: PLC0415

    console = Console(highlight=False)
    try:
        check_folder(runs, "runs_dir")
        with leaving_nothing(runs):
            cell = read_cell(config)
            with torch_threads(cell.settings.threads), progress_bar(console) as progress:
                outcome = run_cell(prepare(cell), runs, progress)
    except OURS as error:
        _leave(_said(error), code_of(error))
    else:
        print_outcome(console, outcome)


def code_of(error: Exception) -> int:
    """Return the exit code for an error of ours."""
    if isinstance(error, BusyError):
        return 75  # EX_TEMPFAIL of sysexits.h: later is another matter
    return 1 if isinstance(error, UnwritableError) else 2


def _said(error: Exception) -> str:
    """Return what to say of an error: what befell a file or a process stays one line, for logs."""
    refused = isinstance(error, ConfigError | PrivacyError)
    return folded(str(error)) if refused else str(error)


def _print_help(entry: Callable[[], None]) -> None:
    """Print Hydra's help page with its long lists of options folded to 80 columns."""
    page = io.StringIO()
    with contextlib.redirect_stdout(page), contextlib.suppress(SystemExit):
        entry()
    for line in page.getvalue().splitlines():
        print(textwrap.fill(line, 80, subsequent_indent="    ") if len(line) > 80 else line)  # noqa: T201


def _plain(config: DictConfig) -> dict[str, Any]:
    plain = OmegaConf.to_container(config, resolve=True)
    return {str(key): value for key, value in dict(plain).items()}  # pyright: ignore[reportArgumentType, reportCallIssue]


def _sweep(file: Path) -> DictConfig:
    loaded = OmegaConf.load(file)
    if not isinstance(loaded, DictConfig):
        raise ConfigError("sweep", file.stem, "must be a mapping")
    return loaded


def _leave(message: str, code: int) -> NoReturn:
    print(message, file=sys.stderr)  # noqa: T201
    sys.exit(code)


if __name__ == "__main__":
    # The module that Hydra runs must be importable by name: classes of __main__ exist twice.
    from dpsgd.run import main as imported_main

    imported_main()
