"""A hash of the code names what is in memory, or is refused."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EDIT = """
from pathlib import Path
import dpsgd
{imports}
{before}
file = Path(dpsgd.__file__).parent / "clipping" / "flat.py"
assert file.is_relative_to(Path.cwd()), file  # a copy, not the package under test
file.write_text(file.read_text() + "# edited")
{after}
print("unseen")
"""
SOURCES = "from dpsgd.experiment.ledger.environment import environment, sources"
VERSIONS = "from dpsgd.experiment.remembered import own_versions"
FLAT = "import dpsgd.clipping.flat"


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    folder = tmp_path_factory.mktemp("package")
    shutil.copytree(ROOT / "dpsgd", folder / "dpsgd", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def said(package, imports, before, after):
    code = EDIT.format(imports=imports, before=before, after=after)
    environment = os.environ | {"PYTHONPATH": f"{package}{os.pathsep}{ROOT}"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, cwd=package,
        check=False,
    )  # fmt: skip
    return done.stdout + done.stderr


@pytest.mark.parametrize(("imports", "before", "after"), [
    (f"{SOURCES}; {FLAT}", "", "environment('cpu')"),
    (VERSIONS, "", "own_versions()"),
    # The hash was taken in time, but this module comes from a file that is another one by now.
    (SOURCES, "sources()", f"import sys; sys.modules.pop('dpsgd.clipping.flat', None); {FLAT}; "
     "from dpsgd import as_imported; as_imported._LOADED.discard('dpsgd.clipping.flat'); "
     "environment('cpu')"),
])  # fmt: skip
def test_a_file_that_changed_since_the_import_is_not_taken_for_the_code(
    package, imports, before, after
):
    text = said(package, imports, before, after)
    assert "PrivacyError: dpsgd/clipping/flat.py changed after this process imported" in text
    assert "unseen" not in text


def test_who_only_imports_for_others_leaves_it_to_them_to_say_so(package):
    text = said(package, "", "", "import dpsgd.experiment.warm")
    assert text == "unseen\n"


def test_a_link_to_nothing_is_no_file_of_the_package(package):
    link = package / "dpsgd" / "clipping" / ".#flat.py"  # as Emacs locks what it edits
    link.symlink_to("nobody@nowhere.1")
    try:
        assert said(package, SOURCES, "sources()", "") == "unseen\n"
    finally:
        link.unlink()


def test_what_was_hashed_in_time_stays_what_it_was(package):
    after = "assert environment('cpu')['sources'] == old"
    assert said(package, f"{SOURCES}; {FLAT}", "old = sources()", after) == "unseen\n"
