# pyright: reportGeneralTypeIssues=false, reportArgumentType=false
# pyright: reportAttributeAccessIssue=false
from __future__ import annotations

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from planted_cells import baseline, cell, set_value, write

from analysis.cells import read_cells
from analysis.conditions import conditions, named_cells
from analysis.rows import row_table
from analysis.settings import of_baselines
from analysis.table import aggregate


def _table(tmp_path, *cells):
    return read_cells(write(tmp_path, *cells)).table


def _cell(rule="flat", clip_norm=1.0, seed=0, **config):
    named = {f"config.{key.replace('__', '.')}": value for key, value in config.items()}
    more = "-".join(f"{seed}{key}{value}" for key, value in sorted(config.items()))
    return cell(rule, clip_norm, seed, more=f"{rule}{clip_norm}{seed}{more}", **named)


def _told(named):
    first = named.drop_duplicates("condition")
    return [{*h, *s} for h, s in zip(first["heading"], first["settings"], strict=True)]


def _settings(named, rule):
    return set(named.loc[named["rule"] == rule, "settings"])


def test_only_seeds_are_averaged_and_other_settings_are_named(tmp_path):
    cells = [
        _cell("per_layer", seed=seed, clip__thresholds=how)
        for seed in range(2)
        for how in ("uniform", "by_dimension")
    ]
    named = conditions(_table(tmp_path, *cells, _cell(seed=0), _cell(seed=1)))
    told = {("clip.thresholds=uniform",), ("clip.thresholds=by_dimension",)}
    assert _settings(named, "per_layer") == told
    assert _settings(named, "flat") == {()}
    assert named.groupby("condition")["run_key"].nunique().tolist() == [2, 2, 2]


def test_a_setting_is_told_of_every_row_and_not_only_where_titles_are_the_same(tmp_path):
    cells = [
        _cell("per_layer", 1.0, clip__thresholds="uniform"),
        _cell("per_layer", 2.0, clip__thresholds="by_dimension"),
        _cell("flat", 1.0, batch=64.0),
        _cell("flat", 2.0, batch=256.0),
    ]
    for content in cells[:2]:
        content["config.batch"] = 256.0
    told = _told(conditions(_table(tmp_path, *cells)))
    assert told == [
        {"batch=64"},
        {"batch=256"},
        {"batch=256", "clip.thresholds=uniform"},
        {"batch=256", "clip.thresholds=by_dimension"},
    ]


def test_two_settings_that_always_change_together_are_both_told(tmp_path):
    cells = [_cell(optim__lr=lr, optim__momentum=m) for lr, m in ((0.1, 0.0), (0.5, 0.9))]
    told = _told(conditions(_table(tmp_path, *cells)))
    assert told == [
        {"optim.lr=0.1", "optim.momentum=0"},
        {"optim.lr=0.5", "optim.momentum=0.9"},
    ]


def test_what_is_the_same_everywhere_is_not_told(tmp_path):
    cells = [_cell(c, norm, relation="add") for c in ("flat", "adaptive") for norm in (0.5, 1.0)]
    assert _told(conditions(_table(tmp_path, *cells))) == [set()] * 4


def test_a_setting_of_one_rule_is_no_difference_to_a_rule_without_it(tmp_path):
    cells = [_cell("per_layer", clip__thresholds="uniform", clip__norms=None), _cell("flat")]
    assert _told(conditions(_table(tmp_path, *cells))) == [set(), set()]


def test_a_null_is_told_where_the_rule_has_the_setting(tmp_path):
    noises = {0.5: None, 1.0: 10.0, 2.0: 20.0}
    cells = [_cell("adaptive", norm, clip__count_noise=n) for norm, n in noises.items()]
    named = conditions(_table(tmp_path, *cells, _cell("flat")))
    told = {(f"clip.count_noise={value}",) for value in ("null", 10, 20)}
    assert _settings(named, "adaptive") == told
    assert _settings(named, "flat") == {()}


