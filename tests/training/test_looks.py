"""Looks at the validation split: what one unit can move, what noise is on it, what follows."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from planted_training import engine, recorder, rows, run, split, trainer
from scipy import stats
from torch import nn

from dpsgd.data.bundle import IGNORED, Split
from dpsgd.errors import ConfigError
from dpsgd.randomness import Streams
from dpsgd.training.decide import Validation
from dpsgd.training.evaluate import correct
from dpsgd.training.looks import Looks, Watch, ending_of

TIMES = 4000


def decide(**changes):
    kept = {"every": 2, "patience": None, "min_gain": 0.0, "select": True, "noise": 4.0} | changes
    return Validation("validation", **kept)


def validation(n=40):
    x, y = rows(n, torch.float32)
    return Split("validation", x, y, np.arange(n), {})


def looks(owner=None, units=None, noise=0.0, of=None, **changes):
    own = of or validation()
    return Looks(decide(**changes), own, owner, "record" if owner is None else "user",
                 units or len(own), noise, "accounted" if noise else "public")  # fmt: skip


def moved(answers, owner, left_out, instead=None):
    """How far the sum of answers moves when one unit is left out, or answers otherwise."""
    answers = torch.tensor(answers, dtype=torch.float64)
    owner = np.arange(len(answers)) if owner is None else np.asarray(owner)
    units = int(owner.max()) + 1
    other = answers.clone()
    own = torch.from_numpy(owner == left_out)
    other[own] = float("nan") if instead is None else instead
    asked = looks(owner, units)
    return abs(float(asked.total(answers) - asked.total(other)))


@given(
    st.lists(st.tuples(st.floats(0, 1), st.integers(0, 3)), min_size=1, max_size=20),
    st.floats(0, 1),
)
def test_a_unit_moves_the_sum_by_a_half_at_most_and_by_one_when_replaced(pairs, instead):
    answers, owner = [a for a, _ in pairs], [u for _, u in pairs]
    assert moved(answers, owner, owner[0]) <= 0.5 + 1e-12
    assert moved(answers, owner, owner[0], instead) <= 1 + 1e-12
    assert moved(answers, None, 0) <= 0.5 + 1e-12
    assert moved(answers, None, 0, instead) <= 1 + 1e-12


def test_the_bound_is_met_however_many_records_a_user_has():
    assert moved([1.0] * 9 + [0.0], [0] * 9 + [1], 0) == 0.5
    assert moved([1.0] * 9 + [0.0], [0] * 9 + [1], 0, instead=0.0) == 1.0


@pytest.mark.parametrize("users", [False, True])
def test_the_noise_of_a_look_has_the_variance_that_the_ledger_states(users):
    sigma, model = 3.0, nn.Linear(5, 3)
    owner = np.arange(40) // 4 if users else None
    asked = looks(owner, 10 if users else 40, sigma)
    raw = looks(owner, asked.units).score(model, "cpu", torch.Generator())
    streams = Streams.from_seed(0, "looks")
    found = np.array(
        [asked.score(model, "cpu", streams.generator("look", step)) for step in range(TIMES)]
    )
    noise = (found - raw) * asked.units / (sigma * 0.5)
    low, high = stats.chi2.ppf([5e-7, 1 - 5e-7], TIMES)
    assert low <= np.square(noise).sum() <= high
    for wrong in (0.9, 1.1):
        assert not low <= np.square(noise * wrong).sum() <= high
    assert abs(noise.mean()) < 5 / TIMES**0.5


def test_a_raw_look_is_the_accuracy_by_unit():
    model, own = nn.Linear(5, 3), validation()
    right = (model(own.inputs).argmax(1) == own.labels).double()
    assert looks().score(model, "cpu", torch.Generator()) == pytest.approx(float(right.mean()))
    owner = np.array([0] * 30 + [1] * 10)
    of_users = looks(owner, 2).score(model, "cpu", torch.Generator())
    assert of_users == pytest.approx(float(right[:30].mean() + right[30:].mean()) / 2)


def test_a_row_that_is_not_finite_is_wrong_alone():
    model, own = nn.Linear(5, 3), validation()
    before = correct(model, own, "cpu")
    own.inputs[7] = float("inf")
    after = correct(model, own, "cpu")
    assert after[7] == 0
    assert np.array_equal(np.delete(after, 7), np.delete(before, 7))


def test_tokens_answer_by_their_share_and_a_record_without_one_says_nothing():
    logits = nn.functional.one_hot(torch.tensor([[0, 1, 2], [1, 1, 1], [0, 0, 0]]), 3).float()
    labels = torch.tensor([[0, 1, IGNORED], [2, 1, 0], [IGNORED] * 3])
    own = Split("validation", logits, labels, np.arange(3), {})
    found = correct(nn.Identity(), own, "cpu")
    assert found[:2].tolist() == [1.0, pytest.approx(1 / 3)]
    assert np.isnan(found[2])
    assert float(looks(of=own).total(torch.from_numpy(found))) == pytest.approx(0.5 - 1 / 6)


def test_patience_counts_looks_without_a_gain():
    impatient = decide(patience=2, min_gain=0.1)
    assert not impatient.decided([0.5, 0.55]).stop
    assert impatient.decided([0.5, 0.55, 0.58]).stop
    assert not impatient.decided([0.5, 0.55, 0.61]).stop
    assert impatient.decided([0.5, 0.55, 0.58]).best == 2
    assert decide().decided([0.3, 0.7, 0.7, 0.1]).best == 1


def test_the_last_step_is_looked_at_only_to_select():
    assert decide().looks(6) == (2, 4, 6)
    assert decide().looks(7) == (2, 4, 6, 7)
    assert decide(select=False, patience=1).looks(6) == (2, 4)


def test_an_ending_follows_from_the_scores_alone():
    both = decide(patience=1)
    scores = [0.2, 0.6, 0.5, 0.9]
    ending = ending_of(both, 8, scores)
    assert (ending.early, ending.taken, ending.released) == (True, 6, 4)
    assert ending.scores == (0.2, 0.6, 0.5)
    late = ending_of(both, 6, scores[:3])
    assert (late.early, late.taken, late.released) == (False, 6, 4)
    stopped = ending_of(decide(patience=1, select=False), 8, scores[:3])
    assert (stopped.early, stopped.taken, stopped.released) == (True, 6, 6)


@pytest.mark.parametrize("changes", [{"every": 0}, {"patience": 0}, {"min_gain": -0.1},
                                     {"noise": 0.0}, {"select": False}])  # fmt: skip
def test_settings_without_sense_are_refused(changes):
    with pytest.raises(ConfigError) as caught:
        decide(**changes)
    assert caught.value.key == next(iter(changes))


def watched(planned, steps=6):
    """Train the planted trainer under a watch; return ending, model, and parameters by step."""
    trained, at = trainer(engine(), steps=steps), {}
    watch = Watch(planned, trained.model, trained.streams, steps)

    def progress(step, loss, clipped):
        at[step] = {n: p.detach().clone() for n, p in trained.model.named_parameters()}

    trained.run(split(), recorder(trained), progress, watch.after)
    return watch.release(), trained.model, at


def same(model, parameters):
    return all(torch.equal(p, parameters[n]) for n, p in model.named_parameters())


@pytest.mark.parametrize("noise", [0.0, 4.0])
def test_what_is_released_are_the_parameters_of_the_best_look(noise):
    ending, model, at = watched(looks(noise=noise, every=1))
    assert ending.released == 1 + int(np.argmax(ending.scores))
    assert [same(model, kept) for step, kept in at.items()].index(True) == ending.released - 1


def test_a_stop_ends_training_and_changes_no_step_before_it():
    ending, model, at = watched(looks(every=2, patience=1, min_gain=1.0, select=False))
    assert (ending.early, ending.taken, list(at)) == (True, 4, [1, 2, 3, 4])
    assert same(model, at[4])
    _, whole, _ = run(trainer(engine(), steps=4))
    assert all(torch.equal(p, whole[n]) for n, p in model.named_parameters())


def test_looking_touches_nothing_of_training():
    _, model, at = watched(looks(noise=4.0, every=1))
    _, whole, _ = run(trainer(engine()))
    assert all(torch.equal(at[6][n], whole[n]) for n, _ in model.named_parameters())


def test_looks_have_streams_of_their_own():
    streams = Streams.from_seed(0, "looks")
    drawn = [
        torch.randn(1, generator=streams.generator(purpose, step)).item()
        for purpose in ("look", "noise", "evaluation") for step in (1, 2)
    ]  # fmt: skip
    assert len(set(drawn)) == len(drawn)


def test_the_noise_of_a_look_is_that_of_its_own_stream():
    planned, streams = looks(noise=4.0, every=1), trainer(engine()).streams
    ending, model, at = watched(planned)
    for step, score in enumerate(ending.scores, 1):
        model.load_state_dict(at[step])
        assert planned.score(model, "cpu", streams.generator("look", step)) == score
