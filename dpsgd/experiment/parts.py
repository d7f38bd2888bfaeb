"""From a configuration node to a typed, frozen part: the one place where settings are checked."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import pydantic
import yaml

from dpsgd.errors import ConfigError, did_you_mean
from dpsgd.experiment.options import config_folder
from dpsgd.experiment.own_code import note

T = TypeVar("T")
OF_ANOTHER_OPTION = (
    "the keys of the option that was chosen before stay when its _target_ is changed; give a part "
    "of your own a yaml in a folder of your own (--config-dir, see docs/tutorial.md)"
)
_UNIONS = (typing.Union, types.UnionType)
_KINDS = {
    "int_": "a whole number", "float_": "a number", "bool_": "true or false",
    "string_": "a word or a text", "sequence_": "a list, [value, value]",
    "dict_": "a mapping, {name: value}", "mapping_": "a mapping, {name: value}",
}  # fmt: skip
"""What a value must be, by how pydantic's name of the error begins."""
_SCALARS = (str, int, float, type(None))


def build_part(node: Mapping[str, Any], key: str) -> Any:
    """Build the frozen dataclass that ``node['_target_']`` names, at configuration key ``key``.

    Every field without a default must be there and no other; types are coerced where nothing is
    lost (1 to 1.0) and
    refused otherwise. Raises ConfigError whose first line names key, value and what is allowed.
    """
    if not isinstance(node, Mapping) or "_target_" not in node:
        raise ConfigError(key, node, "must be one of the options in this group, with a _target_")
    target = str(node["_target_"])
    values = {name: value for name, value in node.items() if name != "_target_"}
    return build_as(_locate(target, f"{key}._target_"), values, key)


def make_ready() -> None:
    """Import the class of every option in ``conf`` and make what checks its settings, which the
    first that is built would wait for.
    """
    for file in sorted(config_folder("conf").glob("*/*.yaml")):
        node = yaml.safe_load(file.read_text(encoding="utf-8"))
        if isinstance(node, Mapping) and "_target_" in node:
            declared = _declared(_locate(str(node["_target_"]), file.stem))
            for name in declared.fields.values():
                _ = declared.types[name].adapter


def default_part(group: str, option: str) -> Any:
    """Build an option as its yaml in ``conf`` has it, without Hydra: for what nobody chose."""
    file = config_folder("conf") / group / f"{option}.yaml"
    return build_part(yaml.safe_load(file.read_text(encoding="utf-8")), group)


def build_as(cls: type[T], values: Mapping[str, Any], key: str) -> T:
    """Build ``cls`` from ``values``; see :func:`build_part`."""
    declared = _declared(cls)
    fields = declared.fields
    for name, value in values.items():
        if name not in fields:
            raise ConfigError(
                _join(key, name), value,
                f"no such key{did_you_mean(name, fields)}; allowed are {', '.join(fields)}",
                "" if cls.__module__.startswith("dpsgd.") else OF_ANOTHER_OPTION,
            )  # fmt: skip
    missing = [name for name in declared.required if name not in values]
    if missing:
        raise ConfigError(_join(key, missing[0]), None, "this key is required")
    typed: dict[str, Any] = {}
    for name, value in values.items():
        field, inner = fields[name], _join(key, name)
        typed[field] = _coerce(declared.types[field], _nested(value, inner), inner)
    try:
        return cls(**typed)
    except ConfigError as error:
        raise error.under(key) from None


def _has_default(field: dataclasses.Field[Any]) -> bool:
    return (
        field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
    )


def _nested(value: Any, key: str) -> Any:
    """Build the parts inside ``value``, which may hold others at any depth."""
    if isinstance(value, Mapping):
        if "_target_" in value:
            return build_part(typing.cast(Mapping[str, Any], value), key)
        return {name: _nested(inner, _join(key, str(name))) for name, inner in value.items()}
    return value


class _Typed:
    """The type of a field, and what checks it: made once, which costs more than a check."""

    def __init__(self, hint: Any) -> None:
        self.hint = hint

    @functools.cached_property
    def origins(self) -> dict[Any, tuple[Any, ...]]:
        hint = self.hint
        options = typing.get_args(hint) if typing.get_origin(hint) in _UNIONS else (hint,)
        return {typing.get_origin(option): typing.get_args(option) for option in options}

    @functools.cached_property
    def words(self) -> list[str]:
        """The words that are allowed, where a field takes a few of them only."""
        listed = self.origins.get(typing.Literal, ())
        return [word for word in listed if isinstance(word, str)]

    @functools.cached_property
    def adapter(self) -> pydantic.TypeAdapter[Any]:
        return pydantic.TypeAdapter(
            self.hint, config=pydantic.ConfigDict(arbitrary_types_allowed=True)
        )


