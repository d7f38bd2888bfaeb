"""The fall from the baseline, split into what clipping did, what noise did, and their interaction.

With v the value of a metric under the four mechanisms, paired by rule, C, settings and seed:
clipping = neither − clip_only, noise = neither − noise_only, and interaction is what is left of the
fall, neither − private, so that the three add up to it. A fall below zero is a gain.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

EFFECTS = ("clipping", "noise", "interaction")
FALL = "fall"
_CLIP, _NOISE = "clip_only", "noise_only"


def partners(table: pd.DataFrame, named: pd.DataFrame) -> pd.DataFrame:
    """Return the private cells with the run keys of their diagnostics.

    Columns: ``run_key``, ``condition``, ``replicate``, ``clip_only``, ``noise_only``, ``neither``
    (the baseline of the seed). Missing where such a cell is not in the table. A diagnostic belongs
    to a private cell if rule, C, seed and settings agree; of noise_only the ε that its σ was solved
    for has to agree too, which clip_only does not use.
    """
    cells = named.merge(_budgets(table), on="run_key").assign(
        settings=[_comparable(words) for words in named["settings"]]
    )
    private = cells.loc[cells["part"] == "private", :]
    by = ["rule", "clip_norm", "settings", "replicate"]
    found = private[["run_key", "condition", "baseline_key", "budget", *by]]
    for mechanism, also in ((_CLIP, []), (_NOISE, ["budget"])):
        own = cells.loc[cells["mechanism"] == mechanism, [*by, "budget", "run_key"]]
        own = own.drop_duplicates([*by, *also])[[*by, *also, "run_key"]]
        found = found.merge(own.rename(columns={"run_key": mechanism}), on=[*by, *also], how="left")
    known = found["baseline_key"].isin(set(cells["run_key"]))
    found = found.assign(neither=found["baseline_key"].where(known))
    return found[["run_key", "condition", "replicate", _CLIP, _NOISE, "neither"]]


def effects(values: pd.DataFrame, pairs: pd.DataFrame) -> dict[str, np.ndarray]:
    """Return fall, clipping, noise and interaction as ``[private cells, columns]``.

    ``values`` is ``[runs, columns]`` by run key. NaN where one of the cells it needs is missing or
    has no value.
    """
    private = values.reindex(pairs["run_key"]).to_numpy(float)
    clip_only, noise_only, neither = (
        values.reindex(pairs[name]).to_numpy(float) for name in (_CLIP, _NOISE, "neither")
    )
    fall, clipping, noise = neither - private, neither - clip_only, neither - noise_only
    return {
        FALL: fall,
        "clipping": clipping,
        "noise": noise,
        "interaction": fall - clipping - noise,
    }


def _budgets(table: pd.DataFrame) -> pd.DataFrame:
    """Return ``baseline_key`` and the ε or σ that a run was asked for."""
    cells = table.drop_duplicates("run_key")
    asked = cells["epsilon_target"].astype("float64")
    stated = asked.where(asked.notna(), cells["noise_multiplier"])
    return pd.DataFrame(
        {"run_key": cells["run_key"], "baseline_key": cells["baseline_key"], "budget": stated}
    )


def _comparable(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the settings without those that belong to the mechanism or the budget."""
    return tuple(
        word
        for word in words
        if not word.startswith(("mechanism=", "epsilon=", "noise_multiplier=", "delta=", "run="))
    )
