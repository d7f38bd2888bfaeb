"""Accounting: what an event costs, and the noise or the steps that a budget allows."""

from dpsgd.accounting.accountant import Accountant, Relation, check_certified, neighbouring_relation
from dpsgd.accounting.calibration import largest_steps
from dpsgd.accounting.delta import check_delta, default_delta
from dpsgd.accounting.describe import format_delta, format_epsilon, neighbours_text, unit_text
from dpsgd.accounting.estimates import ESTIMATES, estimates
from dpsgd.accounting.events import joint_multiplier, no_privacy, poisson_gaussian
from dpsgd.accounting.library import DpEvent
from dpsgd.accounting.moments import Moments
from dpsgd.accounting.pld import PLD
from dpsgd.accounting.profile import privacy_profile
from dpsgd.accounting.prv import PRV
from dpsgd.accounting.rdp import RDP
from dpsgd.accounting.tuning import best_of_random, every_run

__all__ = [
    "ESTIMATES",
    "PLD",
    "PRV",
    "RDP",
    "Accountant",
    "DpEvent",
    "Moments",
    "Relation",
    "best_of_random",
    "check_certified",
    "check_delta",
    "default_delta",
    "estimates",
    "every_run",
    "format_delta",
    "format_epsilon",
    "joint_multiplier",
    "largest_steps",
    "neighbouring_relation",
    "neighbours_text",
    "no_privacy",
    "poisson_gaussian",
    "privacy_profile",
    "unit_text",
]
