"""Does a run's ledger hold? Its numbers again, and every file that says the same thing."""

from dpsgd.experiment.verify.finding import Findings, Mismatch
from dpsgd.experiment.verify.run import Verdict, read_ledger, verify

__all__ = ["Findings", "Mismatch", "Verdict", "read_ledger", "verify"]
