"""What an accountant answered before, on disk: safe to delete, shared by cells and processes."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import attr
import numpy as np
from numpy.typing import NDArray

from dpsgd import accounting
from dpsgd.accounting import Accountant, DpEvent, Relation, privacy_profile
from dpsgd.accounting.calibration import SolvesNoise, solve_noise
from dpsgd.as_imported import check_files
from dpsgd.experiment.files import read_json, write_json
from dpsgd.experiment.installed import version_of
from dpsgd.experiment.own_code import own_code, targets_in
from dpsgd.experiment.parts import plain

LIBRARIES = ("dp-accounting", "prv-accountant", "numpy", "scipy")
CACHE_VARIABLE = "DPSGD_CACHE"
"""The environment variable that names one folder of answers for all runs folders."""


def cache_of(runs: Path) -> Path:
    """Return where accountants' answers about the cells of ``runs`` are: the folder that
    ``DPSGD_CACHE`` names, else ``.cache`` in ``runs``.
    """
    named = os.environ.get(CACHE_VARIABLE)
    return Path(named) if named else runs / ".cache"


@dataclass(frozen=True)
class Remembered:
    """An accountant that looks into ``cache``, a folder, before it computes.

    An answer is used only for the very question: the event with every float in full, the
    accountant's class and settings (its grid among them), relation, δ, target, the versions of the
    libraries and the code of this project's accountants. About events that cannot be told apart
    from every other one nothing is kept. A file that is torn, edited or another
    question's is written anew; a folder that cannot be written is done without.
    """

    certifies: ClassVar[bool] = True
    accountant: Accountant
    cache: Path

    @property
    def name(self) -> str:
        """The accountant's own name."""
        return self.accountant.name

    def epsilon(self, event: DpEvent, relation: Relation, delta: float) -> float:
        """Return the accountant's ε; raises what it raises, and keeps no refusal."""
        return self._answer(
            lambda: {"epsilon of": described(event), "relation": relation, "delta": _number(delta)},
            lambda: self.accountant.epsilon(event, relation, delta),
        )

    def calibrate(
        self,
        make_event: Callable[[float], DpEvent],
        relation: Relation,
        epsilon: float,
        delta: float,
    ) -> float:
        """Return the σ that spends ``epsilon``.

        The caller still asks for its ε, which was evaluated when it was solved: a σ that belongs to
        another question cannot overspend.
        """
        return self._answer(
            lambda: {
                "sigma of": [described(make_event(sigma)) for sigma in (1.0, 2.0)],
                "relation": relation, "delta": _number(delta), "target": _number(epsilon),
            },
            lambda: self._solve(make_event, relation, epsilon, delta),
        )  # fmt: skip

    def _solve(
        self,
        make_event: Callable[[float], DpEvent],
        relation: Relation,
        epsilon: float,
        delta: float,
    ) -> float:
        inner = self.accountant
        if isinstance(inner, SolvesNoise):  # by way of this object, which keeps every ε it meets
            return solve_noise(self, make_event, relation, epsilon, delta, inner.excess)
        return inner.calibrate(make_event, relation, epsilon, delta)

    def _answer(self, ask: Callable[[], dict[str, Any]], compute: Callable[[], float]) -> float:
        def question() -> dict[str, Any]:
            return {**ask(), "accountant": described(plain(self.accountant)), **_code(self)}

        return _answers(self.cache, question, lambda: [compute()])[0]


def remembered_profile(
    cache: Path, event: DpEvent, relation: Relation, epsilons: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return :func:`dpsgd.accounting.privacy_profile`, which runs that differ in their seed share,
    from ``cache`` as :class:`Remembered` does.
    """
    found = _answers(
        cache,
        lambda: {
            "profile of": described(event), "relation": relation, "epsilons": described(epsilons),
            "code": own_versions(),
        },
        lambda: privacy_profile(event, relation, epsilons).tolist(),
    )  # fmt: skip
    return np.array(found)


def _answers(
    cache: Path, ask: Callable[[], dict[str, Any]], compute: Callable[[], list[float]]
) -> list[float]:
    """Return the numbers that answer a question: from ``cache``, or computed and kept there."""
    try:
        question = ask()
    except UndescribedError:
        return compute()  # an event or accountant of the user's own: nothing is kept
    text = json.dumps(question, sort_keys=True)
    file = cache / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.json"
    stored = _read(file)
    if isinstance(stored, dict) and stored.get("question") == question:
        answer = stored.get("answer")
        if isinstance(answer, str) and stored.get("check") == _check(text, answer):
            return [float.fromhex(number) for number in answer.split()]
    found = compute()
    answer = " ".join(map(_number, found))
    with suppress(OSError):  # read-only or full: nothing depends on it
        write_json(file, {"question": question, "answer": answer, "check": _check(text, answer)})
    return found


class UndescribedError(TypeError):
    """A value that cannot be told from every other one, so that no answer about it is kept."""


def described(value: Any) -> Any:
    """Return events, settings and numbers as JSON that no two different ones share.

    Raises UndescribedError for an object whose class does not itself say what its fields are.
    """
    names = _fields(type(value))
    if names is not None:
        inner = {name: described(getattr(value, name)) for name in names}
        return {"class": f"{type(value).__module__}.{type(value).__qualname__}", "fields": inner}
    if isinstance(value, Mapping):
        return {"mapping": {str(name): described(inner) for name, inner in value.items()}}
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [described(inner) for inner in value]
    if isinstance(value, float):
        return _number(value)
    if value is None or isinstance(value, str | int | bool):
        return value
    raise UndescribedError(f"{type(value).__qualname__}: what it consists of is not known")


def _fields(kind: type) -> list[str] | None:
    """Return the fields of a class that declares them, its parents' included; else None.

    A class that inherits from one with declared fields and declares none may hold anything.
    """
    own = vars(kind)
    if "__attrs_attrs__" not in own and "__dataclass_fields__" not in own:
        return None
    found = dict.fromkeys(attr.fields_dict(kind)) if attr.has(kind) else {}
    if dataclasses.is_dataclass(kind):
        found |= dict.fromkeys(field.name for field in dataclasses.fields(kind))
    return list(found)


def _number(value: float) -> str:
    """Return a float in full, infinities too, which JSON has no word for."""
    return float(value).hex()


def _read(file: Path) -> Any:
    try:
        return read_json(file)
    except OSError:
        return None


def _check(question: str, answer: str) -> str:
    return hashlib.sha256(f"{question}\n{answer}".encode()).hexdigest()


def _code(remembered: Remembered) -> dict[str, Any]:
    """Return the versions of all code that an answer depends on."""
    return {"code": {**own_versions(), **own_code(targets_in(plain(remembered.accountant)))}}


@functools.cache
def own_versions() -> dict[str, str]:
    """Return the versions of accountants' libraries, and a hash of the code that asks them. Raises
    PrivacyError if the package's files changed since it was imported.
    """
    folder = Path(accounting.__file__).parent
    digest = hashlib.sha256()
    for file in sorted(file for file in folder.glob("*.py") if file.is_file()):
        digest.update(file.name.encode() + file.read_bytes())
    check_files()
    libraries = {name: version_of(name) for name in LIBRARIES}
    return {**libraries, "dpsgd.accounting": digest.hexdigest()}
