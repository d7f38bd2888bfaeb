"""Cells from Python, user-level cells, every rule in a real run, and the folder opened again."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from dpsgd import ConfigError, load, part, train
from dpsgd.data.bundle import Bundle, Split
from dpsgd.runs import main

CONF = Path(__file__).resolve().parents[2] / "conf"
TINY = {"debug": "fast", "tracker": "none", "telemetry.window": 2}
USERS = {"users": "dirichlet", "users.count": 60, "users.alpha": 0.5, "batch": 20}


def tiny(folder, **settings):
    return train(TINY | {"runs_dir": str(folder)} | settings)


@pytest.fixture(scope="module")
def one(tmp_path_factory):
    folder = tmp_path_factory.mktemp("one")
    return tiny(folder, **{"clip": "per_layer", "clip.norm": 0.5, "seed": 3})


def test_settings_are_those_of_the_command_line(one):
    assert one.config["clip"]["norm"] == 0.5
    assert one.config["seed"] == 3
    assert one.cell["rule"] == "per_layer"
    assert one.cell["label"] == "per_layer C=0.5 ε=3 s3"


def test_a_run_opens_with_model_tables_and_ledger(one):
    again = load(one.folder.name[:6], one.folder.parent)
    assert again.ledger["run_key"] == one.folder.name
    test = again.predictions[again.predictions["split"] == "test"]
    bundle = part("data/digits").load(one.folder.parent)
    with torch.no_grad():
        found = torch.softmax(again.model()(bundle.test.inputs), 1).numpy()
    shown = test.filter(like="probability_").to_numpy()
    assert np.allclose(found, shown, atol=1e-5)
    assert set(again.telemetry["release"]) == {"private"}
    assert len(again.evaluation)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"clip": "per_lyer"}, "clip=per_lyer: no such option.*per_layer"),
        ({"clip.nrm": 1}, "clip.nrm=1: no such key.*norm"),
        ({"epsilon": -1}, "epsilon=-1"),
        ({"clip": {"norm": 0}}, "clip.norm=0"),
        ({"clip.unit": "user"}, "clip.unit=user: data=digits knows of no users"),
        ({"sampling.max_records_per_user": 3}, "sampling.max_records_per_user=3"),
        ({"clip": "adaptive", "clip.count_noise": 1e-3}, "clip.count_noise"),
        ({"clip": "group_thresholds", "clip.slices": "nowhere"}, "nowhere"),
    ],
)
def test_settings_without_sense_are_named(tmp_path, settings, message):
    with pytest.raises(ConfigError, match=message):
        tiny(tmp_path, **settings)
    assert not list(tmp_path.glob("*/cell.json"))


@pytest.mark.parametrize("file", sorted(CONF.glob("clip/*.yaml")), ids=lambda f: f.stem)
def test_every_rule_trains_at_one_epsilon(tmp_path, file):
    rule = file.stem
    mechanism = {"mechanism": "neither"} if rule == "none" else {}
    users = USERS if rule == "user_level" else {}
    run = tiny(tmp_path, clip=rule, **mechanism, **users)
    assert run.cell["rule"] == rule
    assert run.cell["unit"] == ("user" if users else "record")
    if not mechanism:
        assert 2.99 <= run.cell["epsilon"] <= 3.0
        purposes = [entry["purpose"] for entry in run.ledger["entries"]]
        asks = bool(run.ledger["query_scale"])
        assert purposes == (["gradient", "clip query"] if asks else ["gradient"])


@pytest.mark.parametrize(
    "file", sorted(CONF.glob("*/*.yaml")), ids=lambda f: f"{f.parent.name}/{f.stem}"
)
def test_every_option_of_every_group_is_composed_and_built(file):
    if file.parent.name in ("hydra", "debug"):
        return
    needed = {"path": "there.csv", "label": "y", "text": "words", "user": None}
    built = part(f"{file.parent.name}/{file.stem}", **_missing(file, needed))
    assert built.name == file.stem


def _missing(file, values):
    text = file.read_text()
    return {key: value for key, value in values.items() if f"\n{key}: ???" in text}


def test_user_level_counts_users_and_says_so(tmp_path):
    cap = {"clip": "flat", "clip.unit": "user", "sampling.max_records_per_user": 4}
    run = tiny(tmp_path, **cap, **USERS)
    assert run.ledger["unit"] == "user"
    assert run.ledger["n_units"] == 60
    assert run.ledger["sampler"]["sampling_probability"] == 20 / 60
    assert run.cell["delta"] == 1e-2
    page = (run.folder / "ledger.md").read_text()
    assert "unit: user, relation" in page
    assert "unit: record" not in page
    assert set(run.telemetry["unit"]) == {"user"}


def test_a_record_is_never_printed_as_a_person(tmp_path):
    run = tiny(tmp_path, unit_name="patient")
    assert "unit: record (patient)" in (run.folder / "ledger.md").read_text()


def test_users_of_one_record_train_as_records_do(tmp_path):
    base = {"data": {"_target_": f"{__name__}.Owned"}, "model": "logistic", "steps": 4, "batch": 40,
            "mechanism": "clip_only", "tracker": "none", "runs_dir": str(tmp_path),
            "slices": "label", "sampling.combine": "sum"}  # fmt: skip
    # A batch of everyone: different run keys cannot mean different draws.
    users, records = train(base | {"clip.unit": "user"}), train(base)
    assert users.ledger["n_units"] == records.ledger["n_units"] == 40
    assert users.cell["unit"] == "user"
    for a, b in zip(users.model().parameters(), records.model().parameters(), strict=True):
        assert torch.allclose(a, b, atol=1e-6)


@dataclass(frozen=True)
class Owned:
    """Forty records of a source of one's own, each with an owner."""

    name: str = "owned"
    seed: int = 0
    shift: float = 0.0
    stated: str = "x" * 64
    owners: int = 40
    test_owned: bool = False

    def load(self, cache):
        del cache
        splits = []
        for name, n in (("train", 40), ("validation", 10), ("test", 10)):
            generator = torch.Generator().manual_seed(len(name))
            labels = torch.arange(n) % 2
            inputs = torch.randn(n, 3, generator=generator) + labels[:, None] + self.shift
            owner = np.arange(n) if name == "train" or self.test_owned else None
            splits.append(Split(name, inputs, labels, np.arange(n), {}, owner))
        return Bundle(
            name="owned", train=splits[0], validation=splits[1], test=splits[2],
            classes=("a", "b"), keep=(1.0, 1.0), holdout="public", notes=(),
            fingerprint=self.stated, users=tuple(map(str, range(self.owners))),
        )  # fmt: skip


