from __future__ import annotations

import pytest
from planted_files import SETTINGS, load, people, write


@pytest.fixture
def table(tmp_path):
    """Load the planted people with some settings, or other lines, changed."""

    def read(lines=None, **changes):
        path = write(tmp_path / "people.csv", people() if lines is None else lines)
        return load("table", tmp_path, **{"path": path, **SETTINGS, **changes})

    return read
