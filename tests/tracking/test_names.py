import posixpath

import pytest
from tracked_runs import cell

from dpsgd.experiment.mlflow_names import legal_name, legal_names, metrics_of
from dpsgd.experiment.track.address import without_password


def test_null_metrics_are_not_numbers_and_names_say_split_and_slice():
    found = metrics_of(cell())
    assert found["eval/recall/label/8/x"] == 0.5
    assert found["validation/nll/label/9"] == 0.7
    assert found["kept/label/8/x"] == 0.25
    assert found["privacy/delta"] == 1e-4
    assert found["tail/worst"] == 0.3
    assert "eval/recall/label/9" not in found
    assert "eval/recall/label/7" not in found


@pytest.mark.parametrize(
    "name", ["a(b)[c],@%#=+&|", "a//b", "x" * 400, "/lead", "a/../b", "..", "a/"]
)
def test_names_are_made_legal(name):
    legal = legal_name(name)
    assert not set("()[],@%#=+&|") & set(legal)
    assert "//" not in legal
    assert posixpath.normpath(legal) == legal
    assert not legal.startswith(("/", ".."))
    assert len(legal) <= 250


def test_different_names_stay_different():
    names = ["k/a+b", "k/a_b", "k/a=b", "K/a_b", "x" * 400, "x" * 401, "plain"]
    legal = legal_names(names)
    assert len({v.casefold() for v in legal.values()}) == len(names)
    assert legal["plain"] == "plain"


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("postgresql://me:geheim@db:5432/x", "postgresql://me:***@db:5432/x"),
        ("https://me:ge@heim@host/p?q=1", "https://me:***@host/p?q=1"),
        ("https://host:5000", "https://host:5000"),
        ("sqlite:////a/b.db", "sqlite:////a/b.db"),
    ],
)
def test_no_password_is_ever_shown(uri, shown):
    assert without_password(uri) == shown
