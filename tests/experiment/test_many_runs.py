"""Many runs of one configuration: one example and threshold, chosen on half of them."""

import json

import numpy as np
import pytest
from audited_runs import planted, said

from analysis import schema
from dpsgd.auditing.trials import epsilon_of_trials, mu_of_trials
from dpsgd.experiment.many_runs import many_runs, trials_of


def split_of(wrong_out, wrong_in, of=1000):
    """Scores of one example over ``4·of`` runs, as often wrong in each half at threshold 0.5."""
    included = np.tile(np.repeat([False, True], of), 2)
    score = included.astype(float)
    for start in (0, 2 * of):
        score[start : start + wrong_out] = 1.0
        score[start + of : start + of + wrong_in] = 0.0
    return score[:, None], included[:, None]


def test_many_runs_give_the_published_values():
    example, trials = trials_of(*split_of(10, 700), 0.05)
    assert example == 0
    assert (trials.false_positives, trials.without) == (10, 1000)
    assert (trials.false_negatives, trials.with_) == (700, 1000)
    assert epsilon_of_trials(trials, 1e-5, 0.05) == pytest.approx(2.6971, abs=5e-5)
    assert mu_of_trials(trials, 0.05) == pytest.approx(1.4823, abs=5e-5)


def test_what_is_chosen_looks_at_the_first_half_alone():
    generator = np.random.default_rng(0)
    included = generator.random((80, 30)) < 0.5
    score = generator.normal(size=(80, 30))
    score[:, 7] += 4 * included[:, 7]
    example, before = trials_of(score, included, 0.05)
    assert example == 7
    other = score.copy()
    other[40:, 3] = 10.0 * included[40:, 3]  # it would be the best, seen with the second half
    assert trials_of(other, included, 0.05) == (7, before)


def test_scores_that_say_nothing_exceed_nothing_nineteen_times_of_twenty():
    exceeded = 0
    for seed in range(200):
        generator = np.random.default_rng(seed)
        included = generator.random((60, 20)) < 0.5
        found = trials_of(generator.normal(size=(60, 20)), included, 0.05)
        exceeded += found is not None and epsilon_of_trials(found[1], 1e-5, 0.05) > 0
    assert exceeded <= 10


def test_an_example_whose_coin_never_fell_to_one_side_has_no_trials():
    included = np.zeros((8, 1), dtype=bool)
    included[:2] = True
    assert trials_of(included.astype(float), included, 0.05) is None


def test_the_command_says_what_the_seeds_say_together(tmp_path, capsys):
    for seed in range(60):
        planted(tmp_path, seed, gain=25.0)
    code, text = said([tmp_path], capsys)
    text = " ".join(text.split())
    assert "30 runs 0 of" in text
    assert "chosen on the first half of the seeds" in text
    assert code == 0


def test_a_claim_below_what_many_runs_show_is_refuted(tmp_path, capsys):
    for seed in range(60):
        run = planted(tmp_path, seed, gain=25.0)
        cell = json.loads((run / schema.CELL_FILE).read_text())
        (run / schema.CELL_FILE).write_text(json.dumps(cell | {"epsilon": 0.5}))
    code, text = said([tmp_path], capsys)
    assert code == 1
    assert "REFUTED" in text


def test_seeds_of_another_setting_few_runs_and_coins_that_bound_nothing_are_left_out(tmp_path):
    def found(runs):
        cells = [json.loads((run / schema.CELL_FILE).read_text()) for run in runs]
        return list(many_runs(runs, cells))

    runs = [planted(tmp_path, seed, gain=25.0) for seed in range(8)]
    assert [one.label for one in found(runs)] == ["flat C=1 ε=3"]
    assert found(runs[:3]) == []
    others = [planted(tmp_path, seed, norm=2.0, gain=25.0) for seed in range(3)]
    assert len(found(runs + others)) == 1
    cells = [json.loads((run / schema.CELL_FILE).read_text()) for run in runs]
    assert list(many_runs(runs, [cell | {"audit_epsilon": None} for cell in cells])) == []
