"""Clipping rules: one rule a file, all under the contract of :class:`ClipRule`."""

from dpsgd.clipping.envelope import envelope
from dpsgd.clipping.groups import Groups
from dpsgd.clipping.rule import ClipRule, Info, State

__all__ = ["ClipRule", "Groups", "Info", "State", "envelope"]
