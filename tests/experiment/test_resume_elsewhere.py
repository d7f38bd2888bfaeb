"""In another environment steps are not repeated bit by bit: they are charged again, or refused."""

import os
import re
import shutil

import pytest
import torch
from ledgers import Folder
from resuming import bits, kept, killed, run, steps_seen

from analysis import schema
from dpsgd import noise as noise_module
from dpsgd.accounting import PLD, poisson_gaussian
from dpsgd.errors import ConfigError, PrivacyError
from dpsgd.experiment.composition import total
from dpsgd.experiment.files import read_json
from dpsgd.experiment.ledger import environment
from dpsgd.experiment.ledger.repeats import repeats_of
from dpsgd.experiment.plan import COMPARED
from dpsgd.experiment.resume import attempt
from dpsgd.experiment.track.contents import contents
from dpsgd.experiment.verify import read_ledger, verify
from dpsgd.sampling.schemes import steps_to_charge

CHARGE = {"resume": "charge"}
PARAMETERS = 650
FIXED = {"relation": "replace_one", "sampling": "shuffled", "batch": 600}


@pytest.fixture(autouse=True)
def _fast(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    for name in ("rdp", "prv", "moments"):  # each takes as long as the training
        if name in COMPARED:
            monkeypatch.delitem(COMPARED, name)


@pytest.fixture
def threads():
    """Other threads than one: an environment that repeats nothing bit by bit."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def moved_once(tmp_path_factory):
    """A run killed after step 3, which went on with another number of threads, to its end."""
    folder = tmp_path_factory.mktemp("moved")
    killed(folder, at=4)
    before = torch.get_num_threads()
    torch.set_num_threads(before + 1)
    try:
        seen, found = steps_seen(folder, CHARGE)
    finally:
        torch.set_num_threads(before)
    assert seen == [4, 5]
    return found


@pytest.fixture
def moved(moved_once, tmp_path):
    shutil.copytree(moved_once, tmp_path / moved_once.name)
    return Folder(tmp_path / moved_once.name)


def files(folder):
    return {f.name: f.read_bytes() for f in folder.iterdir() if f.name != schema.STATUS_FILE}


def pld(ledger, steps):
    event = poisson_gaussian(ledger["sampler"]["sampling_probability"],
                             ledger["noise_multiplier"], steps)  # fmt: skip
    return PLD("pld", 1e-4).epsilon(event, "add_or_remove_one", ledger["delta"])


def test_it_is_refused_with_the_number_and_nothing_is_touched(tmp_path, threads):
    whole = bits(run(tmp_path / "whole"))
    folder = killed(tmp_path / "broken", at=4)
    before, ledger = files(folder), read_ledger(folder)
    threads(2)
    with pytest.raises(PrivacyError, match=r"another environment \(threads\)") as refused:
        run(tmp_path / "broken")
    for words in ("steps 4 to 5", "charged again", "resume=charge", "Run it where it began"):
        assert words in str(refused.value)
    said = re.search(r"ε = ([\d.]+) in place of ([\d.]+)", str(refused.value))
    assert float(said[1]) == pytest.approx(pld(ledger, 7), abs=0.006)
    assert float(said[2]) == pytest.approx(ledger["epsilon"], abs=0.006)
    assert files(folder) == before
    threads(1)
    assert bits(run(tmp_path / "broken")) == whole


def test_charged_again_the_ledger_costs_what_both_attempts_may_have_shown(moved_once):
    ledger = read_ledger(moved_once)
    entries = [(e["purpose"], e["draw_id"], e["steps"]) for e in ledger["entries"]]
    assert entries == [("gradient", "1-5", 5), ("gradient", "4-5", 2)]
    assert len({e["stream_id"] for e in ledger["entries"]}) == 2
    assert ledger["epsilon"] == pytest.approx(pld(ledger, 7), rel=1e-6)
    cell = read_json(moved_once / schema.CELL_FILE)
    assert cell["epsilon"] == ledger["epsilon"]
    (repeat,) = repeats_of(ledger)
    assert (repeat.epoch, repeat.after, repeat.origin) == (1, 3, ledger["stream_id"])
    verdict = verify(moved_once)
    assert verdict.holds, [str(m) for m in verdict.findings.mismatches]
    assert any("in another environment" in remark for remark in verdict.findings.remarks)
    page = (moved_once / schema.LEDGER_PAGE).read_text(encoding="utf-8")
    assert "Steps 4 to 5 were drawn again" in " ".join(page.split())
    assert "threads 1 → 2" in " ".join(page.split())


def test_compose_adds_what_was_charged_again(moved_once):
    ledger = read_ledger(moved_once)
    assert total([(moved_once, ledger)]).epsilon == pytest.approx(pld(ledger, 7), rel=1e-3)


def test_the_noise_of_steps_that_are_charged_again_is_new(tmp_path, threads, monkeypatch):
    drawn = []
    plain = noise_module.fill_normal

    def noted(vector, generator, std):
        plain(vector, generator, std)
        drawn.append(vector.clone())

    killed(tmp_path / "a", {"telemetry": "off", "telemetry.window": None}, at=4)
    threads(2)
    with monkeypatch.context() as patch:
        patch.setattr(noise_module, "fill_normal", noted)
        seen, _ = steps_seen(
            tmp_path / "a", CHARGE | {"telemetry": "off", "telemetry.window": None}
        )
        assert seen == [4, 5]
        again, drawn = drawn, []
        threads(1)
        run(tmp_path / "b", {"telemetry": "off", "telemetry.window": None})
    large = [value for value in drawn if value.numel() == PARAMETERS]
    assert len(large) == 5
    for new in (value for value in again if value.numel() == PARAMETERS):
        assert not any(torch.equal(new, before) for before in large)


def test_killed_again_it_goes_on_by_the_streams_of_its_own_attempt(tmp_path, threads):
    killed(tmp_path / "one", at=3)
    threads(2)
    killed(tmp_path / "one", CHARGE, at=3)
    shutil.copytree(tmp_path / "one", tmp_path / "two", symlinks=True)
    whole = run(tmp_path / "one", CHARGE)
    for step in (3, 4, 5):  # before its first checkpoint it begins at the same one again
        folder = killed(tmp_path / "two", CHARGE, at=step)
        assert verify(folder, accountants=False).holds
    seen, again = steps_seen(tmp_path / "two", CHARGE)
    assert seen == [5]
    assert bits(again) == bits(whole)


def test_copies_of_a_run_go_on_by_streams_of_their_own(tmp_path, threads):
    killed(tmp_path / "one", at=3)
    killed(tmp_path / "one", at=4)
    shutil.copytree(tmp_path / "one", tmp_path / "two", symlinks=True)
    threads(2)
    there = read_ledger(run(tmp_path / "one", CHARGE))
    threads(3)
    here = read_ledger(run(tmp_path / "two", CHARGE))
    (one,), (other,) = repeats_of(there), repeats_of(here)
    assert one.epoch == other.epoch
    assert one.stream_id != other.stream_id


def test_no_name_of_a_run_says_less_than_it_costs(tmp_path, threads):
    settings = {"epsilon": 1.0, "noise_multiplier": None, "checkpoint": None}
    folder = killed(tmp_path, settings, at=2)
    threads(2)
    killed(tmp_path, settings | CHARGE, at=2)
    status = read_json(folder / schema.STATUS_FILE)
    assert read_ledger(folder)["epsilon"] > 1.2
    assert float(contents(folder, "KILLED", status).name.split("ε=")[1].split()[0]) > 1.2
    cell = read_json(run(tmp_path, settings | CHARGE) / schema.CELL_FILE)
    assert float(cell["label"].split("ε=")[1].split()[0]) >= cell["epsilon"] - 1e-9


def test_going_back_is_another_environment_too(tmp_path, threads):
    killed(tmp_path, at=3)
    threads(2)
    killed(tmp_path, CHARGE, at=5)
    threads(1)
    with pytest.raises(PrivacyError, match="after step 4, steps 5 to 5"):
        run(tmp_path)
    folder = run(tmp_path, CHARGE)
    ledger = read_ledger(folder)
    assert [e["draw_id"] for e in ledger["entries"]] == ["1-5", "3-5", "5-5"]
    assert ledger["epsilon"] == pytest.approx(pld(ledger, 9), rel=1e-6)
    assert verify(folder).holds


def test_a_repeat_whose_beginning_is_lost_is_a_new_one(tmp_path, threads):
    killed(tmp_path, at=3)
    threads(2)
    folder = killed(tmp_path, CHARGE, at=3)
    for file in folder.glob("checkpoint*"):
        file.unlink()
    with pytest.raises(PrivacyError, match="lacks the checkpoint"):
        run(tmp_path)
    ledger = read_ledger(run(tmp_path, CHARGE))
    assert [e["draw_id"] for e in ledger["entries"]] == ["1-5", "3-5", "1-5"]


def test_without_a_checkpoint_all_steps_are_charged_again(tmp_path, threads):
    killed(tmp_path, {"checkpoint": None}, at=4)
    threads(2)
    seen, folder = steps_seen(tmp_path, CHARGE)
    assert seen == [1, 2, 3, 4, 5]
    assert read_ledger(folder)["epsilon"] == pytest.approx(pld(read_ledger(folder), 10), rel=1e-6)


def test_on_an_accelerator_every_attempt_is_another_environment(tmp_path, monkeypatch):
    assert not environment.repeats_bits("cuda:0")
    killed(tmp_path, at=4)
    monkeypatch.setattr(attempt, "repeats_bits", lambda device: False)
    with pytest.raises(PrivacyError, match="another process on device=cpu"):
        run(tmp_path)
    ledger = read_ledger(run(tmp_path, CHARGE))
    assert [e["draw_id"] for e in ledger["entries"]] == ["1-5", "4-5"]


def test_a_run_without_privacy_starts_again_and_owes_nothing(tmp_path, threads):
    folder = killed(tmp_path, {"mechanism": "neither"}, at=4)
    threads(2)
    seen, again = steps_seen(tmp_path, {"mechanism": "neither"})
    assert (seen, again) == ([1, 2, 3, 4, 5], folder)
    assert verify(folder).holds


def test_a_release_is_charged_again_by_its_own_key(tmp_path, threads):
    released = {"release": True, "telemetry": "accounted", "engine.non_finite": "drop"}
    folder = killed(tmp_path, released, at=4)
    key = (folder / "secret.key").read_bytes()
    threads(2)
    with pytest.raises(PrivacyError, match="another environment"):
        run(tmp_path, released)
    run(tmp_path, released | CHARGE)
    assert (folder / "secret.key").read_bytes() == key
    ledger = read_ledger(folder)
    assert {e["purpose"] for e in ledger["entries"]} == {"gradient", "slice telemetry"}
    assert ledger["epsilon"] == pytest.approx(pld(ledger, 7), rel=1e-6)
    assert verify(folder).holds


def test_looks_that_come_again_are_charged_again(tmp_path, threads):
    decide = {"decide": "validation", "decide.every": 2, "data.holdout": "private"}
    killed(tmp_path, decide, at=4)
    threads(2)
    folder = run(tmp_path, decide | CHARGE)
    looks = [e["steps"] for e in read_ledger(folder)["entries"] if e["draw_id"] == "looks"]
    assert looks == [3, 2]  # after steps 2, 4 and 5; and once more after 4 and 5
    verdict = verify(folder)
    assert verdict.holds, [str(m) for m in verdict.findings.mismatches]


def test_fixed_batches_that_begin_inside_an_epoch_pay_for_it(tmp_path, threads):
    killed(tmp_path, FIXED, at=2)
    threads(2)
    folder = run(tmp_path, FIXED | CHARGE)
    ledger = read_ledger(folder)
    epoch = ledger["sampler"]["steps_per_epoch"]
    assert epoch == 2
    assert [e["draw_id"] for e in ledger["entries"]] == ["1-5", "2-5"]
    assert [e["event"]["epochs"] for e in ledger["entries"]] == [3, 3]
    assert verify(folder).holds


@pytest.mark.parametrize("epoch", [1, 2, 3, 7])
def test_charged_steps_cover_every_epoch_that_is_touched(epoch):
    facts = {"scheme": "shuffled", "steps_per_epoch": epoch}
    for last in range(1, 15):
        for first in range(1, last + 1):
            touched = {(step - 1) // epoch for step in range(first, last + 1)}
            assert -(-steps_to_charge(facts, first, last) // epoch) == len(touched)
    assert steps_to_charge({"scheme": "poisson"}, 3, 5) == 3
    assert steps_to_charge({"scheme": "of my own"}, 3, 5) == 5


def test_noise_solved_elsewhere_in_its_last_digits_is_that_of_the_first_attempt(tmp_path, threads):
    solved = {"noise_multiplier": None, "epsilon": 3.0}
    folder = Folder(killed(tmp_path, solved, at=4))
    sigma = read_ledger(folder.path)["noise_multiplier"]
    nearly = sigma * (1 + 1e-12)

    def change(ledger):
        ledger["noise_multiplier"] = nearly
        for entry in ledger["entries"]:
            entry["noise_multiplier"] = nearly
            entry["event"]["event"]["event"]["noise_multiplier"] = nearly

    folder.ledger(change)
    threads(2)
    run(tmp_path, solved | CHARGE)
    assert {e["noise_multiplier"] for e in read_ledger(folder.path)["entries"]} == {nearly}
    assert kept(folder.path) == []


def ledger_of(change):
    return lambda moved: moved.ledger(change)


def _forgotten(value):
    """Neither the repeat nor its entries: what the first attempt alone would have cost."""
    value.pop("charged_again")
    value["entries"] = value["entries"][:1]


def _shorter(value):
    last = value["entries"][-1]
    last.update(draw_id="5-5", steps=1)
    last["event"]["count"] = 1


FORGED = {
    "entries left out": (ledger_of(lambda v: v["entries"].pop()), "without an entry"),
    "fewer steps": (ledger_of(_shorter), "without an entry"),
    "a later beginning": (
        ledger_of(lambda v: v["charged_again"][0].update(after=4)), "beyond those planned",
    ),
    "the repeat left out": (ledger_of(lambda v: v.pop("charged_again")), "entries[1].stream_id"),
    "a stream of nobody": (
        ledger_of(lambda v: v["charged_again"][0].update(stream_id="0" * 16)),
        "stream_id of epoch 1",
    ),
    "the same stream": (
        ledger_of(lambda v: v["charged_again"][0].update(stream_id=v["stream_id"])),
        "charged_again[0].stream_id",
    ),
    "another epoch": (
        ledger_of(lambda v: v["charged_again"][0].update(epoch=2)), "charged_again[0].epoch",
    ),
    "another nonce": (
        ledger_of(lambda v: v["charged_again"][0].update(nonce="0" * 16)), "stream_id of epoch 1",
    ),
    "no such origin": (
        ledger_of(lambda v: v["charged_again"][0].update(origin="f" * 16)),
        "charged_again[0].origin",
    ),
    "a key taken out": (ledger_of(lambda v: v["charged_again"][0].pop("after")), "content"),
    "all of it": (ledger_of(_forgotten), "ε of the entries by pld"),
}  # fmt: skip


@pytest.mark.parametrize("kind", FORGED)
def test_a_forged_repeat_is_named(moved, kind):
    forge, what = FORGED[kind]
    forge(moved)
    if kind != "a key taken out":
        moved.reseal()
    found = [
        m.what for m in verify(moved.path, accountants=kind == "all of it").findings.mismatches
    ]
    assert any(what in one for one in found), found


def test_fewer_steps_charged_than_the_last_attempt_took_are_found(moved):
    def forge(value):
        _shorter(value)
        value["charged_again"][0].update(after=4)

    moved.ledger(forge)
    moved.reseal()
    found = [one.what for one in verify(moved.path, accountants=False).findings.mismatches]
    assert found == ["step after which the latest attempt began"]


def test_resume_is_one_of_two_words(tmp_path):
    with pytest.raises(ConfigError, match=r"^resume="):
        run(tmp_path, {"resume": "always"})
