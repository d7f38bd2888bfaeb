"""``atlas.html``: the page with its data, charts, styles and scripts in one file."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import pandas as pd
import vl_convert

from analysis.page.charts import charts
from analysis.page.payload import payload

PAGE_FILE = "atlas.html"
_SCRIPTS = ("core", "controls", "map", "curves", "panel", "lab_math", "lab", "main")
_UNSAFE = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def write_page(
    table: pd.DataFrame,
    out: Path,
    *,
    runs: Path | None,
    findings: Sequence[str],
    left_out: Sequence[tuple[str, str]],
) -> Path:
    """Write ``atlas.html`` to the folder ``out`` and return it.

    ``table`` is ``read_cells(...).table``; ``runs`` the folder with the runs' other files, None
    where there is none. ``findings`` are sentences for the top, in their order; ``left_out`` pairs
    of folder and reason.
    """
    file = out / PAGE_FILE
    file.write_text(document(payload(table, runs, findings, left_out)), encoding="utf-8")
    return file


def document(content: dict[str, Any]) -> str:
    """Return the page as HTML. It asks for nothing but itself."""
    names = dict.fromkeys(family["data"] for family in content["families"])
    parts = {
        "title": html.escape(f"Clipping atlas: {', '.join(names)}"),
        "style": _asset("page.css"),
        "data": in_script(content),
        "charts": in_script(charts()),
        "lab_epsilon": in_script(json.loads(_asset("lab_epsilon.json"))),
        "bundle": _bundle(),
        "script": "\n".join(_asset(f"{name}.js") for name in _SCRIPTS),
    }
    # In one pass: what is put in is not looked at again.
    return re.sub(r"\{\{(\w+)\}\}", lambda at: parts[at[1]], _asset("page.html"))


def in_script(content: Any) -> str:
    """Return JSON that may stand in a script element: no letter of it can end that element."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return re.sub("[<>&\u2028\u2029]", lambda at: _UNSAFE[at[0]], text)


def _asset(name: str) -> str:
    return resources.files("analysis.page").joinpath("assets", name).read_text(encoding="utf-8")


@cache
def _bundle() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script, about 0.9 MB."""
    script = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return re.sub(r"</(?=script)|<!--", lambda at: at[0].replace("<", "\\x3c"), script, flags=re.I)
