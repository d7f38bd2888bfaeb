"""The privacy ledger: entries, everything that a reader needs, and the page that renders it."""

from dpsgd.experiment.ledger.attempt import check_same_release
from dpsgd.experiment.ledger.composed import composed_event
from dpsgd.experiment.ledger.content import LEDGER_VERSION, ledger_of
from dpsgd.experiment.ledger.page import ledger_page, shown_epsilon

__all__ = [
    "LEDGER_VERSION",
    "check_same_release",
    "composed_event",
    "ledger_of",
    "ledger_page",
    "shown_epsilon",
]
