"""Write ``docs/config``: every group and key, from the yaml files and the classes they name.

``python docs/build.py`` writes the pages; ``pages`` returns them without writing. Descriptions of
keys are the comments of the yaml, descriptions of parts the docstrings of the classes.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import yaml

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "config"
CONF, SWEEPS = ROOT / "conf", ROOT / "sweeps"
PRESETS = ("debug", "experiment", "sweep")
"""Groups that change other groups, and build no part of their own."""

_KEY = re.compile(r"^([\w.]+):(.*)$")
_TARGET = re.compile(r"_target_: ([\w.]+)")
_ROLE = re.compile(r":\w+:`~?([^`]+)`")
_MADE = "<!-- Written by docs/build.py from conf/ and the docstrings: change those. -->"


class Key(NamedTuple):
    """One line of a yaml: the key, its default as yaml text, and the comment beside it."""

    name: str
    default: str
    about: str


def main() -> None:
    """Write every page, and remove pages of groups that are gone."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    made = pages()
    for file in FOLDER.glob("*.md"):
        if file.name not in made:
            file.unlink()
    for name, text in made.items():
        (FOLDER / name).write_text(text, encoding="utf-8")


def pages() -> dict[str, str]:
    """Return the text of each page of ``docs/config`` by its file name."""
    found = groups()
    made = {f"{group}.md": _group(group, files) for group, files in found.items()}
    return {"index.md": _index(found), **made}


def groups() -> dict[str, list[Path]]:
    """Return the options of each group, sorted; Hydra's own groups are left out."""
    folders = [f for f in sorted(CONF.iterdir()) if f.is_dir() and f.name != "hydra"]
    found = {folder.name: sorted(folder.glob("*.yaml")) for folder in folders}
    found["sweep"] = sorted(SWEEPS.glob("*.yaml"))
    return {group: files for group, files in sorted(found.items()) if files}


def keys(text: str) -> list[Key]:
    """Return the keys at the top level of a yaml, with their comments."""
    values = yaml.safe_load(text) or {}
    found: list[Key] = []
    for line in text.splitlines():
        match = _KEY.match(line)
        if not match:
            continue
        default, _, about = match[2].partition("  # ")
        if not default.strip():
            default = yaml.safe_dump(
                values[match[1]], default_flow_style=True, sort_keys=False, width=10_000
            )
        found.append(Key(match[1], default.strip(), about.strip()))
    return found


def header(text: str) -> list[str]:
    """Return the comment at the head of a yaml, line by line, without its marks."""
    lines: list[str] = []
    for line in text.splitlines():
        if not line.startswith("#"):
            break
        if not line.startswith("# @package"):
            lines.append(line[1:].removeprefix(" "))
    return lines


def _index(found: dict[str, list[Path]]) -> str:
    text = (CONF / "config.yaml").read_text(encoding="utf-8")
    chosen = {
        group: option
        for entry in yaml.safe_load(text)["defaults"]
        if isinstance(entry, dict)
        for group, option in entry.items()
    }
    roots = [key for key in keys(text) if key.name not in ("defaults", "hydra")]
    rows = [
        f"| [{group}]({group}.md) | {_code(chosen.get(group))} | "
        f"{', '.join(f'[{file.stem}]({group}.md#{file.stem})' for file in files)} |"
        for group, files in found.items()
    ]
    return _page(
        "# Configuration",
        "Choose an option with `group=option`, change a key with `group.key=value`. "
        "`python -m dpsgd.run --cfg job` prints the whole configuration of a command without "
        "training. A `_target_` may name a dataclass of your own.",
        "## Root keys",
        _table(roots),
        "## Groups",
        "\n".join(["| group | default | options |", "|---|---|---|", *rows]),
    )


def _group(group: str, files: list[Path]) -> str:
    parts = [f"# `{group}`", "[All groups](index.md)"]
    told: set[str] = set()
    for file in files:
        text = file.read_text(encoding="utf-8")
        parts.append(f"## {file.stem}")
        if group in PRESETS:
            parts.append(f"```yaml\n{text.strip()}\n```")
        else:
            parts += _option(text, told)
    return _page(*parts)


def _option(text: str, told: set[str]) -> Iterator[str]:
    """Yield the description of an option; ``told`` are the classes that the page has described."""
    target = str(yaml.safe_load(text)["_target_"])
    yield _prose(header(text))
    yield f"`{target}`"
    yield _docstring(target) if target not in told else ""
    shown = [key for key in keys(text) if key.name not in ("_target_", "name")]
    yield _table(shown) if shown else ""
    told.add(target)
    for other in sorted(set(_TARGET.findall(text)) - told):
        yield f"**`{other}`**: {_docstring(other)}"
        told.add(other)


def _docstring(target: str) -> str:
    module, _, name = target.rpartition(".")
    text = inspect.getdoc(getattr(importlib.import_module(module), name)) or ""
    return _ROLE.sub(r"`\1`", text).replace("``", "`")


def _prose(lines: list[str]) -> str:
    """Return comment lines as Markdown; what is indented is code."""
    blocks: list[str] = []
    code: list[str] = []
    for line in [*lines, ""]:
        if line.startswith("  "):
            code.append(line[2:])
            continue
        if code:
            blocks += ["", "```sh", *code, "```"]
            code = []
        blocks.append(line)
    return "\n".join(blocks).strip()


def _table(found: list[Key]) -> str:
    rows = [f"| `{key.name}` | {_default(key.default)} | {_cell(key.about)} |" for key in found]
    return "\n".join(["| key | default | meaning |", "|---|---|---|", *rows])


def _default(value: str) -> str:
    return "required" if value == "???" else _code(value)


def _code(value: str | None) -> str:
    return "" if value is None else f"`{_cell(value)}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _page(*parts: str) -> str:
    return "\n\n".join([_MADE, *(part for part in parts if part)]) + "\n"


if __name__ == "__main__":
    # The folder of this file is on the path, its parent is not.
    sys.path.insert(0, str(ROOT))
    main()
