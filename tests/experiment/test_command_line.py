"""The order of words on the command line."""

import pytest

from dpsgd.run import options_first


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
    assert options_first(given) == ordered
