"""A checkpoint that is torn, edited or another run's is not used; the one before it is."""

import errno
import hashlib
import logging
import os
import stat

import pytest
import torch
from resuming import bits, kept, killed, left, run, steps_seen

from analysis import schema
from dpsgd.errors import PrivacyError
from dpsgd.experiment.resume import generations
from dpsgd.experiment.resume.generations import BEFORE, NEWEST, Generations
from dpsgd.experiment.resume.packed import packed, unpacked
from dpsgd.experiment.verify import verify


@pytest.fixture(autouse=True)
def _fast_disk(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda handle: None)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return bits(run(tmp_path_factory.mktemp("whole")))


def _cut(file):
    file.write_bytes(file.read_bytes()[:-100])


def _emptied(file):
    file.write_bytes(b"")


def _flipped(file):
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def _grown(file):
    file.write_bytes(file.read_bytes() + b"\n")


def _replaced(file):
    torch.save({"step": 9}, file)


def _of_another_seed(file):
    other = killed(file.parents[2] / "other", {"seed": 1}, at=5)
    file.write_bytes((other / NEWEST).read_bytes())


SPOILT = (_cut, _emptied, _flipped, _grown, _replaced, _of_another_seed)


@pytest.mark.parametrize("spoil", SPOILT)
def test_the_one_before_is_used(tmp_path, whole, spoil):
    folder = killed(tmp_path, at=4)
    assert kept(folder) == [3, 2]
    spoil(folder / NEWEST)
    seen, again = steps_seen(tmp_path)
    assert seen == [3, 4, 5]
    assert bits(again) == whole
    assert verify(again, accountants=False).holds


def test_without_a_whole_one_it_starts_again_and_is_charged_once(tmp_path, whole):
    folder = killed(tmp_path, at=4)
    _cut(folder / NEWEST)
    _flipped(folder / BEFORE)
    seen, again = steps_seen(tmp_path)
    assert seen == [1, 2, 3, 4, 5]
    assert bits(again) == whole


def test_a_torn_one_never_takes_the_place_of_the_one_before(tmp_path):
    folder = killed(tmp_path, at=4)
    _cut(folder / NEWEST)
    killed(tmp_path, at=4)
    assert kept(folder) == [3, 2]
    (folder / NEWEST).unlink()
    assert kept(folder) == [2]


class PowerCutError(BaseException):
    pass


@pytest.mark.parametrize("moment", range(5))
def test_at_every_moment_of_a_write_there_is_a_whole_one(tmp_path, monkeypatch, moment):
    store = Generations(tmp_path)
    for step in (1, 2):
        store.write({"step": step})
    moments = iter(range(9))

    def cut(plain):
        def instead(*args, **options):
            if next(moments) == moment:
                raise PowerCutError
            return plain(*args, **options)

        return instead

    for owner, name in ((os, "fsync"), (generations.Path, "replace"), (generations, "packed")):
        monkeypatch.setattr(owner, name, cut(getattr(owner, name)))
    ended = False
    try:
        store.write({"step": 3})
        ended = True
    except PowerCutError:
        monkeypatch.undo()
    found = [content["step"] for content in Generations(tmp_path).read()]
    assert found[0] == 3 if ended or moment >= 3 else found[:2] in ([2, 1], [2])
    again = Generations(tmp_path)
    again.read()
    again.write({"step": 4})
    assert Generations(tmp_path).read()[0]["step"] == 4


def test_checkpoints_are_private_and_gone_when_the_run_is_finished(tmp_path):
    folder = killed(tmp_path, at=4)
    for name in left(folder):
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600
    (folder / ".checkpoint.next.pt.x1.tmp").write_bytes(b"half of one")
    run(tmp_path)
    assert [file.name for file in folder.iterdir() if "checkpoint" in file.name] == []
    (folder / NEWEST).write_bytes(b"left by a process that was killed right after it finished")
    run(tmp_path)
    assert left(folder) == []


def test_a_full_disk_costs_the_checkpoint_and_not_the_run(tmp_path, whole, monkeypatch, caplog):
    def full(content):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(generations, "packed", full)
    with caplog.at_level(logging.WARNING):
        assert bits(run(tmp_path)) == whole
    assert "no checkpoint after step 1" in caplog.text


def test_only_plain_data_is_packed_and_nothing_else_is_read(tmp_path):
    for value in (object(), {1: {2}}, [pytest], torch.nn.Linear(1, 1)):
        with pytest.raises(TypeError, match="no plain data"):
            packed({"value": value})
    content = {"a": [1, 2.5, None, "b", (True,)], "t": torch.arange(3), "n": float("nan")}
    again = unpacked(packed(content))
    assert again["a"] == content["a"]
    assert torch.equal(again["t"], content["t"])
    assert again["n"] != again["n"]


def test_what_a_class_could_run_is_not_run(tmp_path):
    class Dangerous:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "ran"),)

    whole = packed({"x": 1})
    body = tmp_path / "body"
    torch.save({"x": Dangerous()}, body)
    data = body.read_bytes()
    head = whole[: whole.index(b"\n") + 1]
    assert unpacked(head + hashlib.sha256(data).hexdigest().encode() + b"\n" + data) is None
    assert not (tmp_path / "ran").exists()


def test_a_checkpoint_of_the_same_run_in_another_environment_is_foreign(tmp_path, whole):
    other = killed(tmp_path / "elsewhere", at=5)
    folder = killed(tmp_path / "here", at=3)
    content = Generations(other).read()[0]
    content["identity"]["environment"]["cpu"] = "another"
    Generations(folder).write(content)
    seen, again = steps_seen(tmp_path / "here")
    assert seen[0] < 4
    assert bits(again) == whole
    assert (again / schema.MODEL_FILE).exists()


@pytest.mark.parametrize("left", ["torn", "gone"])
def test_a_run_whose_ledger_is_lost_is_not_begun_again_by_the_same_streams(tmp_path, left):
    folder = killed(tmp_path)
    file = folder / schema.LEDGER_FILE
    file.write_text("{") if left == "torn" else file.unlink()
    with pytest.raises(PrivacyError, match=rf"ledger.json is {left}"):
        run(tmp_path)


def test_without_privacy_a_lost_ledger_costs_nothing(tmp_path):
    settings = {"mechanism": "neither", "epsilon": None, "noise_multiplier": None}
    folder = killed(tmp_path, settings)
    (folder / schema.LEDGER_FILE).unlink()
    run(tmp_path, settings)
