"""Samplers, which own amplification: who draws also states the event."""

from dpsgd.sampling.capped_users import CappedUsers, CappedUsersSampler
from dpsgd.sampling.full import Full, FullSampler
from dpsgd.sampling.poisson import Poisson, PoissonSampler
from dpsgd.sampling.sampler import Draw, DrawAt, Owners, Sampler, Sampling
from dpsgd.sampling.schemes import event_of
from dpsgd.sampling.shuffled import Shuffled, ShuffledSampler
from dpsgd.sampling.truncated import TruncatedPoisson, TruncatedPoissonSampler

__all__ = [
    "CappedUsers",
    "CappedUsersSampler",
    "Draw",
    "DrawAt",
    "Full",
    "FullSampler",
    "Owners",
    "Poisson",
    "PoissonSampler",
    "Sampler",
    "Sampling",
    "Shuffled",
    "ShuffledSampler",
    "TruncatedPoisson",
    "TruncatedPoissonSampler",
    "event_of",
]
