from __future__ import annotations

import html
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from planted_findings import planted

from analysis.findings.escaping import escaped, in_cell
from analysis.findings.report import write_findings
from analysis.lettering import one_line

READER = MarkdownIt("commonmark").enable(["table", "strikethrough"])
MARKS = st.text(alphabet="ab 1_*~$`<>/!?#&;|()[]\\:.^-é", max_size=14)


def shown(rendered: str) -> str:
    """Return what a reader sees; raises for any tag but those of a paragraph."""
    found = re.fullmatch(r"<p>(.*)</p>\n", rendered, re.DOTALL)
    assert found is not None
    assert not re.search(r"<(?!br)", found[1])
    return html.unescape(found[1])


@given(MARKS)
@settings(max_examples=600, deadline=None)
def test_any_text_is_shown_as_it_is(text):
    assert shown(READER.render(f"Run {escaped(text)}")) == f"Run {one_line(text)}"


@given(MARKS)
@settings(max_examples=300, deadline=None)
def test_any_text_is_shown_as_it_is_in_a_cell_and_a_heading(text):
    rendered = READER.render(f"| x | {in_cell(text)} | y |\n|---|---|---|")
    cells = re.findall(r"<th>(.*?)</th>", rendered)
    assert [html.unescape(cell) for cell in cells] == ["x", one_line(text), "y"]
    (heading,) = re.findall(r"<h2>(.*)</h2>", READER.render(f"## of {escaped(text)}"))
    assert html.unescape(heading) == f"of {one_line(text)}"


@given(MARKS, MARKS)
@settings(max_examples=300, deadline=None)
def test_two_texts_of_one_paragraph_make_no_pair(one, two):
    said = f"Run {escaped(one, two)} `code` {escaped(two, one)}"
    rendered = READER.render(said).replace("<code>", "").replace("</code>", "")
    assert shown(rendered) == f"Run {one_line(one)} code {one_line(two)}"


@pytest.mark.parametrize(
    "text",
    ["data.profile=one_class", "per_layer, clip.quantile=0.5 at C = 1", "a_b_c", "5 * 3", "n<50",
     "n > 5", "C & A", "a#b", "~/runs", "$50", "wow!", r"C:\runs", "[−8, 42]", "age=30–40 | x"],
)  # fmt: skip
def test_what_is_not_misread_is_not_escaped(text):
    assert escaped(text) == text


@pytest.mark.parametrize("name", ["$x$", "a $x_1$ b", "$$y$$", "$5 and $6"])
def test_no_two_dollars_make_a_formula(name):
    assert "$" not in escaped(name).replace("\\$", "")


def test_findings_of_plain_names_have_no_backslash(tmp_path):
    write_findings(planted(np.random.default_rng(0), 3, lost=0.9)[0], None, tmp_path, [])
    text = (tmp_path / "findings.md").read_text(encoding="utf-8")
    assert "per_layer" in text
    assert "\\" not in text
