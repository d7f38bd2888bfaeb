"""Versions of installed packages."""

from __future__ import annotations

import importlib.metadata
from functools import cache


@cache
def version_of(package: str) -> str:
    """Return the version of an installed package, as it was when this process first asked: what was
    imported counts. Raises PackageNotFoundError.
    """
    return importlib.metadata.version(package)
