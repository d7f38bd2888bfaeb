"""Threads are divided among workers, and do not depend on how much is left to do."""

import pytest
import torch

from dpsgd.experiment.threads import threads_each, torch_threads
from hydra_plugins.clipping_atlas._launchers import threads_and_workers


@pytest.mark.parametrize(("alone", "workers", "each"), [(8, 2, 4), (8, 3, 2), (2, 4, 1), (1, 1, 1)])
def test_workers_share_the_threads_that_one_would_use(alone, workers, each):
    with torch_threads(alone):
        assert threads_each(workers) == each


def test_the_threads_of_before_are_back_after_the_block():
    before = torch.get_num_threads()
    with torch_threads(before + 1):
        assert torch.get_num_threads() == before + 1
    assert torch.get_num_threads() == before


def test_a_cell_computes_alike_however_few_are_left():
    with torch_threads(8):
        many = threads_and_workers({"n_jobs": 4}, 100)
        few = threads_and_workers({"n_jobs": 4}, 1)
    assert (many, few) == ((2, 4), (2, 1))


def test_a_cell_has_as_many_threads_as_it_asks_cores_for():
    assert threads_and_workers({"cpus_per_task": 3}, 9) == (3, None)
    assert threads_and_workers({"ray": {"remote": {"num_cpus": 2}}}, 9) == (2, None)
    assert threads_and_workers({"ray": {"remote": {"num_cpus": 0.5}}}, 9) == (1, None)
