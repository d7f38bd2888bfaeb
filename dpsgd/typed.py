"""What people type: the words of a command line as Hydra reads them, or what to write instead."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from dpsgd.errors import ConfigError, did_you_mean

WITH_VALUE = ("--config-dir", "-cd", "--config-name", "-cn", "--config-path", "-cp", "--package",
              "-p", "--cfg", "-c", "--experimental-rerun")  # fmt: skip
"""Hydra's options that take the next word with them."""

ALONE = ("--help", "-h", "--hydra-help", "--version", "--resolve", "--run", "-r", "--multirun",
         "-m", "--shell-completion", "-sc", "--info", "-i")  # fmt: skip
"""Hydra's options that stand alone."""

MANY = ("--multirun", "-m")

INFO = ("all", "config", "defaults", "defaults-tree", "plugins", "searchpath")
"""What ``--info`` may be told to show."""

RUNS_DIR = "--runs-dir"
"""What the other programs call ``runs_dir``."""


def as_hydra_reads(arguments: Sequence[str]) -> list[str]:
    """Return the same command line with options before overrides, and a folder of runs, however it
    was named, as ``runs_dir=``.

    Hydra's parser takes overrides from one place only, and calls the rest unrecognised. Raises
    ConfigError, with what to write, for a word that is neither an option nor ``key=value``.
    """
    options: list[str] = []
    overrides: list[str] = []
    rest = iter(arguments)
    for word in rest:
        if word in WITH_VALUE:
            options += [word, *_next(rest)]
        elif word.split("=")[0] == RUNS_DIR:
            named = word.partition("=")[2] or "".join(_next(rest))
            overrides.append(_runs_dir(named))
        elif word.startswith("-") and _is_option(word):
            options.append(word)
        elif word.startswith("-"):
            raise _not_an_option(word, _next(rest))
        elif options and options[-1] in ("--info", "-i") and word in INFO:
            options.append(word)
        elif "=" in word or word.startswith("~"):
            overrides.append(word)
        elif _is_folder(word):
            overrides.append(_runs_dir(word))
        else:
            raise _not_a_setting(word, _next(rest))
    if any(option in MANY for option in options):
        overrides = _beside_several(overrides)
    return options + overrides


def _beside_several(overrides: Sequence[str]) -> list[str]:
    """Return the overrides of a multirun, those of a group of several options as choices of one.

    Hydra composes first without whatever has several values: ``clip.quantile=0.3`` beside
    ``clip=adaptive,bounded_adaptive`` would be looked for in the group's default option.
    """
    parts = [word.partition("=") for word in overrides]
    several = {key for key, _, value in parts if _has_several(value)}
    return [
        f"{key}=choice({value})"
        if value and key.partition(".")[0] in several - {key} and not _has_several(value)
        else f"{key}{equals}{value}"
        for key, equals, value in parts
    ]


def _has_several(value: str) -> bool:
    """Whether Hydra sweeps over the value: a comma outside brackets and quotes, or a function."""
    if value.startswith(("choice(", "range(", "glob(", "interval(", "shuffle(", "sort(", "tag(")):
        return True
    depth, quote = 0, ""
    for letter in value:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter in "([{":
            depth += 1
        elif letter in ")]}":
            depth -= 1
        elif letter == "," and not depth:
            return True
    return False


def _next(rest: Iterator[str]) -> list[str]:
    """Take the next word, if there is one."""
    return [word for word in [next(rest, None)] if word is not None]


def _is_option(word: str) -> bool:
    name = word.partition("=")[0]
    known = (*ALONE, *WITH_VALUE)
    # As argparse does: the beginning of a long name stands for it.
    return name in known or (len(name) > 3 and any(option.startswith(name) for option in known))


def _is_folder(word: str) -> bool:
    """Whether a bare word names a folder: by a slash in it, as a group or a key has none alone."""
    return "/" in word or word in (".", "..")


def _runs_dir(folder: str) -> str:
    """Return the override, in quotes where Hydra would read something else into the name."""
    plain = all(letter.isalnum() or letter in "/._-" for letter in folder)
    quoted = folder.replace("\\", "\\\\").replace("'", "\\'")
    return f"runs_dir={folder}" if plain else f"runs_dir='{quoted}'"


def _not_an_option(word: str, behind: Sequence[str]) -> ConfigError:
    name, equals, value = word.lstrip("-").partition("=")
    if not equals and behind and "=" not in behind[0] and not behind[0].startswith("-"):
        return ConfigError("", f"{word} {behind[0]}", f"write {name}={behind[0]}, without dashes")
    if equals:
        return ConfigError("", word, f"write {name}={value}, without dashes")
    close = did_you_mean(word, [*ALONE, *WITH_VALUE, RUNS_DIR])
    return ConfigError("", word, f"no such option{close}; see python -m dpsgd.run --help")


def _not_a_setting(word: str, behind: Sequence[str]) -> ConfigError:
    if behind and "=" not in behind[0] and not behind[0].startswith("-"):
        return ConfigError("", f"{word} {behind[0]}", f"write {word}={behind[0]}")
    folder = f", or {word}/ for a folder of runs" if Path(word).is_dir() else ""
    return ConfigError("", word, f"a setting is written {word}=value{folder}")
