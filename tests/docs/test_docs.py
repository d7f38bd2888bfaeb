"""The pages say what the code does: they are generated, run, composed or resolved here."""

import os
import runpy
import shlex
from pathlib import Path

import pytest
import yaml
from quoted import PAGES, ROOT, anchors, blocks, compositions, files, links, run_commands

from dpsgd.experiment.prepared import prepare
from dpsgd.experiment.settings import read_cell

BUILD = runpy.run_path(str(ROOT / "docs" / "build.py"))
README = (ROOT / "README.md").read_text(encoding="utf-8")
TUTORIAL = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
OTHERS_DATA = ROOT / "docs" / "results.md"
"""Measured on data that are not part of the project: its commands cannot be tried here."""
COMMANDS = [
    pytest.param(page, arguments, id=f"{page.stem}: {shlex.join(arguments)[:80]}")
    for page in PAGES
    if page != OTHERS_DATA
    for arguments in run_commands(page.read_text(encoding="utf-8"))
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder that a reader of the tutorial has."""
    made = tmp_path_factory.mktemp("reader")
    for name, text in files(TUTORIAL).items():
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_text(text, encoding="utf-8")
    before = Path.cwd()
    os.chdir(made)
    try:
        runpy.run_path("make_people.py")
    finally:
        os.chdir(before)
    return made


def test_the_pages_of_the_configuration_are_those_that_the_yaml_files_make():
    written = {f.name: f.read_text(encoding="utf-8") for f in BUILD["FOLDER"].glob("*.md")}
    assert written == BUILD["pages"](), "run: python docs/build.py"


@pytest.mark.parametrize("file", sorted(ROOT.glob("conf/*/*.yaml")), ids=lambda f: f.stem)
def test_every_key_of_a_yaml_is_found_with_its_default(file):
    text = file.read_text(encoding="utf-8")
    found = {key.name: yaml.safe_load(key.default) for key in BUILD["keys"](text)}
    assert found == yaml.safe_load(text)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_every_relative_link_resolves(page):
    for link in links(page.read_text(encoding="utf-8")):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target.read_text(encoding="utf-8")), link


@pytest.mark.parametrize(("page", "arguments"), COMMANDS)
def test_every_quoted_command_composes_and_its_cells_are_checked(
    page, arguments, folder, monkeypatch
):
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(str(folder))
    for place, config in enumerate(compositions(arguments)):
        cell = read_cell(config)
        if place == 0:
            assert prepare(cell).steps >= 1


def test_the_tutorial_quotes_commands_and_files():
    assert len(COMMANDS) >= 12
    assert {"make_people.py", "my_conf/data/people.yaml"} <= set(files(TUTORIAL))
    assert len(files(TUTORIAL)["make_people.py"].splitlines()) <= 20


@pytest.mark.parametrize("code", blocks(README, "python"), ids=["own loop", "train and load"])
def test_the_python_of_the_readme_runs_as_printed(code, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "README.md", "exec"), {})  # noqa: S102
    assert "ε" in capsys.readouterr().out


def test_the_loop_of_the_readme_leaves_its_ledger(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(blocks(README, "python")[0], "README.md", "exec"), {})  # noqa: S102
    assert "ε = 3" in (tmp_path / "my_ledger" / "ledger.md").read_text(encoding="utf-8")


def test_the_readme_keeps_its_two_lines():
    lines = [line for body in blocks(README, "sh") for line in body.splitlines()]
    assert "pip install -c constraints.txt -e . && python -m dpsgd.run clip=per_layer" in lines
    assert "pip install -c constraints.txt -e '.[test]' && pytest" in lines
