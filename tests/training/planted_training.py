"""Small draws, engines and trainers that the tests of training share."""

import dataclasses

import numpy as np
import torch
from torch import nn

from dpsgd.clipping.adaptive import Adaptive
from dpsgd.clipping.flat import Flat
from dpsgd.clipping.per_layer import PerLayer
from dpsgd.data.bundle import Split
from dpsgd.engine import clip_groups
from dpsgd.engine.gradients import Units
from dpsgd.engine.memory import rows_at_once
from dpsgd.experiment.parts import default_part
from dpsgd.randomness import Streams
from dpsgd.sampling.poisson import Poisson
from dpsgd.telemetry.oracle import Oracle
from dpsgd.training.loop import Trainer
from dpsgd.training.loss import cross_entropy
from dpsgd.training.micro import shares
from dpsgd.training.optim import SGD
from dpsgd.training.step import private_step

ENGINES = ("bookkeeping", "materialised")


def engine(name="bookkeeping", **changes):
    return dataclasses.replace(default_part("engine", name), **changes)


def rules(unit="record"):
    return {
        "flat": Flat("flat", unit, 0.5),
        "per_layer": PerLayer("per_layer", unit, 0.5, "uniform", None, "global", "layer"),
        "adaptive": Adaptive("adaptive", unit, norm=0.4, quantile=0.5, rate=0.2, count_noise=9.0),
    }


def net(dtype=torch.float64, dropout=0.0, device="cpu"):
    """A small model that the engines have seen synthetic rows of, as before any training."""
    torch.manual_seed(0)
    layers = (nn.Linear(5, 6), nn.Tanh(), nn.Dropout(dropout), nn.Linear(6, 3))
    model = nn.Sequential(*layers).to(device, dtype)
    inputs, targets = (values.to(device) for values in rows(4, dtype))
    whole = engine(micro_batch=None)
    rows_at_once(whole, model, cross_entropy, inputs, targets, clip_groups(model, "all"))
    return model


def rows(n, dtype=torch.float64):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(n, 5, generator=generator, dtype=dtype)
    return x, torch.randint(3, (n,), generator=generator)


def captured(chosen, model, groups, inputs, targets, unit, count, most):
    """Micro-batches of a draw; ``unit`` None: records are the units."""
    own = torch.arange(len(inputs)) if unit is None else unit
    for share in shares(own, len(inputs) if unit is None else count, most):
        units = None if unit is None else Units.of(share.unit, share.count, "average")
        x, y = inputs[share.rows], targets[share.rows]
        yield chosen.capture(model, cross_entropy, x, y, groups, units)


def step(
    chosen, rule, inputs, targets, unit=None, count=0, most=None, sigma=0.0, info=None, **options
):  # fmt: skip
    """One step of the small net over a draw that is split into micro-batches."""
    model = net(inputs.dtype, device=inputs.device)
    groups = clip_groups(model, rule.granularity)
    state = rule.bind(groups, sigma, 8.0)
    return private_step(
        captured(chosen, model, groups, inputs, targets, unit, count, most),
        rule, state, groups, info or {}, clipping=True, noise_multiplier=sigma, expected_units=8.0,
        generator=torch.Generator(inputs.device).manual_seed(2), **options,
    )  # fmt: skip


def split(n=120, users=None):
    x, y = rows(n, torch.float32)
    return Split("train", x, y, np.arange(1000, 1000 + n), {}, users)


def trainer(chosen, *, micro_batch=None, users=None, dropout=0.0, device="cpu", **changes):
    """A trainer over ``split()``: six steps of 30 expected records, or of 8 of 20 users."""
    model = net(torch.float32, dropout, device)
    rule = rules("record" if users is None else "user")["flat"]
    poisson = Poisson("poisson", None, "average")
    sampler = poisson.records(120, 30) if users is None else poisson.users(users, 20, 8)
    settings = {
        "model": model, "loss": cross_entropy, "engine": chosen, "rule": rule,
        "groups": clip_groups(model, "all"), "micro_batch": micro_batch, "sampler": sampler,
        "combine": None if users is None else "average", "info": {},
        "optim": SGD("sgd", 0.5, 0.1, 0.9, "by_norm"), "mechanism": "private",
        "noise_multiplier": 0.5, "steps": 6, "streams": Streams.from_seed(0, "planted"),
        "device": device, "stops_on_rows": True,
    }  # fmt: skip
    return Trainer(**(settings | changes))


def recorder(trained, membership=None, keys=(("all", "all"),)):
    """Raw telemetry, three steps a window, the bias at every second step."""
    n = trained.sampler.n_units
    everyone = np.ones((n, 1), dtype=bool)
    unit = "record" if trained.combine is None else "user"
    return Oracle("oracle", 3, 2, None, None).start(
        unit, trained.groups.names, keys, everyone if membership is None else membership
    )


def run(trained, of=None, record=None):
    """Train; return losses by step, the parameters and the recorder."""
    losses, record = [], record or recorder(trained)
    trained.run(of or split(), record, lambda number, loss, clipped: losses.append(loss))
    return losses, dict(trained.model.state_dict()), record
