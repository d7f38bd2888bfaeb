"""Where the threshold C does nothing, so that runs with another C are the same run again.

A rule whose weights are in proportion to C sends C times one and the same sum, with noise in
proportion to C; ``lr_scale=by_norm`` divides by C, and nothing of it is left.
"""

from __future__ import annotations

import pandas as pd

IN_PROPORTION = ("automatic", "global", "nsgd", "psac")
"""The rules of the project with weights C·f(n)."""

_OWN = "dpsgd.clipping."


def norm_is_idle(runs: pd.DataFrame) -> bool:
    """Say whether C does nothing in any of these runs: rows with ``rule``, ``lr_scale`` and, where
    it is known, ``config.clip._target_``, as another's rule may bear the same name.
    """
    idle = runs["rule"].isin(list(IN_PROPORTION)) & (runs["lr_scale"] == "by_norm")
    if "config.clip._target_" in runs:
        targets = runs["config.clip._target_"].astype("string")
        idle &= targets.isna() | targets.str.startswith(_OWN).fillna(value=False)
    return bool(idle.fillna(value=False).all())
