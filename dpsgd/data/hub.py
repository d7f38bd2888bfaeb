"""Any data set of the Hugging Face ``datasets`` library: images or columns."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from dpsgd.data.bundle import Bundle
from dpsgd.data.columns import Text
from dpsgd.data.frames import Frame, frame_of_arrow
from dpsgd.data.pixels import PIXELS, channels_first
from dpsgd.data.source import Parts
from dpsgd.data.tabular import TabularSource
from dpsgd.errors import ConfigError

_FILES = {".csv": "csv", ".parquet": "parquet", ".json": "json", ".jsonl": "json"}


@dataclass(frozen=True)
class Hub(TabularSource):
    """A data set by its name on the Hub, or a local file, folder or saved data set.

    ``train_split`` and ``test_split`` are names or slices (``train[:10%]``) as ``load_dataset``
    takes them; without ``test_split`` the training split is split as a table is. ``image`` is a
    column of images; without it ``numeric`` and ``categorical`` columns are encoded as a table's.
    ``mode`` L or RGB and ``size`` (height, width) make images alike where they are not. Class names
    that the data set declares are taken as they are.
    """

    path: str
    subset: str | None
    revision: str | None
    train_split: str
    test_split: str | None
    image: Text | None
    mode: Literal["L", "RGB"] | None
    size: tuple[int, int] | None

    def __post_init__(self) -> None:
        super().__post_init__()
        Parts(self.train, self.validation, test_given=self.test_split is not None)
        if self.image is not None:
            for key in ("numeric", "categorical"):
                if getattr(self.columns, key):
                    allowed = "must be null beside image, which is the input"
                    raise ConfigError(key, ", ".join(getattr(self.columns, key)), allowed)
        if self.size is not None and min(self.size) < 1:
            raise ConfigError("size", list(self.size), "must be [height, width], at least 1 each")

    def load(self, cache: Path) -> Bundle:
        """Load, split, thin and encode; ``datasets`` keeps its own cache, not ``cache``.

        Raises ConfigError, also for whatever ``datasets`` raises.
        """
        del cache
        named = [("data.train_split", self.train_split)]
        named += [("data.test_split", self.test_split)] if self.test_split is not None else []
        tables = [self._table(key, str(split)) for key, split in named]
        frames = tuple(
            self._frame(table, split) for table, (_, split) in zip(tables, named, strict=True)
        )
        feature = tables[0].features[self.columns.label]
        declared = tuple(feature.names) if hasattr(feature, "names") else None
        if self.image is None:
            return self.bundle(frames, (), declared)
        pixels = [
            self._pixels(table, frame.source) for table, frame in zip(tables, frames, strict=True)
        ]
        shapes = [images.shape[1:] for images in pixels]
        if len(set(shapes)) > 1:
            raise self._unlike(f"images of {frames[1].source} are {shapes[1]}, not {shapes[0]}")
        return self.bundle(frames, (PIXELS,), declared, np.concatenate(pixels))

    def _table(self, key: str, split: str) -> Any:
        if self.path == "???":
            allowed = "is required: a name on the Hub, or the path of a file or folder"
            raise ConfigError("data.path", self.path, allowed)
        try:
            datasets: Any = importlib.import_module("datasets")
        except ImportError:
            allowed = "needs the package datasets: pip install 'clipping-atlas[hub]'"
            raise ConfigError("data.path", self.path, allowed) from None
        try:
            return _loaded(datasets, self.path, self.subset, self.revision, split)
        # Builders and the network raise errors of every class.
        except Exception as error:
            why = str(error).strip() or type(error).__name__
            if "Unknown split" in why or "instruction" in why:
                raise ConfigError(key, split, why) from error
            if "BuilderConfig" in why or "Config name is missing" in why:
                raise ConfigError("data.subset", self.subset, why) from error
            raise ConfigError("data.path", self.path, f"datasets cannot load it: {why}") from error

    def _frame(self, table: Any, split: str | None) -> Frame:
        source = f"{self.path} {split}"
        names = Frame(source, pd.DataFrame(columns=table.column_names))
        roles = [(f"data.{key}", column) for key, column in self.columns.roles()]
        roles += [("data.image", str(self.image))] if self.image is not None else []
        for key, column in roles:
            names.require(key, column)
        wanted = list(dict.fromkeys(column for _, column in self.columns.roles()))
        columns = frame_of_arrow(table.select_columns(wanted).with_format("arrow")[:])
        for column in wanted:
            feature = table.features[column]
            if hasattr(feature, "names"):
                # −1 is how a label is withheld.
                words = pd.Series([*feature.names, None], dtype=object)
                codes = columns[column].fillna(-1).to_numpy(np.int64)
                columns[column] = words.to_numpy()[codes]
        return Frame(source, columns)

    def _pixels(self, table: Any, source: str) -> np.ndarray:
        column = str(self.image)
        kind = type(table.features[column]).__name__
        if kind != "Image":
            allowed = f"must be a column of images; {source} has {kind} there"
            raise ConfigError("data.image", column, allowed)
        arrays: list[np.ndarray] = []
        for i, image in enumerate(table.select_columns([column])[:][column]):
            if image is None:
                raise ConfigError("data.image", column, f"row {i + 1} of {source} has no image")
            converted = image if self.mode is None else image.convert(self.mode)
            if self.size is not None:
                converted = converted.resize((self.size[1], self.size[0]))
            if converted.mode not in ("L", "RGB", "RGBA"):
                allowed = f"row {i + 1} of {source} has mode {image.mode}; choose L or RGB"
                raise ConfigError("data.mode", self.mode, allowed)
            arrays.append(np.asarray(converted))
            if arrays[i].shape != arrays[0].shape:
                shapes = f"{arrays[i].shape}, not {arrays[0].shape}"
                raise self._unlike(f"the image in row {i + 1} of {source} is {shapes}")
        return channels_first(np.stack(arrays), "data.image", source)

    def _unlike(self, why: str) -> ConfigError:
        hint = "data.size=[height, width] resizes them, data.mode=L or RGB makes channels alike"
        return ConfigError("data.size", self.size, why, hint)


def _loaded(datasets: Any, path: str, subset: str | None, revision: str | None, split: str) -> Any:
    """Return one split as a ``datasets.Dataset``."""
    local = Path(path).expanduser()
    if local.is_file():
        builder = _FILES.get(local.suffix.lower() if local.suffix != ".gz" else local.suffixes[-2])
        if builder is None:
            raise ValueError(f"a file must be one of {', '.join(_FILES)}")
        files = {"train": str(local)}
        return datasets.load_dataset(builder, data_files=files, split=split)
    saved = ("state.json", "dataset_dict.json")
    if any((local / name).is_file() for name in saved):
        found = datasets.load_from_disk(str(local))
        if not isinstance(found, dict):
            found = {"train": found}
        if split not in found:
            raise ValueError(f"Unknown split {split!r}. Should be one of {', '.join(found)}.")
        return found[split]
    name = str(local) if local.exists() else path
    return datasets.load_dataset(name, name=subset, revision=revision, split=split)
