"""Configs from recipes and `key=value` texts, as on the command line."""

from remnant.cli.run import parse
from remnant.config import Config
from remnant.config.recipe import to_config


def config_of(recipe: str, *texts: str) -> Config:
    return to_config(recipe, parse([], texts)[1])
