"""Several runs together: the laws of composition, and what is never added up."""

import json
import math
from pathlib import Path

import pytest
from ledgers import planted

from dpsgd import ConfigError
from dpsgd.accounting import PLD, joint_multiplier, poisson_gaussian
from dpsgd.accounting.library import ComposedDpEvent, SelfComposedDpEvent
from dpsgd.accounting.merging import composed
from dpsgd.data.notes import COMPUTED
from dpsgd.experiment.composition import total
from dpsgd.experiment.ledger.composed import composed_event
from dpsgd.experiment.ledger.entries import PURPOSES, Scope, entry
from dpsgd.experiment.ledger_view import total_lines
from dpsgd.experiment.verify import Findings, Verdict
from dpsgd.ledger import main

RELATION = "add_or_remove_one"


def runs(*ledgers):
    return [(Path(ledger["run_key"]), ledger) for ledger in ledgers]


def pld(event, delta=1e-3):
    return PLD("pld", 1e-4).epsilon(event, RELATION, delta)


@pytest.mark.parametrize("rule", ["clip/flat", "clip/adaptive"])
def test_the_entries_of_a_step_merge_into_one_release_of_the_solved_noise(rule):
    event = composed_event(planted(sigma=1.2, steps=20, rule=rule))
    assert isinstance(event, SelfComposedDpEvent)
    assert event.count == 20
    assert event.event.sampling_probability == 20 / 400
    assert event.event.event.noise_multiplier == pytest.approx(1.2, rel=1e-12)


def test_shares_divide_the_envelope_and_each_release_alone_is_quieter():
    entries = planted(rule="clip/adaptive")["entries"]
    assert [one["purpose"] for one in entries] == ["gradient", "clip query"]
    assert math.fsum(one["share"] for one in entries) == pytest.approx(1)
    assert all(one["noise_multiplier"] > 1.2 for one in entries)
    assert joint_multiplier(one["noise_multiplier"] for one in entries) == pytest.approx(1.2)


@pytest.mark.parametrize("purpose", PURPOSES)
def test_a_further_mechanism_is_one_more_entry(purpose):
    ledger = planted(steps=20)
    scope = Scope("record", RELATION, None, 1, "once at the end", "a")
    extra = poisson_gaussian(1.0, 5.0, 1)
    both = ledger | {"entries": [*ledger["entries"], entry(purpose, extra, 1.0, "≤ 1", scope)]}
    assert composed_event(both) == composed([composed_event(ledger), extra])


def test_steps_repeated_under_a_new_key_are_charged_again():
    ledger = planted(steps=20)
    again = [one | {"stream_id": "a, epoch 1"} for one in ledger["entries"]]
    twice = composed_event(ledger | {"entries": [*ledger["entries"], *again]})
    assert twice == poisson_gaussian(20 / 400, 1.2, 40)


def test_the_total_is_that_of_all_events_in_any_order_and_no_less_than_any():
    some = runs(planted("a"), planted("b"), planted("c", sigma=2.0), planted("d", steps=5))
    found = total(some)
    assert found.epsilon == total(some[::-1]).epsilon
    expected = ComposedDpEvent([composed_event(ledger) for _, ledger in some])
    assert found.epsilons["pld"] == pytest.approx(pld(expected), rel=1e-3)
    assert found.epsilon >= max(pld(composed_event(ledger)) for _, ledger in some)
    assert found.epsilon > total(some[:2]).epsilon > total(some[:1]).epsilon
    assert found.delta == 1e-3


def test_a_run_without_privacy_makes_it_infinite_and_is_named():
    bare = planted("bare", private=False, mechanism="neither", entries=[])
    found = total(runs(planted("a"), bare, planted("b")))
    assert found.epsilon == math.inf
    assert found.not_private == (Path("bare"),)
    assert found.epsilons == total(runs(planted("a"), planted("b"))).epsilons
    verdicts = [Verdict(f, ledger, "FINISHED", None, Findings())
                for f, ledger in runs(planted("a"), bare, planted("b"))]  # fmt: skip
    lines = "\n".join(total_lines(found, verdicts))
    assert "3 runs together: ε = ∞" in lines
    assert "bare: ε = ∞ (mechanism neither)" in lines
    assert "Papernot and Steinke" in lines


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"unit": "user"}, "units of privacy differ"),
        ({"unit_name": "person"}, "names of the unit differ"),
        ({"relation": "replace_one"}, "relations differ"),
        ({"data_fingerprint": "other"}, "data differ"),
        ({"stream_id": "a"}, "stream_id=a"),
        ({"common_noise": True}, "debug.common_noise=b"),
        ({"delta": 1e-4}, "delta=0.0001, 0.001: differ"),
    ],
)
def test_what_no_one_epsilon_covers_is_refused(other, message):
    with pytest.raises(ConfigError, match=message):
        total(runs(planted("a"), planted("b", **other)))


def test_one_stream_in_an_entry_is_enough_to_refuse():
    shares = planted("b", entries=planted("a")["entries"])
    with pytest.raises(ConfigError, match="can be subtracted"):
        total(runs(planted("a"), shares))


def test_data_that_nobody_knows_are_composed_with_nothing():
    loops = runs(*(planted(n, data_fingerprint="not known") for n in "ab"))
    assert total(loops[:1]).epsilon < math.inf
    with pytest.raises(ConfigError, match="different people's"):
        total(loops)


def test_a_stated_delta_is_that_of_the_total_and_stays_below_one_over_n():
    some = runs(planted("a"), planted("b", delta=1e-4))
    assert total(some, 1e-4).epsilon > total(some, 1e-3).epsilon
    with pytest.raises(ConfigError, match=r"delta=0\.01: must be below 1/400"):
        total(some, 0.01)


def test_statistics_that_no_epsilon_covers_are_said():
    note = f"mean and std of age {COMPUTED}"
    found = total(runs(planted("a", data_statistics=["pixels", note]), planted("b")))
    assert found.uncovered == (note,)


def test_a_copy_a_tampered_run_and_nothing_at_all_are_refused(tmp_path, capsys):
    for name in "ab":
        (tmp_path / name).mkdir()
        text = json.dumps(planted("a") | {"mechanism": "private"})
        (tmp_path / name / "ledger.json").write_text(text)
    for words in (["a"], ["a", "b"], ["c"]):
        with pytest.raises(SystemExit) as left:
            main(["compose", *words, f"runs_dir={tmp_path}"])
        assert left.value.code == 2
    assert "does not hold" in capsys.readouterr().err
    with pytest.raises(ConfigError, match="at least one run"):
        total([])


def test_a_total_below_what_one_run_states_is_refused(tmp_path):
    louder = [(tmp_path / name, planted(name, sigma=30.0, epsilon=3.0)) for name in "ab"]
    with pytest.raises(ConfigError, match="its entries were changed"):
        total(louder)
