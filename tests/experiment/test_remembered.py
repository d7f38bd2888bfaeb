"""Answers of accountants on disk: the same with and without, whatever happens to the files."""

from __future__ import annotations

import json
import math
import multiprocessing
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from dpsgd.accounting import PLD, RDP, poisson_gaussian, privacy_profile
from dpsgd.accounting.library import (
    ComposedDpEvent,
    GaussianDpEvent,
    MixtureOfGaussiansDpEvent,
)
from dpsgd.accounting.stored import _KINDS, event_from_json
from dpsgd.errors import ConfigError
from dpsgd.experiment import remembered
from dpsgd.experiment.own_code import targets_in
from dpsgd.experiment.remembered import Remembered, cache_of, described, remembered_profile

ADD_REMOVE = "add_or_remove_one"
EVENT = poisson_gaussian(0.1, 2.0, 10)
CALLS = []


@dataclass(frozen=True)
class Counted:
    """An accountant that notes that it was asked."""

    certifies: ClassVar[bool] = True
    name: str
    answer: float

    def epsilon(self, event, relation, delta):
        CALLS.append((event, relation, delta))
        return self.answer

    def calibrate(self, make_event, relation, epsilon, delta):
        CALLS.append((make_event(1.0), relation, epsilon, delta))
        return self.answer


@pytest.fixture(autouse=True)
def _no_calls():
    CALLS.clear()


def asked(folder, event=EVENT, relation=ADD_REMOVE, delta=1e-5, accountant=Counted("c", 1.5)):
    return Remembered(accountant, folder).epsilon(event, relation, delta)


def test_the_same_question_is_computed_once(tmp_path):
    assert asked(tmp_path) == asked(tmp_path) == 1.5
    assert len(CALLS) == 1


@pytest.mark.parametrize(
    "other",
    [
        {"event": poisson_gaussian(0.1, math.nextafter(2.0, 3.0), 10)},
        {"event": poisson_gaussian(0.1, 2.0, 11)},
        {"event": ComposedDpEvent([EVENT, EVENT])},
        {"relation": "replace_special"},
        {"delta": math.nextafter(1e-5, 1.0)},
        {"accountant": Counted("c", 1.25)},
        {"accountant": Counted("d", 1.5)},
    ],
    ids=["σ", "steps", "event", "relation", "delta", "settings", "name"],
)
def test_any_other_question_is_another(tmp_path, other):
    asked(tmp_path)
    asked(tmp_path, **other)
    assert len(CALLS) == 2


def test_long_lists_are_compared_to_their_last_element():
    def event(last):
        return MixtureOfGaussiansDpEvent(1.0, np.arange(5000.0), np.append(np.ones(4999), last))

    assert described(event(0.5)) == described(event(0.5)) != described(event(0.25))


def test_another_version_of_the_library_or_the_code_is_another_question(tmp_path, monkeypatch):
    asked(tmp_path)
    before = remembered.own_versions()
    assert {"dp-accounting", "prv-accountant", "dpsgd.accounting"} <= set(before)
    for name in before:
        monkeypatch.setattr(remembered, "own_versions", lambda n=name: {**before, n: "another"})
        asked(tmp_path)
    assert len(CALLS) == 1 + len(before)


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: text[: len(text) // 2],
        lambda text: "[1, 2]",
        lambda text: "\udcff",
        lambda text: text.replace((1.5).hex(), (0.5).hex()),
        lambda text: text.replace(ADD_REMOVE, "replace_one"),
    ],
    ids=["empty", "torn", "alien", "no text", "edited answer", "another question"],
)
def test_a_damaged_file_is_computed_and_written_anew(tmp_path, damage):
    asked(tmp_path)
    (file,) = tmp_path.iterdir()
    whole = file.read_text(encoding="utf-8")
    file.write_text(damage(whole), encoding="utf-8", errors="surrogateescape")
    assert asked(tmp_path) == 1.5
    assert len(CALLS) == 2
    assert file.read_text(encoding="utf-8") == whole


def test_the_folder_may_vanish_at_any_time(tmp_path):
    for _ in range(2):
        assert asked(tmp_path / "cache") == 1.5
        for file in (tmp_path / "cache").iterdir():
            file.unlink()
        (tmp_path / "cache").rmdir()
    assert len(CALLS) == 2


def test_a_folder_that_cannot_be_written_is_done_without(tmp_path):
    (tmp_path / "file").write_text("")
    assert asked(tmp_path / "file") == asked(tmp_path / "file") == 1.5


@pytest.mark.parametrize("answer", [math.inf, 0.0, 1 / 3, 5e-324])
def test_every_float_comes_back_as_it_was(tmp_path, answer):
    accountant = Counted("c", answer)
    assert [asked(tmp_path, accountant=accountant) for _ in range(2)] == [answer, answer]
    assert len(CALLS) == 1


def test_a_refusal_is_not_kept(tmp_path):
    for _ in range(2):
        with pytest.raises(ConfigError, match="replace_one"):
            Remembered(RDP("rdp", None), tmp_path).epsilon(EVENT, "replace_one", 1e-5)
    assert not list(tmp_path.iterdir())


def test_a_solved_noise_and_its_epsilon_are_found_again(tmp_path, monkeypatch):
    def solve():
        accountant = Remembered(PLD("pld", 1e-3), tmp_path)
        sigma = accountant.calibrate(lambda s: poisson_gaussian(0.1, s, 10), ADD_REMOVE, 2.0, 1e-5)
        return sigma, accountant.epsilon(poisson_gaussian(0.1, sigma, 10), ADD_REMOVE, 1e-5)

    sigma, epsilon = solve()
    assert 2.0 * (1 - 1e-3) <= epsilon <= 2.0
    assert epsilon == PLD("pld", 1e-3).epsilon(poisson_gaussian(0.1, sigma, 10), ADD_REMOVE, 1e-5)

    def never(*_):
        raise AssertionError

    monkeypatch.setattr(PLD, "epsilon", never)
    assert solve() == (sigma, epsilon)


