"""Kernels that add up in another order are another environment, whatever they are called."""

import json
import os
import subprocess
import sys

import pytest
import torch
from resuming import killed, run

from dpsgd.errors import PrivacyError
from dpsgd.experiment.ledger import environment as asked
from dpsgd.experiment.ledger.kernels import kernels
from dpsgd.experiment.verify import read_ledger

SEEN = """
import json, torch
from dpsgd.experiment.ledger.environment import environment
generator = torch.Generator().manual_seed(1)
left, right = (torch.randn(300, 300, generator=generator) for _ in "ab")
print(json.dumps([(left @ right).double().sum().item(), environment("cpu")]))
"""


def seen(**settings):
    arguments = [sys.executable, "-c", SEEN]
    done = subprocess.run(
        arguments, env=os.environ | settings, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def test_a_setting_that_changes_a_product_changes_the_environment():
    before, here = seen()
    after, there = seen(MKL_CBWR="COMPATIBLE")
    if before == after:
        pytest.skip("this machine's products do not depend on it")
    assert {name for name in here if here[name] != there[name]} == {"kernels"}


def test_the_same_kernels_say_the_same():
    assert kernels.__wrapped__() == kernels.__wrapped__() == kernels()


def test_a_run_does_not_begin_again_with_other_weights_by_the_same_streams(tmp_path):
    file = tmp_path / "weights.pt"
    torch.save(torch.zeros(10, 64), file)
    model = {"_target_": "resuming.Begun", "name": "begun", "file": str(file)}
    settings = {"model": model, "checkpoint": None}
    killed(tmp_path, settings)
    torch.save(torch.ones(10, 64), file)
    with pytest.raises(PrivacyError, match=r"another environment \(initial_weights\)"):
        run(tmp_path, settings)
    charged = read_ledger(run(tmp_path, settings | {"resume": "charge"}))
    assert [entry["draw_id"] for entry in charged["entries"]] == ["1-5", "1-5"]


@pytest.mark.parametrize("name", ["kernels", "processor"])
def test_a_run_does_not_go_on_where_its_sums_may_differ(tmp_path, monkeypatch, name):
    killed(tmp_path)
    monkeypatch.setattr(f"{asked.__name__}.{name}", lambda *_: "another")
    with pytest.raises(PrivacyError, match=name):
        run(tmp_path)
