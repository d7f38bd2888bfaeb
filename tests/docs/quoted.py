"""What the pages quote: files to write, shell commands, Python, links."""

import re
import shlex
from itertools import product
from pathlib import Path

from hydra import compose, initialize_config_dir
from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf

from dpsgd.run import config_folder

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_FILE = re.compile(r"^`([\w./]+)`[^\n]*:\n\n```\w+\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_INLINE = re.compile(r"`(python -m dpsgd\.run[^`]*)`")
_RUN = ["python", "-m", "dpsgd.run"]
_VALUED = {"--config-dir": "folder", "--cfg": "what"}


def blocks(text, language):
    return [body for name, body in _BLOCK.findall(text) if name == language]


def files(text):
    return dict(_FILE.findall(text))


def links(text):
    found = _LINK.findall(_BLOCK.sub("", text))
    return [link for link in found if not link.startswith(("http:", "https:"))]


def anchors(text):
    heads = re.findall(r"^#+ (.+)$", _BLOCK.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def run_commands(text):
    """Every quoted ``python -m dpsgd.run …`` as its arguments; words such as KEY=… are not."""
    joined = text.replace("\\\n", " ")
    lines = [line for body in blocks(joined, "sh") for line in body.splitlines()]
    lines += _INLINE.findall(_BLOCK.sub("", joined))
    found = []
    for line in lines:
        words = shlex.split(line, comments=True)
        for start in range(len(words)):
            if words[start : start + 3] == _RUN:
                found.append(words[start + 3 :])
    return found


def compositions(arguments, *, every=False):
    """The plain configuration of cells that the arguments of dpsgd.run describe: of ``every`` one,
    or of so many that each value is there.
    """
    words, folder = [], None
    rest = iter(arguments)
    for word in rest:
        if word in _VALUED:
            value = next(rest)
            folder = value if word == "--config-dir" else folder
        elif word != "-m":
            words.append(word)
    if "--help" in words:
        return
    parsed = OverridesParser.create().parse_overrides(words)
    choices = [
        [f"{o.get_key_element()}={v}" for v in o.sweep_string_iterator()]
        if o.is_sweep_override() else [o.input_line]
        for o in parsed
    ]  # fmt: skip
    for sweep in config_folder("sweeps").glob("*.yaml"):
        ConfigStore.instance().store(
            name=sweep.stem, node=OmegaConf.load(sweep), group="sweep", package="_global_"
        )
    searched = [] if folder is None else [f"hydra.searchpath=[file://{Path(folder).resolve()}]"]
    with initialize_config_dir(str(config_folder("conf")), version_base="1.3"):
        most = max(map(len, choices), default=1)
        some = ([values[place % len(values)] for values in choices] for place in range(most))
        for overrides in product(*choices) if every else some:
            config = compose("config", overrides=[*searched, *overrides])
            yield OmegaConf.to_container(config, resolve=True)