def test_targets_and_makers_of_events_are_told_apart(tmp_path):
    accountant = Remembered(Counted("c", 1.5), tmp_path)

    def calibrate(epsilon, make):
        return accountant.calibrate(make, ADD_REMOVE, epsilon, 1e-5)

    def plain(sigma):
        return poisson_gaussian(0.1, sigma, 10)

    for epsilon, make in ((1.0, plain), (2.0, plain), (1.0, lambda s: plain(s * s))):
        calibrate(epsilon, make)
        calibrate(epsilon, make)
    assert len(CALLS) == 3


def _in_another_process(folder, sigma):
    return Remembered(RDP("rdp", None), folder).epsilon(
        poisson_gaussian(0.1, sigma, 10), ADD_REMOVE, 1e-5
    )


def test_processes_share_the_folder(tmp_path):
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        found = pool.starmap(_in_another_process, [(tmp_path, 2.0)] * 6)
    assert len(set(found)) == 1
    (file,) = tmp_path.iterdir()
    assert json.loads(file.read_text(encoding="utf-8"))["answer"] == found[0].hex()


STORED = [
    {"type": "Gaussian", "noise_multiplier": 1.0},
    {"type": "PoissonSampled", "sampling_probability": 0.1,
     "event": {"type": "Gaussian", "noise_multiplier": 1.0}},
    {"type": "TruncatedSubsampledGaussian", "dataset_size": 10, "sampling_probability": 0.1,
     "truncated_batch_size": 3, "noise_multiplier": 1.0},
    {"type": "MixtureOfGaussians", "standard_deviation": 1.0, "sensitivities": [0.0, 1.0],
     "sampling_probs": [0.5, 0.5]},
    {"type": "FixedBatches", "noise_multiplier": 1.0, "epochs": 3},
    {"type": "SelfComposed", "event": {"type": "Gaussian", "noise_multiplier": 1.0}, "count": 4},
    {"type": "Composed", "events": [{"type": "Gaussian", "noise_multiplier": 1.0}]},
    {"type": "RepeatAndSelect", "event": {"type": "Gaussian", "noise_multiplier": 1.0},
     "mean": 10.0, "shape": 1.0},
    {"type": "NoOp"}, {"type": "NonPrivate"},
]  # fmt: skip


def neighbours(value):
    """The same JSON with each number in it changed in turn."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from ({**value, key: other} for other in neighbours(inner))
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from ([*value[:place], o, *value[place + 1 :]] for o in neighbours(inner))
    elif isinstance(value, int | float):
        yield value + 1 if isinstance(value, int) else 0.997 * value + 0.0005


def test_every_kind_of_event_is_known_here():
    assert {stored["type"] for stored in STORED} == set(_KINDS)


@pytest.mark.parametrize("stored", STORED, ids=lambda stored: stored["type"])
def test_no_two_events_have_one_description(stored):
    known = [json.dumps(described(event_from_json(s))) for s in (stored, *neighbours(stored))]
    others = [json.dumps(described(event_from_json(s))) for s in STORED if s is not stored]
    assert len({*known, *others}) == len(known) + len(others)


class Hidden(GaussianDpEvent):
    """An event whose class does not say what else it holds."""

    def __init__(self, sigma, secret):
        super().__init__(sigma)
        object.__setattr__(self, "secret", secret)


def test_about_an_event_that_cannot_be_told_apart_nothing_is_kept(tmp_path):
    assert asked(tmp_path, Hidden(1.0, 2)) == asked(tmp_path, Hidden(1.0, 3)) == 1.5
    assert len(CALLS) == 2
    assert not list(tmp_path.iterdir())


def test_code_at_any_depth_of_an_accountant_is_part_of_the_question():
    node = {"_target_": "a.B", "parts": [{"_target_": "c.D", "inner": {"_target_": "e.F"}}]}
    assert targets_in(node) == ["a.B", "c.D", "e.F"]


def test_a_profile_is_computed_once_and_is_the_same_to_the_last_bit(tmp_path, monkeypatch):
    epsilons = np.linspace(0.0, 4.0, 7)
    profile = privacy_profile(EVENT, ADD_REMOVE, epsilons)
    assert np.array_equal(remembered_profile(tmp_path, EVENT, ADD_REMOVE, epsilons), profile)
    monkeypatch.setattr(remembered, "privacy_profile", lambda *question: np.zeros(7))
    assert np.array_equal(remembered_profile(tmp_path, EVENT, ADD_REMOVE, epsilons), profile)
    others = [
        (poisson_gaussian(0.1, 2.5, 10), ADD_REMOVE, epsilons),
        (EVENT, "replace_one", epsilons),
        (EVENT, ADD_REMOVE, epsilons + 1e-9),
    ]
    for other in others:
        assert not remembered_profile(tmp_path, *other).any()


def test_one_folder_serves_all_runs_folders_where_it_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("DPSGD_CACHE", str(tmp_path / "all"))
    assert cache_of(tmp_path / "runs") == tmp_path / "all"
    monkeypatch.setenv("DPSGD_CACHE", "")
    assert cache_of(tmp_path / "runs") == tmp_path / "runs" / ".cache"
