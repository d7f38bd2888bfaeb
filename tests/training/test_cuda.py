"""On a GPU: the norms and weights of the CPU, in a step, in a run, and in one's own loop."""

import pytest
import torch
from planted_training import ENGINES, engine, net, recorder, rows, rules, run, split, step, trainer

from dpsgd import Budget, PrivateTraining, part, train

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
OWN = torch.tensor([0, 0, 0, 1, 1, 2, 4, 4, 4, 4, 5, 6])


@pytest.mark.parametrize("non_finite", ["stop", "drop"])
@pytest.mark.parametrize("rule", ["flat", "per_layer", "adaptive"])
@pytest.mark.parametrize("most", [None, 4])
@pytest.mark.parametrize("name", ENGINES)
def test_a_step_has_the_norms_and_weights_of_the_cpu(name, most, rule, non_finite):
    x, y = rows(12, torch.float32)
    if non_finite == "drop":
        x[5] = float("nan")
    options = {"most": most, "sigma": 1.0, "non_finite": non_finite, "raw": True}
    cpu, cuda = (
        step(engine(name), rules()[rule], x.to(device), y.to(device), **options)
        for device in ("cpu", "cuda")
    )
    assert cuda.norms.device.type == "cuda"
    assert cuda.dropped == cpu.dropped
    for key in ("norms", "weights"):
        assert torch.allclose(getattr(cuda, key).cpu(), getattr(cpu, key), rtol=1e-4, atol=1e-6)
    for name_ in cpu.mean:
        assert torch.allclose(cuda.mean[name_].cpu(), cpu.mean[name_], rtol=1e-4, atol=1e-6)
        assert torch.allclose(cuda.raw[name_].cpu(), cpu.raw[name_], rtol=1e-4, atol=1e-5)
        assert cuda.noise[name_].device.type == "cuda"


@pytest.mark.parametrize("users", [None, torch.arange(120) % 20])
def test_training_on_cuda_without_noise_ends_where_the_cpu_does(users):
    of = split(users=None if users is None else users.numpy())
    ends = [
        run(trainer(engine(), users=users, device=device, micro_batch=11, mechanism="clip_only"),
            of)[1]
        for device in ("cpu", "cuda")
    ]  # fmt: skip
    for name, value in ends[0].items():
        assert torch.allclose(ends[1][name].cpu(), value, rtol=1e-3, atol=1e-4)


def test_dropout_on_cuda_is_that_of_the_run():
    torch.cuda.manual_seed(0)
    before = torch.cuda.get_rng_state()
    one, two = (run(trainer(engine(), device="cuda", dropout=0.5))[1] for _ in range(2))
    assert torch.equal(torch.cuda.get_rng_state(), before)
    assert all(torch.allclose(one[name], two[name], rtol=1e-5) for name in one)


def test_telemetry_of_a_cuda_run_is_written():
    trained = trainer(engine(), device="cuda")
    _, _, record = run(trained, record=recorder(trained))
    assert {"units", "loss", "cosine"} <= {row["stat"] for row in record.rows}


@pytest.mark.parametrize("clip", ["flat", "adaptive_per_layer", "group_thresholds", "psac"])
@pytest.mark.parametrize("name", ENGINES)
def test_a_run_trains_on_cuda_and_opens_on_the_cpu(tmp_path, clip, name):
    finished = train({
        "debug": "fast", "tracker": "none", "telemetry.window": 2, "clip": clip, "engine": name,
        "device": "cuda", "runs_dir": str(tmp_path),
    })  # fmt: skip
    assert finished.cell["status"] == "FINISHED"
    assert "gpu" in finished.ledger["environment"]
    assert next(finished.model().parameters()).device.type == "cpu"


@pytest.mark.parametrize("non_finite", ["stop", "drop"])
def test_a_loop_of_ones_own_works_on_cuda(non_finite):
    x, y = rows(60, torch.float32)
    if non_finite == "drop":
        x[::6] = float("inf")
    x, y, model = x.cuda(), y.cuda(), net(torch.float32, device="cuda")
    private = PrivateTraining(
        model, part("clip/adaptive"), Budget(3.0, 1e-3, steps=4, batch=20), 60, device="cuda",
        engine=part("engine/bookkeeping", micro_batch=7, non_finite=non_finite),
    )  # fmt: skip
    for records in private:
        losses = private.step(x[records], y[records])
        assert losses.device.type == "cuda"
        assert all(bool(torch.isfinite(p.grad).all()) for p in model.parameters())
    assert (private.dropped > 0) == (non_finite == "drop")