def test_other_data_are_another_run_whatever_the_source_says_of_itself(tmp_path):
    base = {"model": "logistic", "steps": 2, "batch": 16, "tracker": "none", "slices": "label",
            "runs_dir": str(tmp_path)}  # fmt: skip
    target = {"_target_": f"{__name__}.Owned", "name": "owned", "seed": 0, "stated": "x"}
    keys = [train(base | {"data": target | {"shift": s}}).cell["run_key"] for s in (0.0, 0.5)]
    assert keys[0] != keys[1]


MODEL = """
from dataclasses import dataclass
from torch import nn

@dataclass(frozen=True)
class Mine:
    name: str

    def build(self, shape):
        layers = [nn.Flatten(), nn.Linear(64, 8), {layer}, nn.Linear(8, shape.classes)]
        return nn.Sequential(*layers)
"""


def own_model(folder, monkeypatch, layer, name="own_model"):
    (folder / f"{name}.py").write_text(MODEL.replace("{layer}", layer))
    monkeypatch.syspath_prepend(str(folder))
    sys.modules.pop(name, None)
    return {"model": {"_target_": f"{name}.Mine", "name": "mine"}}


def test_an_edited_model_is_another_run(tmp_path, monkeypatch):
    first = tiny(tmp_path / "a", **own_model(tmp_path, monkeypatch, "nn.Tanh()"))
    second = tiny(tmp_path / "a", **own_model(tmp_path, monkeypatch, "nn.ReLU()"))
    assert first.ledger["stream_id"] != second.ledger["stream_id"]


