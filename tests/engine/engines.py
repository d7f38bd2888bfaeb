"""Both engines by name, with any setting changed."""

from dpsgd.engine import Bookkeeping, Materialised

KINDS = {"bookkeeping": Bookkeeping, "materialised": Materialised}
SETTINGS = {"micro_batch": None, "memory_gb": 4.0, "autocast": None, "non_finite": "stop"}


def engine(name, **changed):
    return KINDS[name](name=name, **SETTINGS | changed)


def fast(**changed):
    return engine("bookkeeping", **changed)


def slow(**changed):
    return engine("materialised", **changed)
