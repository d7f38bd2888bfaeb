"""A table of one's own: CSV or Parquet."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dpsgd.data.bundle import Bundle
from dpsgd.data.columns import Text, texts
from dpsgd.data.frames import read_frame
from dpsgd.data.source import Parts
from dpsgd.data.tabular import TabularSource
from dpsgd.errors import ConfigError


@dataclass(frozen=True)
class Table(TabularSource):
    """One file that is split, or a training file and a test file.

    ``names`` are the columns of files without a header; ``separator`` is what stands between the
    fields of a CSV.
    """

    path: str
    test_path: str | None
    names: tuple[Text, ...] | None
    separator: str

    def __post_init__(self) -> None:
        super().__post_init__()
        Parts(self.train, self.validation, test_given=self.test_path is not None)
        if self.names is not None:
            texts("names", self.names)
        if len(self.separator) != 1 or self.separator in '"\r\n':
            allowed = "must be one character, not a quote or a line end"
            raise ConfigError("separator", repr(self.separator), allowed)

    def load(self, cache: Path) -> Bundle:
        """Read, split, thin and encode. Raises ConfigError; nothing is put into ``cache``."""
        del cache
        names = None if self.names is None else texts("names", self.names)
        frame, notes = read_frame(self.path, "data.path", names, self.separator)
        frames = (frame,)
        if self.test_path is not None:
            test, more = read_frame(self.test_path, "data.test_path", names, self.separator)
            frames, notes = (frame, test), (*notes, *more)
        return self.bundle(frames, notes)
