import os
from pathlib import Path

import pytest

# Before torch is imported: two workers with two threads each would wait for one another.
os.environ.setdefault("OMP_NUM_THREADS", "1")

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory):
    """A cache of these tests alone, which all workers share: what one solved is solved."""
    base = tmp_path_factory.getbasetemp()
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "cache"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(shared))
        patch.setenv("DPSGD_CACHE", str(shared / "solved"))
        yield
