"""Canaries among the records, and members by coin: who has one, who is there, what is counted."""

import dataclasses
import json
import math

import numpy as np
import pandas as pd
import pytest
import torch

from analysis import schema
from dpsgd import train
from dpsgd.data.bundle import Split
from dpsgd.errors import ConfigError
from dpsgd.experiment.coins import RANDOM, RARE, WRONG
from dpsgd.experiment.plan import Plan
from dpsgd.experiment.prepared import prepare
from dpsgd.experiment.settings import read_cell
from dpsgd.experiment.training import trainer_of
from dpsgd.experiment.verify.run import verify
from dpsgd.python import resolved
from dpsgd.sampling.sampler import Draw
from dpsgd.telemetry.recorder import NoRecorder
from dpsgd.training.absent import without_absent
from dpsgd.training.evaluate import losses

TINY = {
    "data": "digits", "model": "logistic", "steps": 8, "batch": 100, "tracker": "none",
    "audit.share": 0.1, "audit": "canaries", "audit.references": 50,
}  # fmt: skip
MEMBERS = {k: v for k, v in TINY.items() if k not in ("audit.share", "audit.references")} | {
    "audit": "membership"
}


def prepared_of(settings=TINY, **changes):
    return prepare(read_cell(resolved(settings | changes)))


@pytest.fixture(scope="module")
def plain():
    return prepared_of({k: v for k, v in TINY.items() if not k.startswith("audit")})


@pytest.fixture(scope="module")
def planted():
    return prepared_of()


def test_the_declared_share_of_every_class_becomes_canaries(plain, planted):
    labels, kind = plain.bundle.train.labels.numpy(), planted.coins.kind
    tail = planted.cell.slices.tail_classes(plain.bundle)
    for label in np.unique(labels):
        own = kind[labels == label]
        share = 0.2 if label in tail else 0.1
        assert (own != "").sum() == round(share * len(own))
        assert set(own) - {""} <= ({RARE} if label in tail else {WRONG, RANDOM})
    assert len(tail) > 0


def test_canaries_are_changed_and_nothing_else_is(plain, planted):
    before, after, kind = plain.bundle.train, planted.bundle.train, planted.coins.kind
    relabelled = torch.from_numpy(np.isin(kind, (WRONG, RARE)))
    random = torch.from_numpy(kind == RANDOM)
    assert bool((before.labels[relabelled] != after.labels[relabelled]).all())
    assert torch.equal(before.inputs[~random], after.inputs[~random])
    assert not torch.equal(before.inputs[random], after.inputs[random])
    untouched = ~(relabelled | random)
    assert torch.equal(before.labels[untouched], after.labels[untouched])


def test_seeds_share_canaries_and_flip_coins_of_their_own(planted):
    other = prepared_of(seed=1)
    assert (other.coins.kind == planted.coins.kind).all()
    flipped = planted.coins.flipped
    assert 0.2 < (other.coins.included != planted.coins.included)[flipped].mean() < 0.8
    assert planted.coins.included[~flipped].all()


def test_n_and_q_and_the_event_are_those_of_the_run_without_canaries(plain, planted):
    for audited in (planted, prepared_of(MEMBERS)):
        assert audited.sampler.n_units == plain.sampler.n_units
        assert audited.delta == plain.delta
        assert audited.event(1.0, 8) == plain.event(1.0, 8)
        assert audited.run_key != plain.run_key


def test_a_record_that_is_not_there_is_never_looked_at(planted):
    gone = torch.from_numpy(~planted.coins.included)
    inputs = planted.bundle.train.inputs.clone()
    inputs[gone] = float("nan")
    train_split = dataclasses.replace(planted.bundle.train, inputs=inputs)
    trainer = trainer_of(Plan(planted, 1.0, planted.steps, math.inf, {}))
    trainer.run(train_split, NoRecorder(), lambda *_: None)
    assert all(bool(p.isfinite().all()) for p in planted.model.parameters())


def test_a_user_stays_when_records_of_it_are_not_there():
    draw = Draw(torch.tensor([4, 5, 9]), torch.tensor([0, 0, 2]), torch.tensor([1, 3, 7]))
    present = torch.ones(10, dtype=torch.bool)
    present[4] = present[9] = False
    users = without_absent(draw, present, records=False)
    assert users.records.tolist() == [5]
    assert users.unit.tolist() == [0]
    assert users.members.tolist() == [1, 3, 7]
    records = Draw(torch.tensor([4, 5, 9]), torch.arange(3), torch.tensor([4, 5, 9]))
    alone = without_absent(records, present, records=True)
    assert alone.records.tolist() == alone.members.tolist() == [5]
    assert alone.unit.tolist() == [0]


