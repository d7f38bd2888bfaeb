"""The words of the command lines: in which order, how a folder is named, what people mistype."""

from pathlib import Path

import pytest
from forked import run_each

from dpsgd import audit, ledger, runs
from dpsgd.errors import ConfigError, folded
from dpsgd.experiment.named_runs import folder_first
from dpsgd.typed import as_hydra_reads


@pytest.mark.parametrize(
    ("given", "ordered"),
    [
        (["a=1", "-m", "b=1,2"], ["-m", "a=1", "b=1,2"]),
        (["a=1", "--config-dir", "c", "b=2"], ["--config-dir", "c", "a=1", "b=2"]),
        (["a=1", "--config-dir=c", "~b"], ["--config-dir=c", "a=1", "~b"]),
        (["--cfg", "job", "a=-1"], ["--cfg", "job", "a=-1"]),
        (["a=1", "--config-dir"], ["--config-dir", "a=1"]),
        ([], []),
    ],
)
def test_options_may_stand_anywhere(given, ordered):
    assert as_hydra_reads(given) == ordered


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (["clip=a,b", "clip.x=0.3"], ["clip=a,b", "clip.x=choice(0.3)"]),
        (["clip.x=[1,2]", "clip=choice(a)"], ["clip.x=choice([1,2])", "clip=choice(a)"]),
        (["clip=a,b", "clip.x=1,2", "y=3"], ["clip=a,b", "clip.x=1,2", "y=3"]),
        (["clip=a", "clip.x=0.3", "seed=0,1"], ["clip=a", "clip.x=0.3", "seed=0,1"]),
        (["name='a,b'", "name.x=1"], ["name='a,b'", "name.x=1"]),
    ],
)
def test_a_key_of_a_group_of_several_options_is_read_with_each_of_them(given, read):
    assert as_hydra_reads(["-m", *given]) == ["-m", *read]
    assert as_hydra_reads(given) == given


@pytest.mark.parametrize(
    ("given", "ordered"),
    [
        (["--runs-dir", "there", "a=1"], ["runs_dir=there", "a=1"]),
        (["--runs-dir=there", "-m"], ["-m", "runs_dir=there"]),
        (["runs_dir=there"], ["runs_dir=there"]),
        (["there/", "a=1"], ["runs_dir=there/", "a=1"]),
        (["a=1", "/data/it's here"], ["a=1", r"runs_dir='/data/it\'s here'"]),
        (["--info", "searchpath", "a=1"], ["--info", "searchpath", "a=1"]),
        (["--multi", "a=1"], ["--multi", "a=1"]),
    ],
)
def test_the_folder_of_runs_may_be_named_as_anywhere_else(given, ordered):
    assert as_hydra_reads(given) == ordered


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["clip.norm", "1"], "clip.norm 1: write clip.norm=1"),
        (["--clip.norm=1"], "--clip.norm=1: write clip.norm=1, without dashes"),
        (["--clip.norm", "1"], "--clip.norm 1: write clip.norm=1, without dashes"),
        (["-clip.norm=1"], "-clip.norm=1: write clip.norm=1, without dashes"),
        (["clip", "-m"], "clip: a setting is written clip=value"),
        (["a=1", "b"], "b: a setting is written b=value"),
        (["--mutlirun"], "--mutlirun: no such option (did you mean '--multirun'?); see "
         "python -m dpsgd.run --help"),
    ],
)  # fmt: skip
def test_a_mistyped_setting_is_told_how_it_is_written(given, said):
    with pytest.raises(ConfigError) as error:
        as_hydra_reads(given)
    assert str(error.value) == said


