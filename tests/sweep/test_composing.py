"""Jobs composed from copies are what Hydra composes."""

import copy
import functools
import random

import pytest
from composed import SWEEPS, by_hydra, composer, jobs_of
from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

CHOICES = [
    ["clip=flat"], ["clip=per_layer"], ["clip=adaptive", "model=cnn"], ["data=digits"],
    ["users=dirichlet", "slices=users"], ["debug=fast"], ["telemetry=accounted"], [],
]  # fmt: skip
VALUES = [
    "seed=3", "epsilon=0.5", "epsilon=null", "epsilon=inf", "steps=7", "clip.norm=0.25",
    "data.keep=0.5", "optim={lr: 0.25}", "optim.momentum=0", "runs_dir='a b=c'", "unit_name=née",
    "model={widths: [3, 4]}", "data.class='5'", "decide=validation", "batch=1e2",
]  # fmt: skip
UNUSUAL = [
    "+slices.kinds.mine={_target_: dpsgd.slices.label.Label}", "~debug.common_noise", "++seed=4",
    "seed=${batch}", "unit_name=${clip.name}", "hydra.job.name=x", "tracker@tracker=none",
    "+decide.extra=1",
]  # fmt: skip


def same(compose, overrides):
    expected = answer(functools.partial(by_hydra, ()), overrides)
    assert answer(compose, overrides) == expected
    assert answer(compose, overrides) == expected  # and again, of what is kept


def answer(compose, overrides):
    try:
        return compose(overrides)
    except (HydraException, OmegaConfBaseException) as error:
        return type(error), str(error)


@pytest.mark.parametrize("name", SWEEPS)
def test_named_sweeps_compose_as_by_hydra(name):
    words = (f"sweep={name}",)
    compose, jobs = composer(*words), jobs_of(*words)
    for overrides in random.Random(name).sample(jobs, 2):  # noqa: S311
        assert compose(overrides) == by_hydra(words, overrides)


def test_any_overrides_compose_as_by_hydra():
    compose, chance = composer(), random.Random(0)  # noqa: S311
    for _ in range(12):
        overrides = [*chance.choice(CHOICES), *chance.sample(VALUES, chance.randint(0, 4))]
        chance.shuffle(overrides)
        same(compose, overrides)


@pytest.mark.parametrize("unusual", UNUSUAL)
def test_what_is_unusual_is_left_to_hydra(unusual):
    same(composer(), ["clip=flat", unusual, "seed=5"])


@pytest.mark.parametrize("wrong", ["seeed=1", "clip.nrm=1", "clip=nope", "clip.norm.x=1"])
def test_a_job_that_cannot_be_composed_fails_in_hydras_words(wrong):
    same(composer(), ["clip=flat", wrong])


def test_who_changes_a_configuration_changes_no_other():
    compose = composer()
    first = compose(["clip=flat", "clip.norm=2"])
    before = copy.deepcopy(first)
    first["clip"]["norm"] = first["data"]["keep"] = 9
    assert compose(["clip=flat", "clip.norm=2"]) == before


def test_files_are_read_once_for_each_choice(monkeypatch):
    compose = composer()
    loader, calls = compose._loader, []
    whole = type(loader).load_sweep_config
    monkeypatch.setattr(type(loader), "load_sweep_config", lambda *a: calls.append(a) or whole(*a))
    for clip in ("flat", "per_layer"):
        for seed in range(5):
            compose([f"clip={clip}", f"seed={seed}", "clip.norm=1"])
    assert len(calls) == 2
