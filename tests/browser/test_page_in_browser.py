from __future__ import annotations

import pytest
from planted_cells import BANDS, LABELS, baseline, cell, set_value, slices, sweep
from planted_pages import NORMS, RULES, clip_only, page_of, settled, usual_page

ROWS = len(RULES) * len(NORMS) + 1
CORNER = {"x": 4, "y": 4}  # beside the number of a tile
SLICES = 1 + len(BANDS) + len(LABELS)
HOSTILE = '<img src=x onerror="window.hit=1">'
ENDING = "</script><script>window.hit=1</script>"


@pytest.fixture(scope="module")
def usual(tmp_path_factory):
    return usual_page(tmp_path_factory.mktemp("usual"))


def _tiles(page):
    return page.eval_on_selector_all(
        "#map .layer_0_marks path", "paths => paths.map((path) => path.getAttribute('fill'))"
    )


def _press(page, text, group):
    with settled(page):
        page.locator("fieldset", has_text=group).get_by_role(
            "button", name=text, exact=True
        ).click()


def _pick(page, menu, value):
    with settled(page):
        page.select_option(f"#pick-{menu}", value)


def test_a_tile_for_every_row_and_slice(page):
    assert len(_tiles(page)) == ROWS * SLICES


def test_another_metric_recolours_the_map(page):
    before = _tiles(page)
    _pick(page, "map", "recall")
    after = _tiles(page)
    assert len(after) == len(before)
    assert after != before
    assert page.text_content("#map-title") == "Recall by rule and slice"


def test_slices_rules_c_and_guarantees_choose_the_marks(page):
    _press(page, "label 3 n 9", "Slices")
    assert len(_tiles(page)) == ROWS * (SLICES - 1)
    _press(page, "0.3", "C")
    rows = ROWS - len(RULES)
    assert len(_tiles(page)) == rows * (SLICES - 1)
    assert page.evaluate("Atlas.views.curves.view.data('curves').length") == rows - 1
    assert page.evaluate("Atlas.views.scatter.view.data('scatter').length") == rows
    _press(page, "flat", "Rule")
    assert page.evaluate("Atlas.views.curves.view.data('curves').length") == len(NORMS) - 1
    page.locator("fieldset", has_text="Guarantee").get_by_role("button").last.click()
    with settled(page):
        pass
    assert len(_tiles(page)) == (1 + 2 * (len(NORMS) - 1)) * (SLICES - 1)


def test_curves_follow_outcome_and_slice(page):
    before = page.evaluate("Atlas.views.curves.view.data('curves').map((d) => d.value)")
    _pick(page, "outcome", "kept")
    kept = page.evaluate("Atlas.views.curves.view.data('curves').map((d) => d.value)")
    _pick(page, "focus", "s0")
    everyone = page.evaluate("Atlas.views.curves.view.data('curves').map((d) => d.value)")
    assert len({tuple(before), tuple(kept), tuple(everyone)}) == 3
    assert page.text_content("#curves-title").startswith("Kept of all (n 1000)")


def test_hovering_says_n_interval_and_who_is_covered(page):
    page.locator("#map .layer_0_marks path").nth(SLICES + 1).hover(position=CORNER)
    said = page.text_content("#tip")
    for word in ("flat, C = 0.3", "95 % over 2 seeds", "n = ", "diagnostic, not private",
                 "ε = 3 (PLD, δ = 1e-4, unit record)"):  # fmt: skip
        assert word in said


def test_a_click_opens_the_cell(page):
    with settled(page):
        page.locator("#map .layer_0_marks path").nth(SLICES + 1).click(position=CORNER)
    assert page.text_content("#panel-title").startswith("flat, C = 0.3 · rarity head (n 9")
    ledger = page.text_content("#panel-ledger")
    for word in ("2.999 (PLD, δ = 0.0001, unit record)", "RDP 3.349",
                 "Not covered by ε (2)"):  # fmt: skip
        assert word in ledger
    assert "diagnostic, not private" in page.text_content("#norms-about")
    assert page.evaluate("Atlas.views.norms.view.data('norms').length") == 6
    assert page.text_content("#command").startswith("python -m dpsgd.run clip=flat")
    page.click("#copy")
    page.wait_for_function("document.getElementById('copied').textContent !== ''")
    assert page.evaluate("getSelection().toString()").startswith("python -m dpsgd.run")


def test_a_label_s_diagram_is_drawn(page):
    with settled(page):
        page.evaluate("Atlas.openPanel(1, Atlas.family().slices.findIndex((s) => s.name === '8'))")
    (point,) = page.evaluate("Atlas.views.reliability.view.data('reliability')")
    assert point["confidence"] == pytest.approx(0.8)
    assert point["low"] < point["accuracy"] < point["high"]