def test_options_are_told_by_their_group_and_what_they_lack_is_no_difference(tmp_path):
    cells = [
        _cell(accountant__name="pld", accountant__grid=1e-4),
        _cell(accountant__name="rdp"),
    ]
    told = _told(conditions(_table(tmp_path, *cells)))
    assert told == [{"accountant=pld"}, {"accountant=rdp"}]


def test_the_thinned_class_cannot_matter_to_an_exponential_profile(tmp_path):
    cells = [
        _cell(data__class="8", data__profile="exponential"),
        _cell(data__class="8", data__profile="one_class"),
        _cell(data__class="5", data__profile="one_class"),
    ]
    told = _told(conditions(_table(tmp_path, *cells)))
    assert {"data.profile=exponential"} in told
    assert {"data.profile=one_class", "data.class=5"} in told


def test_cells_that_differ_even_where_it_cannot_matter_are_not_averaged(tmp_path):
    cells = [_cell(data__class=c, data__profile="exponential") for c in ("5", "8")]
    named = conditions(_table(tmp_path, *cells))
    assert named["condition"].nunique() == 2
    assert _told(named) == [{"data.class=5"}, {"data.class=8"}]


def test_a_seed_of_the_data_makes_another_condition(tmp_path):
    cells = [
        _cell(seed=seed, data__seed=data_seed) | {"data_seed": data_seed}
        for seed in (0, 1)
        for data_seed in (0, 1)
    ]
    named = conditions(_table(tmp_path, *cells))
    assert named.groupby("condition")["replicate"].agg(list).tolist() == [["0", "1"]] * 2
    assert _told(named) == [{"data.seed=0"}, {"data.seed=1"}]


def test_runs_of_one_seed_and_one_configuration_are_not_averaged_but_named(tmp_path):
    cells = [cell(more="first"), cell(more="other"), cell("adaptive")]
    named = conditions(_table(tmp_path, *cells))
    assert named["condition"].nunique() == 3
    runs = {f"run={content['run_key'][:8]}" for content in cells[:2]}
    assert {word for words in named["settings"] for word in words} == runs


def test_what_a_cell_states_besides_is_told_only_where_its_configuration_tells_nothing(tmp_path):
    same = [_cell(batch=b) | {"batch": b, "steps_planned": 10 * b} for b in (64, 256)]
    assert _told(conditions(_table(tmp_path / "a", *same))) == [{"batch=64"}, {"batch=256"}]
    cells = [cell(more=str(n), n_units=n) for n in (100, 200)]
    assert _told(conditions(_table(tmp_path / "b", *cells))) == [{"n_units=100"}, {"n_units=200"}]


def test_epsilon_is_told_where_the_titles_hide_that_it_differs(tmp_path):
    cells = [
        cell(mechanism="noise_only", more=str(e), epsilon_target=e, **{"config.epsilon": e})
        for e in (1.0, 8.0)
    ]
    assert _told(conditions(_table(tmp_path, *cells))) == [{"epsilon=1"}, {"epsilon=8"}]
    private = [
        cell(more=str(e), epsilon=e, epsilon_target=e, **{"config.epsilon": e}) for e in (1, 8)
    ]
    assert _told(conditions(_table(tmp_path / "b", *private))) == [set(), set()]


def test_what_all_baselines_have_of_their_own_is_told_once_for_all(tmp_path):
    own = baseline(**{"config.optim.lr": 0.1})
    table = _table(tmp_path, own, _cell(optim__lr=0.5), _cell("adaptive", optim__lr=0.5))
    assert _told(conditions(table)) == [set()] * 3
    assert of_baselines(named_cells(table)) == [("optim.lr=0.1", "optim.lr=0.5")]
    swept = _table(tmp_path, _cell(clip_norm=2.0, optim__lr=0.2))
    assert of_baselines(named_cells(swept)) == []
    assert {"optim.lr=0.1"} in _told(conditions(swept))


