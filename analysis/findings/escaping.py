"""Text for Markdown, shown as it is, and for terminals: as little is escaped as can be."""

from __future__ import annotations

import re
from collections.abc import Iterator

from analysis.lettering import one_line

_BEFORE_MARK = re.compile(r"\\(?=[!-/:-@\[-`{-~]|$)")
_ENTITY = re.compile(r"&(?=#?\w+;)")
_TAG = re.compile(r"<(?=[A-Za-z/!?])")
_LAST = re.compile(r"(?:^|(?<=\s))#+$")
_RUN = re.compile(r"\*+|_+|~+|\$+")


def escaped(text: str, beside: str = "") -> str:
    """Return text in one line that Markdown shows as it is: no emphasis, formula, tag, link or
    code. Only what would be read otherwise is escaped: ``per_layer``, ``5 * 3`` and ``n<5`` stay.

    It may stand anywhere but at the start of a line, in a paragraph with ``beside``; in a table
    see ``in_cell``.
    """
    plain = one_line(text)
    marks = [found[0] for found in _open(f"{plain} {one_line(beside)}" if beside else plain)]
    paired = {mark for mark in "*_~$" if sum(run[0] == mark for run in marks) > 1}
    pieces: list[str] = []
    end = 0
    for run in _open(plain):
        if run[0][0] in paired:
            pieces += [_single(plain[end : run.start()]), "".join(f"\\{mark}" for mark in run[0])]
            end = run.end()
    last = _single(plain[end:])
    return "".join([*pieces, _LAST.sub(lambda found: f"\\{found[0]}", last)]).replace("](", "]\\(")


def in_cell(text: str) -> str:
    """Return text for a cell of a table."""
    return escaped(text).replace("|", "\\|")


def _open(text: str) -> Iterator[re.Match[str]]:
    """Yield the runs of marks that could begin or end something, if there is another one."""
    for run in _RUN.finditer(text):
        before, after = text[: run.start()][-1:] or " ", text[run.end() :][:1] or " "
        alone = before.isspace() and after.isspace()
        in_word = run[0][0] == "_" and before.isalnum() and after.isalnum()
        if not (alone or in_word):
            yield run


def _single(text: str) -> str:
    """Escape what is read by itself: a backslash before a mark, an entity, a tag, code, a link."""
    safe = _BEFORE_MARK.sub(r"\\\\", text)
    safe = _TAG.sub(r"\\<", _ENTITY.sub(r"\\&", safe))
    return safe.replace("`", "\\`").replace("][", "]\\[")