HELPED = """
from dataclasses import dataclass
from helped_layers import layer
from torch import nn

@dataclass(frozen=True)
class Mine:
    name: str

    def build(self, shape):
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 8), layer(), nn.Linear(8, shape.classes))
"""


def test_an_edited_helper_of_a_model_is_another_run(tmp_path, monkeypatch):
    (tmp_path / "helped_model.py").write_text(HELPED)
    monkeypatch.syspath_prepend(str(tmp_path))
    streams = []
    for layer in ("Tanh", "Sigmoid"):
        (tmp_path / "helped_layers.py").write_text(f"from torch.nn import {layer} as layer\n")
        for name in ("helped_model", "helped_layers"):
            sys.modules.pop(name, None)
        model = {"model": {"_target_": "helped_model.Mine", "name": "mine"}}
        streams.append(tiny(tmp_path / "runs", **model).ledger["stream_id"])
    assert streams[0] != streams[1]


def test_a_file_edited_after_its_import_is_refused(tmp_path, monkeypatch):
    settings = own_model(tmp_path, monkeypatch, "nn.Tanh()", name="edited_model")
    tiny(tmp_path / "runs", **settings)
    file = tmp_path / "edited_model.py"
    file.write_text(file.read_text() + "\n# another line\n")
    with pytest.raises(ConfigError, match="changed after it was imported"):
        tiny(tmp_path / "runs", **settings | {"seed": 1})


RULE = """
from dataclasses import dataclass
from dpsgd.clipping.flat import Flat

@dataclass(frozen=True)
class Mine(Flat):
    def weights(self, norms, state, info):
        return {weights}
"""


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ("(self.norm / norms.max().clamp_min(1e-9)).expand_as(norms)", "depends on the other"),
        ("norms * 0 + 1", "leaves the envelope"),
    ],
)
def test_a_rule_that_breaks_its_contract_is_refused_before_training(
    tmp_path, monkeypatch, weights, message
):
    (tmp_path / "own_rule.py").write_text(RULE.replace("{weights}", weights))
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("own_rule", None)
    rule = {"_target_": "own_rule.Mine", "name": "mine", "unit": "record", "norm": 1.0}
    with pytest.raises(ConfigError, match=rf"clip=mine: .*{message}"):
        tiny(tmp_path / "runs", clip=rule)


def test_slices_made_from_training_records_are_private(tmp_path):
    base = {"model": "logistic", "steps": 2, "batch": 16, "tracker": "none", "slices": "user_size",
            "data": {"_target_": f"{__name__}.Owned", "test_owned": True},
            "runs_dir": str(tmp_path)}  # fmt: skip
    run = train(base)
    assert set(run.evaluation["release"]) == {"private"}
    assert any("user_size" in line for line in run.ledger["not_covered"])
    assert any("same people" in line for line in run.ledger["not_covered"])
    apart = train(base | {"data": {"_target_": f"{__name__}.Owned"}})
    by_kind = apart.evaluation.groupby("slice_kind")["release"].unique().map(list).to_dict()
    assert by_kind["user_size"] == ["private"]
    overall = apart.evaluation[apart.evaluation["metric"] == "accuracy"]
    assert set(overall.loc[overall["slice_kind"] == "all", "release"]) == {"public"}


def test_the_same_table_elsewhere_is_the_same_run_and_another_table_there_is_not(tmp_path):
    def key(folder, income):
        file = tmp_path / folder / "t.csv"
        file.parent.mkdir(exist_ok=True)
        rows = [f"{i % 7},{(i + income) % 2}" for i in range(60)]
        file.write_text("\n".join(["age,label", *rows]))
        table = {"data": "table", "data.path": str(file), "data.label": "label",
                 "data.numeric": {"age": {"mean": 3, "std": 2}}}  # fmt: skip
        more = {"model": "logistic", "batch": 10, "slices": "label", "debug": None}
        return tiny(tmp_path / "runs", **table | more | {"steps": 2}).cell["run_key"]

    first = key("a", 0)
    assert key("b", 0) == first
    assert key("a", 1) != first


