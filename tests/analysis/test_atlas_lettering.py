from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis import lettering, style

WORDS = st.lists(st.sampled_from(["a", "mean", "over", "learning", "ε", "=", "3"]), min_size=1)
NO_FONT_HAS_IT = "\U000f0000"
ONLY_IN_ANOTHER_FONT = "\U0001d4d0"


@settings(max_examples=40, deadline=None)
@given(WORDS, st.floats(0.3, 3.0))
def test_wrapping_changes_blanks_only(words, inches):
    text = " ".join(words)
    assert lettering.wrap(text, inches, 7).split() == text.split()


def test_wrapped_lines_fit_and_keep_an_equation_together():
    text = "mean over three seeds at ε = 3 and δ = 1e-5 for the unit that is protected"
    lines = lettering.wrap(text, 1.2, 7).split("\n")
    assert len(lines) > 2
    assert all(lettering.width(line, 7) <= 1.2 for line in lines)
    assert any("ε = 3" in line for line in lines)
    assert any("δ = 1e-5" in line for line in lines)


def test_bold_and_larger_text_is_wider():
    assert lettering.width("tail", 7, "bold") > lettering.width("tail", 7)
    assert lettering.width("tail", 8) > lettering.width("tail", 7)


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("8", "8"),
        ("cat (small)", "cat\n(small)"),
        ("left/right", "left/\nright"),
        ("low_income", "low_\nincome"),
        ("unbreakably", None),
    ],
)
def test_a_name_is_broken_only_where_a_reader_expects_it(name, lines):
    assert lettering.break_name(name, 0.42, 7) == lines


def test_a_shortened_name_fits_and_keeps_both_ends():
    short = lettering.shorten("users who have written more than 900 messages", 1.1, 7)
    assert lettering.width(short, 7) <= 1.1
    assert short.startswith("users")
    assert short.endswith("messages")
    assert lettering.shorten("8", 1.1, 7) == "8"


def test_letters_come_from_another_installed_font_where_the_first_lacks_them():
    assert lettering.fonts_for("plain") == (lettering.BASE,)
    assert len(lettering.fonts_for(ONLY_IN_ANOTHER_FONT)) == 2
    assert lettering.without_font(ONLY_IN_ANOTHER_FONT) == ""


def test_letters_that_no_font_has_are_named_and_measured_all_the_same():
    with style.drawing():
        assert lettering.width(NO_FONT_HAS_IT, 7) > 0
    # A character for private use is not printable, so it is never drawn.
    assert lettering.one_line(NO_FONT_HAS_IT) == "(empty)"


@pytest.mark.parametrize(
    ("name", "drawn"),
    [("", "(empty)"), (" \n ", "(empty)"), ("two\nlines", "two lines"), ("a\tb", "a b")],
)
def test_a_name_is_drawn_on_one_line(name, drawn):
    assert lettering.one_line(name) == drawn
