"""What a model is built for, and what builds one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from torch import nn

from dpsgd.errors import ConfigError


@dataclass(frozen=True)
class DataShape:
    """The public facts about a data set that decide the shape of a model.

    Attributes:
        inputs: shape of one row; ``(T,)`` for rows of T token ids.
        classes: number of outputs; of task ``tokens`` the same as ``vocabulary``.
        vocabulary: number of token ids in the inputs, the last of which is padding; 0 for dense
            inputs.
        task: ``classes``, one label a row, or ``tokens``, one label a place.

    """

    inputs: tuple[int, ...]
    classes: int
    vocabulary: int
    task: Literal["classes", "tokens"]

    @property
    def padding(self) -> int:
        """The id of a place without a token; −1 for dense inputs."""
        return self.vocabulary - 1

    def need_dense(self, model: str) -> None:
        """Raise ConfigError, naming ``model``, unless rows are numbers with one label each."""
        if self.vocabulary or self.task != "classes":
            raise ConfigError("", model, "reads numbers, not token ids; use model=transformer")

    def need_tokens(self, model: str) -> None:
        """Raise ConfigError, naming ``model``, unless rows are T token ids."""
        if not self.vocabulary or len(self.inputs) != 1:
            raise ConfigError("", model, "reads token ids, not numbers; use data=text")


class ModelSource(Protocol):
    """Settings that build a model for data of one shape.

    A source may also define ``loss(outputs, targets) -> [rows]``, which takes the place of
    :func:`dpsgd.training.loss.cross_entropy`: outputs are those of the model it builds, and row
    i's loss must depend on row i alone.
    """

    @property
    def name(self) -> str:
        """The word that labels, tables and pictures use."""
        ...

    def build(self, shape: DataShape) -> nn.Module:
        """Return a module that maps ``[n, *shape.inputs]`` to logits.

        They are ``[n, classes]``, or ``[n, T, classes]`` of task ``tokens``. Raises ConfigError for
        data that the model cannot read.
        """
        ...