def test_options_of_a_folder_of_ones_own(tmp_path):
    (tmp_path / "mine" / "experiment").mkdir(parents=True)
    text = "# @package _global_\nepsilon: 2.0\nclip:\n  norm: 0.7\n"
    (tmp_path / "mine" / "experiment" / "mine.yaml").write_text(text)
    run = train(
        TINY | {"experiment": "mine", "runs_dir": str(tmp_path)}, config_dir=tmp_path / "mine"
    )
    assert run.cell["label"] == "flat C=0.7 ε=2 s0"


def test_more_users_are_another_run_though_their_records_are_the_same(tmp_path):
    base = {"model": "logistic", "steps": 2, "batch": 16, "tracker": "none", "slices": "label",
            "clip.unit": "user", "runs_dir": str(tmp_path)}  # fmt: skip
    keys = [
        train(base | {"data": {"_target_": f"{__name__}.Owned", "owners": n}}).cell["run_key"]
        for n in (40, 80)
    ]
    assert keys[0] != keys[1]


def test_a_model_that_mixes_rows_is_refused_by_name(tmp_path, monkeypatch):
    with pytest.raises(ConfigError, match=r"model=2 \(BatchNorm1d\)"):
        tiny(tmp_path, **own_model(tmp_path, monkeypatch, "nn.BatchNorm1d(8)"))


def test_a_run_with_dropout_repeats_bit_by_bit(tmp_path, monkeypatch):
    settings = own_model(tmp_path, monkeypatch, "nn.Dropout(0.5)")
    states = [tiny(tmp_path / name, **settings).model().state_dict() for name in "ab"]
    assert all(torch.equal(states[0][k], states[1][k]) for k in states[0])


@pytest.mark.parametrize("engine", ["bookkeeping", "materialised"])
def test_engines_train_to_one_model(tmp_path, engine, one):
    run = tiny(tmp_path, **{"clip": "per_layer", "clip.norm": 0.5, "engine": engine,
                            "mechanism": "clip_only"})  # fmt: skip
    assert run.cell["steps"] == 3


def test_an_accountant_that_estimates_never_certifies(tmp_path):
    accountant = {"_target_": f"{__name__}.Guess", "name": "guess"}
    with pytest.raises(ConfigError, match=r"accountant=guess.*never certify"):
        tiny(tmp_path, accountant=accountant)


@dataclass(frozen=True)
class Guess:
    """An accountant that claims little."""

    name: str
    certifies = False


def test_runs_are_listed_shown_and_removed(tmp_path, capsys):
    run = tiny(tmp_path)
    main(["list", f"runs_dir={tmp_path}"])
    assert run.folder.name in capsys.readouterr().out
    main(["show", run.folder.name[:5], "--runs-dir", str(tmp_path)])
    assert "Privacy ledger" in capsys.readouterr().out
    main(["rm", run.folder.name[:5], "--runs-dir", str(tmp_path)])
    assert run.folder.exists()
    main(["rm", run.folder.name[:5], "--yes", "--runs-dir", str(tmp_path)])
    assert not run.folder.exists()
    with pytest.raises(SystemExit) as error:
        main(["show", "abc", "--runs-dir", str(tmp_path)])
    assert error.value.code == 2


def test_an_unfinished_run_does_not_open(tmp_path):
    folder = tmp_path / "aaaa"
    folder.mkdir()
    (folder / "status.json").write_text(json.dumps({"status": "KILLED"}))
    with pytest.raises(ConfigError, match=r"not finished .status KILLED"):
        load(folder)


def test_modules_of_torch_are_no_models(tmp_path):
    with pytest.raises(ConfigError, match="dataclass"):
        tiny(tmp_path, model={"_target_": f"{nn.__name__}.Linear"})