def test_the_keyboard_reaches_moves_opens_and_closes(page):
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "map":
            break
    assert page.evaluate("document.activeElement.id") == "map"
    assert page.evaluate("Atlas.views.map.view.data('cursor').length") == 1
    for key in ("ArrowDown", "ArrowRight", "ArrowRight"):
        page.keyboard.press(key)
    said = page.text_content("#map-live")
    assert said.startswith("flat, C = 0.3 · rarity tail")
    assert "n = " in said
    with settled(page):
        page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "panel"
    assert page.text_content("#panel-title").startswith("flat, C = 0.3 · rarity tail")
    page.keyboard.press("Escape")
    assert page.is_hidden("#panel")
    assert page.evaluate("document.activeElement.id") == "map"


def test_focus_is_visible(page):
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    style = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert style == "solid"


@pytest.mark.parametrize("width", [360, 390, 768])
def test_narrow_screens_do_not_scroll_sideways(usual, opened, width):
    page = opened(usual, width)
    with settled(page):
        page.evaluate("Atlas.openPanel(1, 2)")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    outside = page.eval_on_selector_all(
        "main select, main button, main input, main h2",
        "all => all.filter((e) => e.getBoundingClientRect().right > innerWidth).length",
    )
    assert outside == 0


@pytest.mark.parametrize("dark", [False, True])
def test_letters_stand_out_in_light_and_dark(usual, opened, dark):
    page = opened(usual, dark=dark)
    ratios = page.evaluate("""() => {
      const light = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16) / 255)
        .map((c) => c <= .04045 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4)
        .reduce((sum, c, i) => sum + c * [.2126, .7152, .0722][i], .05);
      const ratio = (a, b) => Math.max(light(a) / light(b), light(b) / light(a));
      return ['--ink', '--muted', '--accent'].flatMap((name) =>
        ['--page', '--card'].map((ground) => ratio(Atlas.css(name), Atlas.css(ground))));
    }""")
    assert min(ratios) >= 4.5


def test_the_theme_may_change_while_the_page_is_open(page):
    before = page.evaluate("Atlas.css('--page')")
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(f"Atlas.css('--page') !== '{before}'")
    with settled(page):
        page.wait_for_timeout(200)
    assert len(_tiles(page)) == ROWS * SLICES


def test_names_are_text_wherever_they_stand(tmp_path, opened):
    labels = [HOSTILE, ENDING, "$x$ <b>", "猫和狗", "a\"b'c", "NA", ""]
    places = slices(labels)
    cells = [
        cell("flat", 1.0, 0, places=places, data=HOSTILE, unit_name=HOSTILE),
        cell(ENDING, 1.0, 0, places=places, data=HOSTILE, unit_name=HOSTILE),
        baseline(0, places=places, data=HOSTILE),
    ]
    file = page_of(tmp_path, cells, HOSTILE, ENDING)
    page = opened(file)
    with settled(page):
        page.evaluate("Atlas.openPanel(1, 3)")
    page.locator("#map .layer_0_marks path").first.hover(position=CORNER)
    page.click("#map-table summary")
    assert page.evaluate("window.hit") is None
    assert page.locator("body img, body b:not(#tip b, .key b)").count() == 0
    assert page.text_content("#panel-title").endswith(f"label {HOSTILE} (n {90 + _sum(HOSTILE)})")
    assert HOSTILE in page.text_content("#findings-list")
    assert ENDING in page.text_content("#findings-list")
    shown = page.text_content("#map-table")
    assert all(f"label {name or '(empty)'}" in shown for name in labels)


def _sum(name):
    return sum(map(ord, name)) % 20


def test_the_first_findings_stand_open_and_the_rest_is_folded(opened, tmp_path):
    page = opened(page_of(tmp_path, [cell(), baseline()], *(f"Finding {i}." for i in range(7))))
    assert page.locator("#findings-list li").count() == 5
    assert not page.is_visible("#findings-more li")
    page.click("#findings-more summary")
    assert page.is_visible("#findings-more li >> nth=1")
    assert page.text_content("#findings-more summary") == "2 more"


def test_findings_stand_first(page):
    assert page.text_content("#findings li") == "Flat clipping keeps 45 % of the 8s’ gradient."
    top = page.evaluate(
        "['findings', 'map-card'].map((i) => Atlas.byId(i).getBoundingClientRect().top)"
    )
    assert top[0] < top[1]


