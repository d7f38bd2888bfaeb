"""Hydra as the command line sets it up, in this process."""

import functools

from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.utils import create_config_search_path
from hydra.core.config_store import ConfigStore
from hydra.core.utils import setup_globals
from hydra.types import RunMode
from omegaconf import OmegaConf, open_dict

from dpsgd.experiment.options import config_folder
from hydra_plugins.clipping_atlas._composing import Composer
from hydra_plugins.clipping_atlas._expanding import override_lists

SWEEPS = sorted(file.stem for file in config_folder("sweeps").glob("*.yaml"))


@functools.cache
def loader():
    setup_globals()
    for name in SWEEPS:
        node = OmegaConf.load(config_folder("sweeps") / f"{name}.yaml")
        ConfigStore.instance().store(name=name, node=node, group="sweep", package="_global_")
    return ConfigLoaderImpl(create_config_search_path(str(config_folder("conf"))))


def master(*words):
    # Hydra reads the command line, with its sweeps, before it knows of a sweeper.
    return loader().load_configuration("config", list(words), RunMode.MULTIRUN)


def jobs_of(*words):
    sweeper = master(*words).hydra.sweeper
    return override_lists(sweeper.params, sweeper.where, words, loader())


def composer(*words):
    return Composer(loader(), master(*words))


def by_hydra(words, overrides):
    config = loader().load_sweep_config(master(*words), list(overrides))
    with open_dict(config):
        config.pop("hydra")
    return OmegaConf.to_container(config, resolve=True)