def test_telemetry_counts_no_canary_in_any_slice(planted):
    assert not planted.slices.membership[planted.coins.flipped].any()
    assert planted.slices.membership[~planted.coins.flipped][:, 0].all()


def test_losses_that_float32_calls_equal_are_told_apart():
    outputs = torch.tensor([[0.0, 30.0], [0.0, 40.0], [0.0, -50.0], [0.0, -60.0], [0.0, 0.0]])
    split = Split("train", outputs, torch.ones(5, dtype=torch.long), np.arange(5), {})
    found = losses(torch.nn.Identity(), split, "cpu", "classes")
    assert found == pytest.approx([np.exp(-30), np.exp(-40), 50, 60, np.log(2)], rel=1e-6)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return train(TINY | {"runs_dir": str(tmp_path_factory.mktemp("audited"))})


def test_every_coin_is_kept_with_the_loss_of_its_record(run, planted):
    table = pd.read_parquet(run.folder / schema.AUDIT_FILE)
    assert len(table) == planted.coins.flipped.sum() == run.cell["audit_canaries"]
    assert set(table["kind"]) == {WRONG, RARE, RANDOM}
    assert table["included"].tolist() == planted.coins.included[planted.coins.flipped].tolist()
    np.testing.assert_allclose(table["score"], -table["nll"])
    assert (table["release"] == "private").all()


def test_exposure_and_attacks_are_told_by_kind_and_slice_with_n(run):
    metrics = pd.DataFrame(run.cell["metrics"])
    audit = metrics[metrics["split"] == schema.AUDIT_SPLIT]
    assert set(audit["metric"]) == set(schema.METRICS_OF_AUDIT)
    assert set(audit["slice_kind"]) == {"all", schema.CANARY, "label", "rarity"}
    exposure = audit[audit["metric"] == "exposure"].set_index(["slice_kind", "slice"])
    assert 0 <= exposure.loc[("all", "all"), "value"] <= np.log2(51)
    assert (
        exposure.loc[("all", "all"), "n"]
        == pd.read_parquet(run.folder / schema.AUDIT_FILE)["included"].sum()
    )
    gap = audit[audit["metric"] == "exposure_gap"].set_index(["slice_kind", "slice"])
    assert ("all", "all") not in gap.index  # there is nobody else
    random, n = (exposure.loc[(schema.CANARY, RANDOM), name] for name in ("value", "n"))
    every, m = (exposure.loc[("all", "all"), name] for name in ("value", "n"))
    found = gap.loc[(schema.CANARY, RANDOM)]
    assert found["value"] == pytest.approx(random - (m * every - n * random) / (m - n))
    assert found["lo"] < found["value"] < found["hi"]
    tiny = audit[(audit["metric"] == "tpr_at_01pct")]
    assert tiny["value"].isna().all()  # a thousandth of so few is less than one


def test_verify_holds_and_the_ledger_says_that_the_run_was_audited(run):
    verdict = verify(run.folder, accountants=False)
    assert verdict.holds, verdict.findings.mismatches
    ledger = json.loads((run.folder / schema.LEDGER_FILE).read_text())
    assert ledger["audit"]["name"] == "canaries"


def test_a_baseline_has_the_same_canaries_and_a_gradient_audit_shares_the_plain_one(plain):
    whole = resolved(TINY)
    canaries, private = prepared_of(mechanism="neither"), prepare(read_cell(whole))
    assert private.baseline_key == canaries.run_key
    gradient = resolved({k: v for k, v in TINY.items() if not k.startswith("audit")}
                        | {"audit": "gradient", "audit.canaries": 50})  # fmt: skip
    assert prepare(read_cell(gradient)).baseline_key == plain.baseline_key


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"audit.share": 1.0}, "audit.share"), ({"audit.references": 0}, "audit.references"),
        ({"audit.guesses": 2}, "audit.guesses"),
        ({"audit.significance": 0.7}, "audit.significance"),
        ({"relation": "replace_one"}, "relation"),
    ],
)  # fmt: skip
def test_settings_that_cannot_be_are_refused(settings, key):
    with pytest.raises(ConfigError) as caught:
        prepared_of(**settings)
    assert caught.value.key == key
