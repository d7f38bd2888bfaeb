"""What a run was made with: machine, versions, and the state of the code."""

from __future__ import annotations

import hashlib
import importlib.metadata
import platform
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import nn

from dpsgd.as_imported import PACKAGE, check_files, check_modules
from dpsgd.experiment.installed import version_of
from dpsgd.experiment.ledger.kernels import kernels, processor

NOT_A_CHECKOUT = "not a checkout"
LIBRARIES = ("torch", "numpy", "dp-accounting", "hydra-core", "randomgen")
"""Those whose versions may change a result."""
_ROOT = Path(__file__).resolve().parents[3]
"""The folder that holds the package: of a checkout its top, of a wheel site-packages."""
_CODE = ("dpsgd", "analysis", "conf", "pyproject.toml")
"""Where a change that is not committed could change a result."""


def environment(device: str) -> dict[str, Any]:
    """Return what a bit-equal repetition on ``device`` needs to be the same. Raises PrivacyError if
    the package's files are not those that are in memory.
    """
    check_modules()
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "processor": processor(),
        "kernels": kernels(),
        "threads": torch.get_num_threads(),
        **_accelerator(device),
        **{name: version_of(name) for name in LIBRARIES},
        "sources": sources(),
    }


def beginning(device: str, model: nn.Module) -> dict[str, Any]:
    """Return the :func:`environment` with a hash of the weights that ``model``, which is not yet
    trained, begins with: a model of the user's own may read them from anywhere.
    """
    digest = hashlib.sha256()
    for name, value in model.state_dict().items():
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}\0".encode())
        digest.update(value.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    return {**environment(device), "initial_weights": digest.hexdigest()[:16]}


def repeats_bits(device: str) -> bool:
    """Whether steps on ``device`` can be repeated bit by bit: on an accelerator sums come in the
    order in which its threads happen to end.
    """
    return torch.device(device).type == "cpu"


@cache
def sources() -> str:
    """Return a hash of this package's source files, as they were when it was imported. Raises
    PrivacyError if they changed before this was first asked.
    """
    digest = hashlib.sha256()
    for file in sorted(file for file in PACKAGE.rglob("*.py") if file.is_file()):
        digest.update(file.relative_to(PACKAGE).as_posix().encode() + b"\0" + file.read_bytes())
    check_files()
    return digest.hexdigest()[:16]


@cache
def code_state() -> dict[str, Any]:
    """Return the package's version and its git commit, and whether files differ from that commit.

    ``commit`` is "not a checkout" for an installed wheel, and where git does not know the package.
    Asked once a process: what was imported is what counts.
    """
    try:
        version = version_of("clipping-atlas")
    except importlib.metadata.PackageNotFoundError:
        version = "not installed"
    return {"version": version, **_git(_ROOT)}


def _git(root: Path) -> dict[str, Any]:
    top = _said(root, "rev-parse", "--show-toplevel")
    known = _said(root, "ls-files", "--error-unmatch", "dpsgd/__init__.py")
    commit = _said(root, "rev-parse", "HEAD")
    changes = _said(root, "status", "--porcelain", "--", *_CODE)
    if top is None or Path(top).resolve() != root or not known or not commit or changes is None:
        return {"commit": NOT_A_CHECKOUT, "dirty": None}
    return {"commit": commit, "dirty": bool(changes)}


def _said(root: Path, *words: str) -> str | None:
    try:
        done = subprocess.run(  # noqa: S603  (fixed words)
            ["git", "-C", str(root), *words],  # noqa: S607
            capture_output=True, text=True, check=True, timeout=10,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _accelerator(device: str) -> dict[str, Any]:
    if torch.device(device).type != "cuda":
        return {}
    return {"gpu": torch.cuda.get_device_name(device), "cuda": torch.version.cuda}
