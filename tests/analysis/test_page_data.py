from __future__ import annotations

import json
import math
import re

import numpy as np
import pytest
from planted_cells import (
    LABELS,
    TAIL_LABEL,
    baseline,
    cell,
    planted_recall,
    set_value,
    sweep,
    write,
)
from scipy import stats

from analysis.cells import read_cells
from analysis.page.document import document, in_script
from analysis.page.numbers import column, rounded
from analysis.page.payload import payload

ODD = ["NA", "cat (small)", "$x$ and $5", "a/b", "猫和狗", "</script><b>", 'q"q', "a & b", ""]


def _page(tmp_path, *cells):
    return payload(read_cells(write(tmp_path, *cells)).table, None, [], [])


def _only(page):
    (family,) = page["families"]
    return family


def _row(family, **wanted):
    (place,) = [
        i
        for i, row in enumerate(family["conditions"])
        if all(row[key] == value for key, value in wanted.items())
    ]
    return place


def _number(family, block, name, row, slice_name):
    values = family["values"][block][name]
    slices = [entry["name"] for entry in family["slices"]]
    return (
        values[row * len(slices) + slices.index(slice_name)] if isinstance(values, list) else values
    )


def test_numbers_are_those_of_the_table_over_seeds(tmp_path):
    family = _only(_page(tmp_path, *sweep(["flat", "adaptive"], [0.5, 1.0], 3)))
    row = _row(family, rule="flat", c=0.5)
    planted = [planted_recall(TAIL_LABEL, "flat", 0.5, seed) for seed in range(3)]
    mean = np.mean(planted)
    reach = stats.t.ppf(0.975, 2) * np.std(planted, ddof=1) / math.sqrt(3)
    found = {
        name: _number(family, "test/recall", name, row, TAIL_LABEL)
        for name in ("mean", "low", "high", "from", "to", "seeds", "n")
    }
    assert found["mean"] == pytest.approx(mean, rel=1e-3)
    assert found["low"] == pytest.approx(mean - reach, rel=1e-3)
    assert found["high"] == pytest.approx(mean + reach, rel=1e-3)
    assert found["from"] == pytest.approx(mean - 0.05, rel=1e-3)
    assert found["to"] == pytest.approx(mean + 0.05, rel=1e-3)
    assert found["seeds"] == 3
    assert found["n"] == 90 + ord(TAIL_LABEL) % 20


def test_a_change_is_paired_with_the_baseline_whose_own_row_is_its_level(tmp_path):
    family = _only(_page(tmp_path, *sweep(["flat"], [1.0], 3)))
    flat, base = _row(family, rule="flat"), _row(family, part="baseline")
    lost = planted_recall(TAIL_LABEL, "flat", 1.0, 1) - planted_recall(TAIL_LABEL, "none", None, 1)
    level = planted_recall(TAIL_LABEL, "none", None, 1)
    assert _number(family, "test/recall_change", "mean", flat, TAIL_LABEL) == pytest.approx(
        lost, rel=1e-3
    )
    assert _number(family, "test/recall_change", "mean", base, TAIL_LABEL) == pytest.approx(
        level, rel=1e-3
    )


def test_one_seed_has_no_interval_over_seeds(tmp_path):
    family = _only(_page(tmp_path, cell("flat", 1.0, 0), baseline(0)))
    assert _number(family, "test/recall", "low", 0, TAIL_LABEL) is None
    assert _number(family, "test/recall", "from", 0, TAIL_LABEL) is not None


def test_no_value_is_null_and_never_zero(tmp_path):
    one, other = cell("flat", 1.0, 0), cell("flat", 1.0, 1)
    where = {"split": "test", "slice": TAIL_LABEL, "metric": "recall"}
    set_value(one, where, None, 0)
    set_value(other, where, None, 0)
    family = _only(_page(tmp_path, one, other))
    assert _number(family, "test/recall", "mean", 0, TAIL_LABEL) is None
    json.dumps(family, allow_nan=False)


def test_every_guarantee_has_accountant_delta_and_unit(tmp_path):
    cells = [cell("flat", 1.0, 0), cell("flat", 1.0, 0, mechanism="clip_only"), baseline(0)]
    said = {row["part"]: row["guarantee"] for row in _only(_page(tmp_path, *cells))["conditions"]}
    assert said["private"] == "ε = 3 (PLD, δ = 1e-4, unit record)"
    assert "not private (ε = ∞)" in said["diagnostic"]
    assert "not private (ε = ∞)" in said["baseline"]


def test_what_is_not_stated_is_named(tmp_path):
    bare = cell("flat", 1.0, 0, accountant=None, delta=None, unit=None, unit_name=None)
    (row,) = _only(_page(tmp_path, bare))["conditions"]
    assert row["guarantee"] == "ε = 3 (accountant not stated, δ not stated, unit not stated)"


def test_two_data_sets_are_two_families_the_larger_first(tmp_path):
    cells = [*sweep(["flat"], [0.5, 1.0], 2), cell("flat", 1.0, 0, data="digits", more="other")]
    page = _page(tmp_path, *cells)
    assert [family["data"] for family in page["families"]] == ["mnist_tail", "digits"]
    assert page["cells"] == sum(family["cells"] for family in page["families"])


def test_four_digits_and_no_more():
    values = column([0.123456, 12345.678, 1 / 3, 2.0, math.nan, math.inf, 1e-7, -0.0])
    assert values == [0.1235, 12350, 0.3333, 2, None, None, 1e-7, 0]
    digits = re.sub(r"e.*|[-.]", "", repr(rounded(0.00123456))).lstrip("0")
    assert len(digits) <= 4


def test_a_name_cannot_end_the_script_that_holds_it(tmp_path):
    places = [("all", "all"), *(("label", name) for name in ODD)]
    page = _page(tmp_path, cell(places=places), baseline(places=places))
    held = in_script(page)
    assert "<" not in held
    assert [s["name"] for s in json.loads(held)["families"][0]["slices"]] == ["all", *ODD]


def test_the_page_asks_for_nothing(tmp_path):
    text = document(_page(tmp_path, *sweep(["flat"], [1.0], 1)))
    own = re.sub(r"<script>.*?</script>", "", text, flags=re.DOTALL)
    assert not re.search(r"(src|href)=[\"'](?!#|data:)", own)
    assert "@import" not in own
    assert "url(" not in own
    assert text.count("<script") == text.count("</script") == 5


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [5, 1])
def test_500_cells_of_14_slices_stay_under_8_megabytes(tmp_path, seeds):
    places = [("all", "all"), ("rarity", "head"), ("rarity", "middle"), ("rarity", "tail")]
    places += [("label", name) for name in LABELS]
    norms = [round(0.01 * 1.2**step, 4) for step in range(500 // 4 // seeds)]
    rules = ["flat", "per_layer", "adaptive", "automatic"]
    cells = sweep(rules, norms, seeds, places=places)
    page = _page(tmp_path, *cells)
    assert len(cells) == 500 + seeds
    assert len(document(page).encode()) < 8e6
