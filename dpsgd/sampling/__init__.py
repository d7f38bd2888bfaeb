"""Samplers, which own amplification: who draws also states the event."""

from dpsgd.sampling.poisson import Poisson, PoissonSampler
from dpsgd.sampling.sampler import Draw, Sampler

__all__ = ["Draw", "Poisson", "PoissonSampler", "Sampler"]
