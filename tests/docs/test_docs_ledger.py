"""The page on ledgers: its commands run one after another, its Python on what they left."""

import re
import shlex
from pathlib import Path

import pytest
from quoted import PAGES, ROOT, blocks, compositions, run_commands

from dpsgd.experiment.cell import run_cell
from dpsgd.experiment.prepared import prepare
from dpsgd.experiment.settings import read_cell
from dpsgd.ledger import main

PAGE = (ROOT / "docs" / "ledger.md").read_text(encoding="utf-8")
QUOTED = re.compile(r"python -m dpsgd\.ledger ([^`#\n]+)")
LEDGER = ["python", "-m", "dpsgd.ledger"]


def commands(text):
    lines = [line for body in blocks(text, "sh") for line in body.splitlines()]
    words = [shlex.split(line, comments=True) for line in lines]
    return [found[3:] for found in words if found[:3] == LEDGER]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """What the first command of the page leaves."""
    folder = tmp_path_factory.mktemp("reader")
    (arguments,) = run_commands(PAGE)
    for config in list(compositions(arguments, every=True)):
        run_cell(prepare(read_cell(config)), folder / "runs", lambda plan: lambda *facts: None)
    return folder


def test_the_commands_of_the_page_do_what_it_says(runs, monkeypatch, capsys):
    monkeypatch.chdir(runs)
    assert [words[0] for words in commands(PAGE)] == ["show", "verify", "compose"]
    printed = []
    for words in commands(PAGE):
        with pytest.raises(SystemExit) as left:
            main(words)
        printed.append(capsys.readouterr().out)
        assert left.value.code == 0, printed[-1]
    show, verify, compose = printed
    assert "C=0.3" in show
    assert "C=3" in show
    assert verify.count(" holds ") == verify.count("seal") == 3
    assert "3 runs together: ε = ∞" in compose
    assert "The 2 private alone: ε by pld" in compose


def test_its_python_recomputes_epsilon(runs, capsys):
    (code,) = blocks(PAGE, "python")
    folder = next(f.parent for f in (runs / "runs").glob("*/ledger.json")
                  if '"private": true' in f.read_text(encoding="utf-8"))  # fmt: skip
    exec(compile(code, "ledger.md", "exec"), {"folder": Path(folder)})  # noqa: S102
    assert re.search(r"ε = [34]", capsys.readouterr().out)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_every_quoted_ledger_command_is_one(page):
    for quoted in QUOTED.findall(page.read_text(encoding="utf-8")):
        assert set(quoted.split()[0].split("|")) <= {"show", "verify", "compose"}


def test_the_sections_of_the_page_are_those_that_it_explains(runs):
    page = next((runs / "runs").glob("*/ledger.md")).read_text(encoding="utf-8")
    for head in re.findall(r"^## (.+)$", page, re.MULTILINE):
        assert f"| {head} |" in PAGE, head