def test_families_agree_in_data_and_model_and_headings_say_all_that_is_shared(tmp_path):
    cells = [
        _cell(data__class="5", batch=64.0),
        _cell("adaptive", data__class="5", batch=64.0),
        _cell(data__class="8", batch=64.0),
        _cell(data__class="8", batch=256.0),
    ]
    named = conditions(_table(tmp_path, *cells))
    assert named["family"].tolist() == [0, 0, 1, 1]
    assert named["heading"].tolist() == [("data.class=5", "batch=64")] * 2 + [("data.class=8",)] * 2
    assert named["settings"].tolist() == [(), (), ("batch=64",), ("batch=256",)]


def test_a_setting_of_a_rule_stands_in_its_row_even_if_all_of_a_family_share_it(tmp_path):
    how = {"5": "uniform", "8": "by_dimension"}
    cells = [_cell("per_layer", data__class=c, clip__thresholds=t) for c, t in how.items()]
    named = conditions(_table(tmp_path, *cells))
    assert named["heading"].tolist() == [("data.class=5",), ("data.class=8",)]
    assert named["settings"].tolist() == [(f"clip.thresholds={t}",) for t in how.values()]


def test_values_stand_in_the_order_of_numbers(tmp_path):
    named = conditions(_table(tmp_path, *(_cell(batch=b) for b in (1000, 64, 256))))
    assert named["settings"].tolist() == [("batch=64",), ("batch=256",), ("batch=1000",)]


def test_the_table_of_rows_holds_every_setting_in_full(tmp_path):
    cells = [_cell(seed=s, data__class=c, batch=b) for s in (0, 1) for c, b in (("5", 1), ("8", 2))]
    rows = row_table(_table(tmp_path, *cells, baseline(**{"config.data.class": "8"})))
    assert rows["data.class"].tolist() == ["5", "8", "8"]
    assert rows["batch"].tolist() == ["1", "null", "2"]
    assert rows["seeds"].tolist() == [2, 1, 2]
    assert sorted(" ".join(rows["run_keys"]).split()) == sorted(
        content["run_key"] for content in [*cells, baseline()]
    )


CHOICES = {
    "config.data.class": ("5", "8"),
    "config.data.profile": ("one_class", "exponential"),
    "config.batch": (64.0, 256.0),
    "config.clip.thresholds": (None, "uniform", "by_dimension"),
    "config.telemetry.name": ("oracle", "off"),
    "config.seed": (0, 1, 2),
    "rule": ("flat", "per_layer"),
    "clip_norm": (0.5, 1.0),
}
PICKS = st.fixed_dictionaries({key: st.sampled_from(values) for key, values in CHOICES.items()})


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(PICKS, min_size=1, max_size=12, unique_by=lambda pick: tuple(pick.values())))
def test_a_condition_is_everything_but_the_seed_and_its_name_is_its_own(picks):
    runs = pd.DataFrame(picks).assign(
        run_key=[f"run{place}" for place in range(len(picks))],
        baseline_key=None, private=True, mechanism="private", epsilon=3.0, epsilon_target=3.0,
        seed=[pick["config.seed"] for pick in picks],
    )  # fmt: skip
    named = conditions(runs).merge(runs, on="run_key", suffixes=("", "_"))
    rest = [key for key in CHOICES if key != "config.seed"]
    for _, group in named.groupby("condition"):
        assert all(group[key].nunique(dropna=False) == 1 for key in rest)
        assert group["config.seed"].is_unique
    names = named.groupby("condition").first()[["rule", "clip_norm", "heading", "settings"]]
    assert not names.duplicated().any()


def test_an_average_never_mixes_data(tmp_path):
    cells = [_cell(seed=s, data__keep=k) for s in (0, 1) for k in (0.1, 0.5)]
    for content in cells:
        set_value(content, {"metric": "recall", "slice": "3"}, content["config.data.keep"], 50)
    found = aggregate(_table(tmp_path, *cells))
    rows = found[(found["metric"] == "recall") & (found["slice"] == "3")]
    assert set(rows["mean"]) == {0.1, 0.5}
    assert rows["sd"].max() == pytest.approx(0.0)
