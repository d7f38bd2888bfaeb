"""Texts: which tokens a record holds, who owns it, and which split it is in."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

from dpsgd.data.bundle import IGNORED, with_fingerprint
from dpsgd.data.deal import deal
from dpsgd.data.speakers import speakers_table
from dpsgd.data.tokens import NOTHING, windows
from dpsgd.errors import ConfigError
from dpsgd.experiment.parts import build_part

CONF = Path(__file__).resolve().parents[2] / "conf" / "data" / "text.yaml"
PAD = 256
CLASSES = {"task": "classes", "label": "mood", "train": 0.5, "validation": 0.25}


def _load(folder, table, *, file="texts.csv", **changes):
    path = folder / file
    frame = pd.DataFrame(table)
    if path.suffix == ".parquet":
        frame.to_parquet(path, index=False)
    else:
        frame.to_csv(path, index=False)
    node = yaml.safe_load(CONF.read_text()) | {"path": str(path)} | changes
    return with_fingerprint(build_part(node, "data").load(folder))


def _table(n=40):
    words = ["a stitch in time", "saves nine", "Ärger", "x"]
    return {
        "text": [f"{words[i % 4]} {i}" for i in range(n)],
        "who": [f"u{i % 3}" for i in range(n)],
        "mood": ["glad" if i % 2 else "sad" for i in range(n)],
        "place": ["Köln" if i % 4 else "Rome" for i in range(n)],
        "day": [f"2016-01-{1 + i % 9:02d}" for i in range(n)],
    }


def _records(bundle):
    """Return (example, input ids, labels, owner, columns) of every record of every split."""
    for split in (bundle.train, bundle.validation, bundle.test):
        for i in range(len(split)):
            owner = None if split.user is None else bundle.users[split.user[i]]
            columns = {name: values[i] for name, values in split.columns.items()}
            yield int(split.example[i]), split.inputs[i], split.labels[i], owner, columns


@pytest.mark.parametrize("context", [1, 3, 8, 64])
def test_every_token_but_a_texts_first_is_a_target_once(tmp_path, context):
    table = _table()
    bundle = _load(tmp_path, table, context=context)
    found = sorted(_records(bundle), key=lambda record: record[0])
    assert [record[0] for record in found] == list(range(len(found)))
    targets = [t for record in found for t in record[2].tolist() if t != IGNORED]
    assert targets == [byte for text in table["text"] for byte in text.encode()[1:]]
    for _, inputs, labels, *_ in found:
        known = labels != IGNORED
        assert known[0]
        assert (inputs[1:][known[:-1]] == labels[:-1][known[:-1]]).all()
        assert (inputs[~known][1:] == PAD).all()


def test_bytes_are_their_own_ids(tmp_path):
    bundle = _load(tmp_path, _table(), context=64)
    assert bundle.vocabulary == len(bundle.classes) == 257
    assert bundle.classes[0x41] == "0x41"
    _, inputs, labels, *_ = next(r for r in _records(bundle) if r[0] == 2)
    assert bytes(inputs[inputs != PAD].tolist()).decode() == "Ärger 2"
    assert bytes(labels[labels != IGNORED].tolist()) == "Ärger 2".encode()[1:]


@pytest.mark.parametrize("stride", [1, 2, 3, 4])
def test_overlapping_windows_hold_each_target_and_end_with_the_text(stride):
    text = np.arange(11)
    found, row = windows([text[:1], text, text[:0]], 4, stride)
    assert set(row) == {1}
    assert (found[:, 0] == np.arange(len(found)) * stride).all()
    assert set(found[:, 1:].ravel()) - {NOTHING} == set(range(1, 11))
    # The last window alone may reach past the end, and it has a target of its own.
    assert (found[:-1] != NOTHING).all()
    assert found[-1].max() == 10
    assert len(found) == 1 or found[-2].max() < 10


def test_overlap_is_noted(tmp_path):
    overlapping = _load(tmp_path, _table(), context=8, stride=4).notes
    assert any("overlap" in note for note in overlapping)
    assert not any("overlap" in note for note in _load(tmp_path, _table(), context=8).notes)


def test_a_window_has_its_rows_user_columns_and_time(tmp_path):
    table = _table()
    bundle = _load(
        tmp_path, table, context=4, user="who", slices=["place"], time="day", file="texts.csv.gz"
    )
    assert bundle.users == ("u0", "u1", "u2")
    owners = {
        text.encode(): (who, place, np.datetime64(day))
        for text, who, place, day in zip(*(table[k] for k in ("text", "who", "place", "day")),
                                         strict=True)
    }  # fmt: skip
    for _, inputs, _, owner, columns in _records(bundle):
        piece = bytes(inputs[inputs != PAD].tolist())
        possible = [v for text, v in owners.items() if piece in text]
        assert (owner, columns["place"], columns["day"]) in possible
    assert len({example for example, *_ in _records(bundle)}) == sum(1 for _ in _records(bundle))


def test_each_user_is_in_every_split_by_share(tmp_path):
    bundle = _load(tmp_path, _table(400), context=8, user="who", train=0.5, validation=0.25)
    sizes = np.array(
        [np.bincount(s.user, minlength=3) for s in (bundle.train, bundle.validation, bundle.test)]
    )
    shares = np.array([0.5, 0.25, 0.25])[:, None]
    assert (np.abs(sizes - shares * sizes.sum(0)) <= 1).all()


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_small_groups_are_dealt_by_share_on_average(size):
    groups = np.repeat(np.arange(4000), size)
    part = deal(groups, (0.7, 0.2), seed=0)
    counts = np.array([np.bincount(groups[part == k], minlength=4000) for k in range(3)])
    expected = np.array([0.7, 0.2, 0.1]) * size
    assert (np.abs(counts - expected[:, None]) < 1 + 1e-9).all()
    assert np.allclose(counts.mean(1), expected, atol=0.04)


def test_the_deal_depends_on_the_seed_alone(tmp_path):
    first, again, other = (_load(tmp_path, _table(), context=4, seed=s) for s in (0, 0, 1))
    assert first.fingerprint == again.fingerprint != other.fingerprint


def test_a_test_file_is_the_test_split_and_shares_its_users(tmp_path):
    pd.DataFrame({"text": ["zzzz", "zz"], "who": ["u1", "new"]}).to_csv(
        tmp_path / "test.csv", index=False
    )
    bundle = _load(tmp_path, _table(), context=8, user="who", test_path=str(tmp_path / "test.csv"))
    assert bundle.users == ("new", "u0", "u1", "u2")
    assert [bundle.users[u] for u in bundle.test.user] == ["u1", "new"]
    assert (bundle.test.inputs[:, 0] == ord("z")).all()
    for split in (bundle.train, bundle.validation):
        assert not (split.inputs == ord("z")).any()


def test_a_user_whose_texts_are_empty_is_still_a_user(tmp_path):
    table = _table()
    table["text"][0], table["who"][0] = "", "silent"
    bundle = _load(tmp_path, table, context=8, user="who")
    silent = bundle.users.index("silent")
    assert all(silent not in s.user for s in (bundle.train, bundle.validation, bundle.test))


@pytest.mark.parametrize("context", [4, 64])
def test_a_text_with_a_class_is_cut_or_padded(tmp_path, context):
    table = _table()
    bundle = _load(tmp_path, table, context=context, user="who", **CLASSES)
    assert bundle.classes == ("glad", "sad")
    assert bundle.vocabulary == 257
    assert sorted(record[0] for record in _records(bundle)) == list(range(40))
    for row, inputs, label, owner, _ in _records(bundle):
        start = table["text"][row].encode()[:context]
        assert inputs.tolist() == [*start, *[PAD] * (context - len(start))]
        assert bundle.classes[label] == table["mood"][row]
        assert owner == table["who"][row]


def test_a_declared_tail_thins_its_class_in_training_only(tmp_path):
    whole = _load(tmp_path, _table(), **CLASSES)
    thin = _load(tmp_path, _table(), **CLASSES, **{"class": "sad", "keep": 0.5})
    assert (thin.train.labels == 1).sum() == (whole.train.labels == 1).sum() // 2
    assert (thin.train.labels == 0).sum() == (whole.train.labels == 0).sum()
    assert len(thin.test) == len(whole.test)
    assert thin.keep == (1.0, 0.5)


def test_characters_come_from_training_alone_and_others_are_unknown(tmp_path):
    pd.DataFrame({"text": ["xxQ", "stitch"]}).to_csv(tmp_path / "test.csv", index=False)
    bundle = _load(
        tmp_path, _table(), level="characters", context=8, test_path=str(tmp_path / "test.csv")
    )
    *characters, unknown, padding = bundle.classes
    assert (unknown, padding) == ("unknown", "padding")
    assert "Ä" in characters
    assert "Q" not in characters
    assert bundle.vocabulary == len(characters) + 2
    assert [bundle.classes[t] for t in bundle.test.inputs[0]][:4] == [
        "x",
        "x",
        "unknown",
        "padding",
    ]
    assert [bundle.classes[t] for t in bundle.test.labels[0][:2]] == ["x", "unknown"]
    assert any("vocabulary computed from private training data" in n for n in bundle.notes)
    assert any("unknown characters in train/validation/test: 0/0/1" in n for n in bundle.notes)


def test_a_declared_vocabulary_is_the_whole_of_it(tmp_path):
    bundle = _load(tmp_path, _table(), level="characters", vocabulary="tse a", context=8)
    assert bundle.classes == (" ", "a", "e", "s", "t", "unknown", "padding")
    assert not any("computed" in note for note in bundle.notes)


def test_words_for_missing_values_are_texts_all_the_same(tmp_path):
    table = _table()
    table["text"][:3] = ["NA", "null", "nan"]
    bundle = _load(tmp_path, table, na_values=["null"], **CLASSES)
    texts = {row: inputs for row, inputs, *_ in _records(bundle)}
    for row, text in enumerate(["NA", "null", "nan"]):
        assert bytes(texts[row][: len(text)].tolist()).decode() == text


def test_parquet_reads_like_csv(tmp_path):
    one, two = (
        _load(tmp_path, _table(), file=file, user="who", slices=["place"], context=8)
        for file in ("texts.csv", "texts.parquet")
    )
    assert one.fingerprint == two.fingerprint


@pytest.mark.parametrize(
    ("column", "value", "key"),
    [
        ("text", None, "data.text"), ("who", None, "data.user"), ("who", ["a", "b"], "data.user"),
        ("mood", None, "data.label"), ("text", 3.5, "data.text"),
    ],
)  # fmt: skip
def test_a_row_that_cannot_be_used_is_named(tmp_path, column, value, key):
    table = _table(12)
    if column == "who" and isinstance(value, list):
        table["who"] = [[who] for who in table["who"]]
    elif column == "text" and value is not None:
        table["text"] = [value] * 12
    else:
        table[column][7] = value
    with pytest.raises(ConfigError, match=r"row (8|1) of texts\.parquet") as error:
        _load(tmp_path, table, file="texts.parquet", user="who", **CLASSES)
    assert error.value.key == key


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"context": 0}, "data.context"),
        ({"stride": 65}, "data.stride"),
        ({"stride": 8} | CLASSES, "data.stride"),
        ({"label": "mood"}, "data.label"),
        ({"keep": 0.5}, "data.keep"),
        (CLASSES | {"label": None}, "data.label"),
        ({"vocabulary": "abc"}, "data.vocabulary"),
        ({"vocabulary": "", "level": "characters"}, "data.vocabulary"),
        ({"text": "texts"}, "data.text"),
        ({"slices": ["plaice"]}, "data.slices"),
        ({"train": 0.9, "validation": 0.1}, "data.validation"),
        ({"seed": -1}, "data.seed"),
    ],
)
def test_a_setting_that_cannot_be_used_is_refused_by_name(tmp_path, changes, key):
    with pytest.raises(ConfigError) as error:
        _load(tmp_path, _table(), **changes)
    assert error.value.key == key


def test_a_split_without_windows_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"no window is left for \w+ \(2 windows"):
        _load(tmp_path, {"text": ["ab", "cd", ""]})


def test_a_script_becomes_a_row_a_speech():
    script = "KING, the Old:\nTo be: or\nnot.\n\nFOOL:\n\n\nKING, the Old:\nGo.\n"
    table = speakers_table(script)
    assert table.to_dict("list") == {
        "speaker": ["KING the Old", "FOOL", "KING the Old"],
        "text": ["To be: or\nnot.", "", "Go."],
    }
    with pytest.raises(ValueError, match="line 4 begins a block and is no speaker: 'Exeunt'"):
        speakers_table("FOOL:\nHa.\n\nExeunt\n")