@dataclasses.dataclass(frozen=True)
class _Declared:
    """What a class says of its fields. ``fields``: as configured, to their names in Python."""

    fields: dict[str, str]
    required: tuple[str, ...]
    types: dict[str, _Typed]


@functools.cache
def _declared(cls: type) -> _Declared:
    fields = dataclasses.fields(typing.cast(Any, cls))
    # A trailing underscore lets a field be called what Python reserves: `class`.
    names = {field.name.rstrip("_"): field.name for field in fields}
    # Parts of this project have no defaults; those of a user may.
    required = tuple(field.name.rstrip("_") for field in fields if not _has_default(field))
    types = {name: _Typed(hint) for name, hint in typing.get_type_hints(cls).items()}
    return _Declared(names, required, types)


def _coerce(typed: _Typed, value: Any, key: str) -> Any:
    if not isinstance(value, _SCALARS) and _holds_parts(value):
        return value
    value = _fitted(typed.origins, value)
    if isinstance(value, bool) and typed.hint in (int, float, int | None, float | None):
        raise ConfigError(key, value, "must be a number")
    try:
        return typed.adapter.validate_python(value)
    except pydantic.ValidationError as error:
        first, *others = error.errors()
        inner = ".".join(str(p) for p in first["loc"] if isinstance(p, str) and "[" not in p)
        where = inner if inner and isinstance(value, Mapping) else ""
        # Of a field that may be one of several kinds: each of these.
        told = dict.fromkeys(map(_in_words, [first] if where else [first, *others]))
        must = "must each be" if any(isinstance(p, int) for p in first["loc"]) else "must be"
        meant = did_you_mean(str(value), typed.words) if isinstance(value, str) else ""
        raise ConfigError(_join(key, where), value, f"{must} {' or '.join(told)}{meant}") from None


def _in_words(error: Mapping[str, Any]) -> str:
    """Return what a value must be, which pydantic says in the words of Python."""
    for kind, words in _KINDS.items():
        if str(error["type"]).startswith(kind):
            return words
    message = str(error["msg"]).removeprefix("Input should be ")
    return _KINDS["sequence_"] if message == "an instance of Sequence" else message


def _fitted(origins: Mapping[Any, tuple[Any, ...]], value: Any) -> Any:
    """Read a key 1 as the name "1", and one number as a list of one, where the hint asks for it."""
    if isinstance(value, Mapping) and origins.get(Mapping, (None,))[0] is str:
        return {str(name): inner for name, inner in value.items()}
    if isinstance(value, int | float) and not isinstance(value, bool) and Sequence in origins:
        return [value]
    return value


def _holds_parts(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(_holds_parts(inner) for inner in value.values())
    return dataclasses.is_dataclass(value)


def _locate(target: str, key: str) -> Any:
    module, _, name = target.rpartition(".")
    try:
        home = importlib.import_module(module)
        found = getattr(home, name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(key, target, f"cannot be imported: {error}") from None
    note(home)
    if not dataclasses.is_dataclass(found):
        raise ConfigError(key, target, "must name a frozen dataclass whose fields are the keys")
    return found


def _join(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix and name else prefix or name


def _key(name: Any) -> str:
    # A key 1 is not a key "1": two configurations that differ must not look the same.
    return name if isinstance(name, str) else f"{type(name).__name__} {name}"


def plain(value: Any) -> Any:
    """Return a part, or anything inside one, as plain data with its class: for hash and file."""
    if isinstance(value, _SCALARS):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        target, names = _described(type(value))
        return {"_target_": target, **{key: plain(getattr(value, name)) for key, name in names}}
    if isinstance(value, Mapping):
        return {_key(name): plain(inner) for name, inner in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(inner) for inner in value]
    return value


@functools.cache
def _described(cls: type) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Return the ``_target_`` of a class, and each of its fields: as configured, and in Python."""
    names = (field.name for field in dataclasses.fields(typing.cast(Any, cls)))
    return f"{cls.__module__}.{cls.__qualname__}", tuple((n.rstrip("_"), n) for n in names)
