"""Coins of records bound the ε of records; of users who bring several they bound nothing."""

import pytest
import torch

from dpsgd import audit, part, train
from dpsgd.clipping.groups import Groups

TINY = {
    "data": "digits", "model": "logistic", "steps": 3, "tracker": "none", "audit": "membership",
    "noise_multiplier": 1.0, "epsilon": 60.0, "accountant": "rdp", "telemetry": "off",
    "users": "dirichlet", "users.count": 200, "delta": 1e-3, "slices": "label",
}  # fmt: skip
BOUNDS = ("audit_epsilon", "audit_epsilon_gaussian", "audit_refuted")


def test_one_record_more_moves_a_user_by_twice_the_threshold():
    rule, groups = part("clip/flat", norm=1.0), Groups(("all",), (("weight",),), (2,))
    state = rule.bind(groups, 1.0, 1.0)

    def sent(gradient):
        return gradient * rule.weights(gradient.norm().reshape(1, 1), state, {}).flatten()

    one, other = torch.tensor([10.0, 0.0]), torch.tensor([-20.0, 0.0])
    moved = (sent(one + other) - sent(one)).norm() / rule.scale(state)
    assert float(moved) == pytest.approx(2.0, rel=1e-3)


def test_of_users_with_several_records_nothing_is_bounded(tmp_path, capsys):
    run = train(TINY | {"runs_dir": str(tmp_path), "clip.unit": "user", "batch": 50})
    assert run.cell["audit_guesses"] > 0
    assert [run.cell[name] for name in BOUNDS] == [None] * 3
    with pytest.raises(SystemExit) as ended:
        audit.main([str(tmp_path)])
    assert ended.value.code == 0
    assert "no claim" in capsys.readouterr().out


def test_where_records_are_clipped_one_by_one_their_coins_bound_it(tmp_path):
    capped = {"sampling": "poisson_capped_users", "batch": 100, "accountant": "pld"}
    run = train(TINY | capped | {"runs_dir": str(tmp_path)})
    assert run.cell["unit"] == "user"
    assert run.cell["audit_refuted"] is False
