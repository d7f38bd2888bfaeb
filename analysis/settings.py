"""Which settings tell cells apart, said as ``key=value``, and to which cells a setting matters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

_FAMILY_GROUPS = ("data", "model", "slices", "users")
_NOT_SETTINGS = (
    *("config.runs_dir", "config.tracker", "config.hydra", "config.sweep"),
    "config.seed",
)
_IN_TITLE = ("config.clip.name", "config.clip.norm", "config.epsilon", "config.mechanism")
_OF_NOISE = ("config.epsilon", "config.noise_multiplier", "config.delta")
_BESIDES = (
    *("data", "model", "data_seed", "n_units", "unit", "unit_name", "relation", "delta"),
    *("accountant", "batch", "steps_planned", "lr", "lr_scale", "telemetry"),
)
"""What a cell states besides its configuration, from which it mostly follows."""


@dataclass(frozen=True)
class Setting:
    """A setting that differs between cells.

    ``codes`` and ``words`` have one entry a cell. Codes are in the order of the values, and −1
    where nothing is told, as where the setting cannot matter; words are ``key=value`` or empty.
    """

    key: str
    codes: np.ndarray
    words: tuple[str, ...]

    @property
    def of_family(self) -> bool:
        """Whether it says what is learned from what: data, model, slices, owners."""
        return self.key.split(".")[0] in (*_FAMILY_GROUPS, "data_seed", "n_units")

    @property
    def of_rule(self) -> bool:
        """Whether it is one of the clipping rule's own."""
        return self.key.startswith("clip.")


def differing(cells: pd.DataFrame, identity: Sequence[str]) -> list[Setting]:
    """Return every setting that differs between runs; ``cells`` has one row for each.

    A setting that differs is told for every run to which it can matter. Only between runs that are
    equal otherwise are told: what the titles of rows say (``identity``), classes of parts, settings
    that cannot matter, and values that follow from settings, such as δ. The seed is no setting.
    Where all baselines agree and all other runs agree, see ``of_baselines``.
    """
    found: list[Setting] = []
    closed: list[str] = []
    for name in _config_keys(cells):
        if name in _IN_TITLE or name.endswith("_target_"):
            closed.append(name)
            continue
        applies = _applies(cells, name)
        if not applies.all():
            closed.append(name)
        if any(cells.loc[applies & part, name].nunique(dropna=False) > 1 for part in _parts(cells)):
            found.append(_setting(cells, name, applies))
    group = _numbers([cells.groupby(list(identity), dropna=False, sort=False).ngroup().to_numpy(),
                      *(setting.codes for setting in found)])  # fmt: skip
    for name in [*closed, *(name for name in _BESIDES if name in cells)]:
        values = pd.Series(_codes(cells, name), cells.index)
        differs = pd.Series(values.groupby(group).transform("nunique")).gt(1)
        if differs.any():
            found.append(_setting(cells, name, differs))
            group = _numbers([group, found[-1].codes])
    return found


def of_baselines(cells: pd.DataFrame) -> list[tuple[str, str]]:
    """Return (of the baselines, of the others) as ``key=value``, where each agree but not both."""
    baseline, other = _parts(cells)
    if not baseline.any() or not other.any():
        return []
    pairs: list[tuple[str, str]] = []
    for name in _config_keys(cells):
        if name in _IN_TITLE or name.endswith("_target_"):
            continue
        applies = _applies(cells, name)
        one, two = (cells.loc[part & applies, name].drop_duplicates() for part in (baseline, other))
        if len(one) == len(two) == 1:
            words = (_word(name, one.iloc[0]), _word(name, two.iloc[0]))
            if words[0] != words[1]:
                pairs.append(words)
    return pairs


def _parts(cells: pd.DataFrame) -> tuple[pd.Series, pd.Series]:
    baseline = pd.Series(cells["part"] == "baseline")
    return baseline, pd.Series(~baseline)


def _applies(cells: pd.DataFrame, name: str) -> pd.Series:
    """Say for which runs a setting can matter: not where no run with the same part states it."""
    everywhere = pd.Series(data=True, index=cells.index)
    if name == "config.data.class" and "config.data.profile" in cells:
        profile = pd.Series(cells["config.data.profile"]).fillna("")
        return pd.Series(profile != "exponential").astype(bool)
    if name in _OF_NOISE:
        return pd.Series(cells["mechanism"] != "neither")
    place = name.split(".")
    if len(place) <= 2:  # a root key, not one of a group
        return everywhere
    option = "rule" if place[1] == "clip" else f"config.{place[1]}.name"
    by = cells.get(option, everywhere)
    return pd.Series(cells[name].notna().groupby(by, dropna=False).transform("any"))


def _setting(cells: pd.DataFrame, name: str, told: pd.Series) -> Setting:
    codes = np.where(told, _codes(cells, name), -1)
    values = zip(cells[name], told, strict=True)
    return Setting(_key(name), codes, tuple(_word(name, v) if say else "" for v, say in values))


def _codes(cells: pd.DataFrame, name: str) -> np.ndarray:
    return pd.factorize(cells[name], sort=True, use_na_sentinel=False)[0]


def _numbers(columns: Sequence[np.ndarray]) -> np.ndarray:
    frame = pd.DataFrame(dict(enumerate(columns)))
    return frame.groupby(list(frame.columns), sort=False).ngroup().to_numpy()


def _config_keys(cells: pd.DataFrame) -> Iterator[str]:
    for name in sorted(map(str, cells)):
        of_config = name.startswith("config.") and not name.startswith(_NOT_SETTINGS)
        if of_config or name == "result_version":
            yield name


def _key(name: str) -> str:
    """Return a setting as it is written on the command line; an option by its group."""
    key = name.removeprefix("config.")
    return key.removesuffix(".name") if key.count(".") == 1 else key


def _word(name: str, value: object) -> str:
    if pd.isna(value):  # pyright: ignore[reportGeneralTypeIssues]
        return f"{_key(name)}=null"
    return f"{_key(name)}={value:.12g}" if isinstance(value, float) else f"{_key(name)}={value}"
