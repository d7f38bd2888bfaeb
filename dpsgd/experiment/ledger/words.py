"""Sentences of the ledger that are the same for every run."""

from __future__ import annotations

from collections.abc import Mapping

SEEDED = (
    "Randomness is keyed by the seed: the guarantee is void against anyone who knows the seed. "
    "Research runs only."
)
SHARED = (
    "debug.common_noise: draws and noise are those of every such run of this seed. Two of them can "
    "be subtracted from each other, which leaves no noise: never release this run, and never "
    "compose it with others."
)
SEEDED_LOOP = (
    "Randomness is keyed by a seed: the guarantee is void against anyone who knows it, and two "
    "runs with one seed and one fingerprint on different data draw the same noise, which can be "
    "subtracted. Research runs only."
)
FROM_THE_SYSTEM = (
    "Randomness is keyed by 256 bits of the operating system that are kept nowhere. Coins, orders, "
    "choices and noise are drawn by ChaCha20 (randomgen), a cryptographic generator."
)
RELEASED = (
    "Randomness is keyed by 256 bits of the operating system. Coins, orders, choices and noise are "
    "drawn by ChaCha20 (randomgen), a cryptographic generator. The key is in the run's folder, in "
    "secret.key: the guarantee is void against anyone who has it. It repeats this run after a "
    "crash, and can be destroyed when the run has ended."
)
KEYING = (
    "Every stream (sampling, noise, dropout, evaluation) is SHAKE-256 of key, run key, purpose and "
    "step. Streams have a public id; two runs of one id share their noise and are never composed."
)
KEYING_RELEASED = (
    "Every stream is keyed by SHAKE-256 of that key, run key, purpose and step. Initial weights "
    "come from the seed, and are public. Masks of dropout and the intervals of public test results "
    "use other generators, keyed alike. Streams have a public id; two runs of one id share their "
    "noise and are never composed."
)
NEIGHBOURS = (
    "How records were chosen for that split (split by class, a thinned tail, the columns' "
    "vocabulary) is taken as given, not as private"
)
FLOATING_POINT = (
    "Noise is drawn in float32 or float64 by a Mersenne twister and Box-Muller; the accounting is "
    "that of exact real-valued Gaussians."
)
FLOATING_POINT_RELEASED = (
    "Noise is drawn in float64 by NumPy's ziggurat, each number the sum of four, halved, which "
    "hides what floating point leaves out of one (Holohan and Braghin 2021), and then rounded to "
    "the parameters' type. That hardens it, and is no proof: the accounting is that of exact "
    "real-valued Gaussians, and coins have 53 bits."
)
CONVERSION: Mapping[str, str] = {
    "pld": "hockey-stick divergence of the composed privacy loss distribution at δ, its losses "
    "rounded up to a grid (connect-the-dots), which never understates ε",
    "rdp": "the least over Rényi orders, by Proposition 12 of arXiv 2004.00010",
    "moments": "the least over Rényi orders of RDP(α) + ln(1/δ)/(α−1) (Mironov 2017)",
    "prv": "the upper end of the interval of the PRV accountant (Gopi et al. 2021)",
}
"""How each accountant comes from its own terms to (ε, δ)."""
