"""These tests need the extra ``bench``. Without it they are not collected: ``pytest`` runs the
others, and ``pytest tests/bench`` fails because it finds none.
"""

from importlib.util import find_spec

MISSING = find_spec("opacus") is None
collect_ignore_glob = ["test_*.py"] if MISSING else []


def pytest_report_header():
    if MISSING:
        return "tests/bench: not collected, Opacus is missing; pip install -e '.[bench]'"
    return None
