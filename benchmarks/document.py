"""What a benchmark leaves on disk."""

from __future__ import annotations

import json
import platform
import shlex
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any


def write_document(out: Path, benchmark: str, content: Mapping[str, Any]) -> None:
    """Write ``content`` as JSON with the command, the date and the versions that it was measured
    with. ``benchmark`` is the name of its module.
    """
    document = {
        "command": shlex.join(["python", "-m", benchmark, *sys.argv[1:]]),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(), "torch": version("torch"), **content,
    }  # fmt: skip
    out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
