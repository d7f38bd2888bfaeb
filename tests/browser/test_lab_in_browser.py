from __future__ import annotations

import json
from importlib import resources

import pytest
from planted_cells import sweep
from planted_details import gradients
from planted_pages import page_of, settled, usual_page

from analysis.page.lab import RULES, Cloud, Setting, clipped, noisy, readouts, synthetic
from analysis.page.numbers import column

SETTINGS = [
    Setting("flat", 1.0, 1.0, 2000, 256, 0.05, 4.0, 1),
    Setting("automatic", 0.1, 0.8, 500, 64, 0.005, 10.0, 2),
    Setting("normalise", 3.0, 4.0, 20_000, 4096, 0.3, 1.0, 3),
    Setting("psac", 0.03, 2.0, 100, 1024, 0.12, 2.0, 4),
    Setting("per_layer", 0.5, 8.0, 10_000, 512, 0.2, 0.5, 2**32 - 1),
]


@pytest.fixture(scope="module")
def usual(tmp_path_factory):
    return usual_page(tmp_path_factory.mktemp("lab"))


def _shown(page):
    found = page.eval_on_selector_all(
        "#readouts > div", "all => all.map((e) => [e.dataset.key, Number(e.dataset.value)])"
    )
    return dict(found)


def _certified(setting):
    file = resources.files("analysis.page").joinpath("assets", "lab_epsilon.json")
    table = json.loads(file.read_text(encoding="utf-8"))
    plane = table["epsilon"][table["sigmas"].index(setting.sigma)]
    return plane[table["batches"].index(setting.batch)][table["steps"].index(setting.steps)]


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.rule)
def test_readouts_are_those_of_python(page, setting):
    with settled(page):
        page.evaluate("(setting) => Atlas.lab.set(setting)", setting.__dict__)
    shown = _shown(page)
    assert shown.pop("certified") == _certified(setting)
    expected = readouts(setting, synthetic(setting))
    del expected["cosine"]  # in words, beside the bias
    assert shown == pytest.approx(expected, rel=1e-9)


def test_clouds_and_noise_are_those_of_python(page):
    assert page.evaluate("LabMath.RULES") == list(RULES)
    for setting in SETTINGS:
        found = page.evaluate(
            """(setting) => {
              const cloud = LabMath.synthetic(setting);
              return [cloud.points, LabMath.clipped(cloud, setting.rule, setting.clip_norm),
                      LabMath.noisy(setting, [1, 2], 5)];
            }""",
            setting.__dict__,
        )
        cloud = synthetic(setting)
        assert _flat(found[0]) == pytest.approx(_flat(cloud.points), rel=1e-9, abs=1e-12)
        after = clipped(cloud, setting.rule, setting.clip_norm)
        assert _flat(found[1]) == pytest.approx(_flat(after), rel=1e-9, abs=1e-12)
        assert found[2] == pytest.approx(noisy(setting, (1, 2), 5), rel=1e-9)


def _flat(points):
    return [number for point in points for number in point]


def test_sliders_change_dots_arrows_and_numbers(page):
    dots = page.evaluate("Atlas.views.cloud.view.data('after').map((d) => d.y)")
    before = _shown(page)
    page.focus("#lab-clip_norm")
    for _ in range(4):
        with settled(page):
            page.keyboard.press("ArrowLeft")
    assert page.evaluate("Atlas.views.cloud.view.data('after').map((d) => d.y)") != dots
    after = _shown(page)
    assert after["kept_rare"] < before["kept_rare"]
    assert after["noise_norm"] < before["noise_norm"]
    assert after["epsilon"] == before["epsilon"]
    assert page.get_attribute("#lab-clip_norm", "aria-valuetext") == "0.2"


def test_the_noise_is_drawn_again_and_the_rest_stays(page):
    before = page.evaluate("Atlas.views.update.view.data('arrows').map((d) => d.x2)")
    with settled(page):
        page.click("#lab-draw")
    after = page.evaluate("Atlas.views.update.view.data('arrows').map((d) => d.x2)")
    assert before[:2] == after[:2]
    assert before[2] != after[2]


def test_intuition_and_certificate_are_labelled(page):
    said = page.text_content("#readouts")
    assert "for intuition, no bound" in said
    assert "certified ε (PLD, δ = 1e-6, unit record" in said


def test_measured_gradients_are_clipped_by_their_whole_norm(page):
    with settled(page):
        page.select_option("#lab-source", "0")
    rows = gradients()
    rare = (rows["slice_rarity"] == "tail").tolist()
    order = sorted(range(len(rows)), key=lambda row: not rare[row])
    plane = rows[["projection_1", "projection_2"]].to_numpy()
    norms = column((rows["norm_before_1"] ** 2 + rows["norm_before_2"] ** 2) ** 0.5)
    cloud = Cloud(
        [(float(plane[i, 0]), float(plane[i, 1])) for i in order],
        [float(norms[i] or 0) for i in order],
        [rare[i] for i in order],
        [float(rows["weight"][i]) for i in order],
    )
    expected = readouts(SETTINGS[0], cloud)
    shown = _shown(page)
    assert shown["kept_rare"] == pytest.approx(expected["kept_rare"], rel=1e-9)
    assert shown["bias"] == pytest.approx(expected["bias"], rel=1e-9)
    said = page.text_content("#lab-note")
    assert "4 of the 40 points are rare; in every mean they count for 0.3 %" in said
    assert page.is_disabled("#lab-share")
    assert "Diagnostic, not private" in page.text_content("#lab-note")


def test_without_measured_gradients_there_is_no_such_choice(tmp_path, opened):
    page = opened(page_of(tmp_path, sweep(["flat"], [1.0], 1)))
    assert page.locator("#lab-source").count() == 0
