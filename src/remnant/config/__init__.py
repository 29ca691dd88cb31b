"""The settings of a run: recipes, their conversion to a config, and checks."""

from remnant.config.resolve import resolve as resolve
from remnant.config.schema import Config as Config