REFUSED = [
    (["clip=flat,per_layer"], "clip=flat,per_layer: several values need -m"),
    (["mechanism=clip"], "did you mean 'clip_only'?"),
    (["relation=replace"], "did you mean 'replace_one'?"),
    (["audit=canaries", "release=true"], "audit=canaries: must be none with release=true"),
    (["release=true"], "telemetry=oracle: must be accounted"),
    (["clop=flat"], "clop: no such key (did you mean 'clip'?); allowed are"),
    (["clip=flatt"], "clip=flatt: no such option (did you mean 'flat'?); choose one of"),
    (["-m", "clip=flat,perlayer"], "no such option (did you mean 'per_layer'?); choose"),
    (["clip.nrom=1"], "clip.nrom: no such key (did you mean 'norm'?); allowed are"),
    (["runs_dir=file"], "must be a folder, and is a file"),
    (["runs_dir=file/inner"], "must be a folder, and"),
    (["runs_dir=/proc/x"], "runs_dir=/proc/x: cannot be written to"),
    (["-m", "runs_dir=file", "seed=0,1", "debug=fast"], "must be a folder, and is a file"),
    (["epsilon=1e-30", "debug=fast"], "epsilon=1e-30: no noise multiplier"),
    (["-m", "epsilon=1e-30,1", "debug=fast"], "epsilon=1e-30: no noise multiplier"),
    (["-m", "clip.norm=0,1"], "clip.norm=0.0: must be a finite number above 0"),
    (["epsilon=1e-29", "debug=fast", "runs_dir=kept"], "epsilon=1e-29: no noise multiplier"),
    (["debug=fast", "clip.norm=1e-40"], "clip.norm=1e-40: must be from 1e-30"),
]


@pytest.fixture(scope="module")
def refused(tmp_path_factory):
    """The folder in which all of these commands were given, and each one's exit code."""
    folder = tmp_path_factory.mktemp("refused")
    (folder / "file").touch()
    kept = folder / "kept" / ".cache"
    kept.mkdir(parents=True)
    (kept / "answer.json").touch()
    ended = run_each(folder, [words for words, _ in REFUSED])
    return folder, [code for code, _ in ended]


@pytest.mark.parametrize("number", range(len(REFUSED)), ids=[" ".join(w) for w, _ in REFUSED])
def test_a_refused_command_says_why_within_80_columns(refused, number):
    folder, codes = refused
    text = (folder / f"err.{number}").read_text(encoding="utf-8")
    said = REFUSED[number][1]
    assert codes[number] == 2
    assert said in " ".join(text.split()) or said in text
    assert max(map(len, text.splitlines())) <= 80


def test_refused_commands_leave_nothing_and_take_nothing_away(refused):
    folder, _ = refused
    own = {f"{name}.{n}" for name in ("out", "err", "code") for n in range(len(REFUSED))}
    assert {file.name for file in folder.iterdir()} - own == {"file", "kept"}
    assert (folder / "kept" / ".cache" / "answer.json").exists()
    assert [file.name for file in (folder / "kept").iterdir()] == [".cache"]


def test_lines_are_folded_between_words_and_commands_are_left_whole():
    text = folded(f"key=value: {'word ' * 30}\n  {'copy ' * 30}\nshort")
    lines = text.splitlines()
    assert max(map(len, (line for line in lines if "copy" not in line))) <= 80
    assert f"  {'copy ' * 30}" in lines
    assert lines[-1] == "short"


def test_the_first_word_is_the_folder_of_runs_unless_that_is_given(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there" / "abc").mkdir(parents=True)
    (tmp_path / "there" / "abc" / "status.json").touch()
    assert folder_first(["there", "abc"], None) == (Path("there"), ["abc"])
    assert folder_first(["abc"], Path("there")) == (Path("there"), ["abc"])
    assert folder_first(["there/abc"], None) == (Path("runs"), ["there/abc"])
    assert folder_first([], None) == (Path("runs"), [])


@pytest.mark.parametrize("words", [["there"], ["--runs-dir", "there"], ["runs_dir=there"]])
def test_the_folder_of_runs_is_named_alike_everywhere(words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").mkdir()
    runs.main(["list", *words])
    assert "0 runs in there" in capsys.readouterr().out
    for program in (audit.main, lambda words: ledger.main(["verify", *words])):
        with pytest.raises(SystemExit) as ended:
            program(words)
        assert ended.value.code == 2
        assert "run=there: holds no run with" in capsys.readouterr().err


def test_a_folder_that_is_not_there_is_said_so(capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for words, said in (
        (["/no/such"], "run=/no/such: there is no such folder"),
        (["abc"], "runs_dir=runs: is no folder"),
        ([], "runs_dir=runs: is no folder"),
    ):
        with pytest.raises(SystemExit):
            audit.main(words)
        assert capsys.readouterr().err.startswith(said)
    with pytest.raises(SystemExit):
        runs.main(["list", "nowhere"])
    assert "runs_dir=nowhere: is no folder" in capsys.readouterr().err
