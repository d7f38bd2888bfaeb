from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from dpsgd.auditing.exposure import exposures, extrapolated
from dpsgd.auditing.membership import auc, lira, logit_scores, true_positive_rate


def test_exposure_at_rank_one_two_and_last():
    references = np.arange(1.0, 1024.0)  # 1023, and the canary makes 1024
    assert exposures(np.array([0.0, 1.5, 2000.0]), references) == pytest.approx([10, 9, 0])


def test_a_tie_counts_against_the_canary():
    assert exposures(np.array([1.0]), np.array([1.0, 1.0, 1.0])) == pytest.approx([0])
    assert exposures(np.array([1.0]), np.array([1.0, 2.0, 3.0])) == pytest.approx([1])


def test_a_loss_that_is_not_a_number_has_no_exposure():
    assert np.isnan(exposures(np.array([np.nan]), np.array([1.0]))).all()
    for bad in (np.zeros(0), np.array([np.nan])):
        with pytest.raises(ValueError, match="reference"):
            exposures(np.array([1.0]), bad)


def test_extrapolation_agrees_with_ranks_where_both_can_say():
    generator = np.random.default_rng(0)
    references = generator.normal(3, 0.5, size=20_000)
    canaries = np.array([3.0, 2.5, 2.0])
    ranks, fitted = exposures(canaries, references), extrapolated(canaries, references)
    assert fitted == pytest.approx(ranks, abs=0.15)
    assert extrapolated(np.array([0.0]), references)[0] > np.log2(20_001)
    assert np.isnan(extrapolated(canaries, np.ones(50))).all()
    assert np.isnan(extrapolated(canaries, np.arange(5.0))).all()


def test_logit_scores_are_the_log_odds():
    p = np.array([0.1, 0.5, 0.999])
    assert logit_scores(-np.log(p)) == pytest.approx(np.log(p / (1 - p)))
    assert np.isfinite(logit_scores(np.array([0.0]))).all()


def test_auc_is_the_area_and_its_interval_holds_the_truth_nineteen_times_of_twenty():
    generator = np.random.default_rng(0)
    member = np.arange(300) < 120
    truth = 0.7602499  # Φ(1/√2): two normals one apart
    held = 0
    for _ in range(300):
        scores = generator.normal(size=300) + member
        found = auc(scores, member)
        assert found.value == pytest.approx(roc_auc_score(member, scores))
        held += found.lo <= truth <= found.hi
    assert 0.92 <= held / 300 <= 0.98


def test_auc_of_ties_is_a_half_and_of_one_kind_alone_unknown():
    assert auc(np.ones(10), np.arange(10) < 5).value == pytest.approx(0.5)
    assert np.isnan(auc(np.ones(10), np.ones(10, dtype=bool)).value)


def test_true_positive_rate_at_a_share_of_false_positives():
    outside, inside = np.arange(1000.0), np.array([500.0, 989.5, 995.0, 2000.0])
    scores = np.concatenate([outside, inside])
    member = np.arange(1004) >= 1000
    found = true_positive_rate(scores, member, 0.01)
    assert found.value == pytest.approx(3 / 4)
    assert found.lo < 0.75 < found.hi
    assert true_positive_rate(scores, member, 0.001).value == pytest.approx(1 / 4)


def test_a_share_smaller_than_one_example_is_unknown():
    scores, member = np.arange(100.0), np.arange(100) < 50
    assert np.isnan(true_positive_rate(scores, member, 0.001).value)


@pytest.mark.parametrize("online", [True, False])
def test_lira_finds_members_that_a_threshold_cannot(online):
    # Examples differ in how hard they are by far more than membership changes.
    generator = np.random.default_rng(0)
    models, examples = 16, 400
    hard = 5 * generator.normal(size=examples)
    member = generator.random((models, examples)) < 0.5
    scores = hard + member + 0.5 * generator.normal(size=(models, examples))
    found = lira(scores, member, online=online)
    plain = auc(scores.ravel(), member.ravel()).value
    assert plain < 0.6
    assert auc(found.ravel(), member.ravel()).value > 0.85


def test_lira_of_noise_finds_nobody_more_often_than_its_intervals_say():
    # Models that are each other's shadows share noise: an example is one cluster of scores.
    examples = np.tile(np.arange(200), 8)
    held, areas = 0, []
    for seed in range(100):
        generator = np.random.default_rng(seed)
        member = generator.random((8, 200)) < 0.5
        scores = generator.normal(size=(8, 200))
        found = auc(lira(scores, member, online=True).ravel(), member.ravel(), examples)
        held += found.lo <= 0.5 <= found.hi
        areas.append(found.value)
    assert np.mean(areas) == pytest.approx(0.5, abs=0.01)
    assert held / 100 >= 0.9


def test_a_model_is_not_its_own_shadow():
    generator = np.random.default_rng(2)
    member = generator.random((6, 50)) < 0.5
    scores = generator.normal(size=(6, 50))
    before = lira(scores, member, online=True)
    flipped = member.copy()
    flipped[0] = ~member[0]
    np.testing.assert_array_equal(before[0], lira(scores, flipped, online=True)[0])


def test_examples_without_shadows_have_no_score():
    member = np.ones((3, 4), dtype=bool)
    member[:, 0] = [True, False, False]
    scores = np.random.default_rng(3).normal(size=(3, 4))
    found = lira(scores, member, online=False)
    assert np.isnan(found[:, 1:]).all()
    assert np.isfinite(found[0, 0])
    with pytest.raises(ValueError, match="two models"):
        lira(scores[:1], member[:1], online=True)