def _rated(rate, *cells):
    return [content | {"config.optim.lr": rate} for content in cells]


@pytest.fixture(scope="module")
def rated(tmp_path_factory):
    norms = (1e-30, 0.1, 1.0, 5.0)
    private = _rated(0.5, *(cell("flat", norm, s) for norm in norms for s in (0, 1)))
    other = _rated(1e6, *clip_only(["flat"], [3.0], 1))
    for content in private[-2:]:
        set_value(content, {"metric": "kept", "slice": "3"}, 2.31, 90)
    cells = [*private, *other, *_rated(0.1, baseline(0), baseline(1))]
    return page_of(tmp_path_factory.mktemp("rated"), cells)


def test_what_all_rows_share_is_said_once_and_no_text_lies_over_another(rated, opened):
    page = opened(rated)
    said = page.text_content("#map-about")
    assert "Baseline: optim.lr=0.1. Every private row: optim.lr=0.5." in said
    drawn = "document.querySelectorAll('#map svg text:not([transform*=rotate])')"
    boxes = page.evaluate(f"""() => [...{drawn}].map((text) => {{
      const box = text.getBoundingClientRect();
      return [text.textContent, box.left, box.right, box.top, box.bottom];
    }})""")
    assert "not private" in [text for text, *_ in boxes]
    assert not any("optim.lr" in text for text, *_ in boxes)
    over = [(one[0], two[0]) for i, one in enumerate(boxes) for two in boxes[:i]
            if min(one[2], two[2]) - max(one[1], two[1]) > 1
            and min(one[4], two[4]) - max(one[3], two[3]) > 3]  # fmt: skip
    assert over == []
    tiles = page.evaluate("Atlas.views.map.view.data('tiles')")
    (above,) = [tile for tile in tiles if tile["above"]]
    assert above["text"] == "2.31"
    rest = next(tile for tile in tiles if tile["text"] == ".45")
    plain = "(tile) => Atlas.shade('survive', Atlas.valueOf('kept', tile.row, tile.slice).mean)"
    assert rest["fill"] == page.evaluate(plain, rest)
    assert "▲ above 1.00" in page.text_content("#map-scale")
    shown = page.text_content("#curves")
    assert all(tick in shown for tick in ("1e-30", "//", "0.1", "clipping threshold C"))
    at = page.evaluate("Atlas.views.curves.view.data('curves').map((d) => d.at)")
    assert at == pytest.approx([0, 0.7, 1.7, 2.4], abs=0.01)  # decades, but for the cut
    assert "fewer than 3: no band" in page.text_content("#curves-about")


def _without(metric):
    made = cell("flat", 1.0, 0)
    keep = [i for i, name in enumerate(made["metrics"]["metric"]) if name not in metric]
    made["metrics"] = {k: [v[i] for i in keep] for k, v in made["metrics"].items()}
    return made


ODD_TABLES = {
    "one cell": [cell("flat", 1.0, 0)],
    "baselines only": [baseline(0), baseline(1)],
    "no telemetry": [_without(("kept", "clip_fraction")), baseline(0)],
    "no evaluation": [_without(("recall", "accuracy", "nll", "brier", "ece", "ece_calibrated"))],
    "one slice": sweep(["flat"], [1.0], 1, places=[("all", "all")]),
    "not private": clip_only(["flat"], [1.0], 2),
    "rules without C": [cell("nsgd", None, s) for s in (0, 1)],
}


@pytest.mark.parametrize("name", ODD_TABLES)
def test_odd_tables_are_drawn_without_an_error(tmp_path, opened, name):
    page = opened(page_of(tmp_path, ODD_TABLES[name]))
    assert len(_tiles(page)) > 0
    with settled(page):
        page.evaluate("Atlas.openPanel(0, 0)")
    assert page.text_content("#panel-ledger") == "No ledger beside these runs."


def test_two_data_sets_have_a_menu_and_words_of_their_own(tmp_path, opened):
    cells = [*sweep(["flat"], [1.0], 1), *sweep(["per_layer"], [1.0], 1, data="digits", more="d")]
    page = opened(page_of(tmp_path, cells))
    other = page.evaluate("1 - Atlas.state.family")
    with settled(page):
        page.select_option("#pick-family", str(other))
    assert page.evaluate("Atlas.family().data") in page.text_content("#lede")


def test_a_failed_cell_is_named(tmp_path, opened):
    broken = cell("flat", 1.0, 0, status="FAILED", run_key="broken")
    page = opened(page_of(tmp_path, [cell("flat", 3.0, 0), broken]))
    assert "broken (status FAILED)" in page.text_content("#foot")
