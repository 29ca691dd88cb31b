"""The settings of a run: checked together, with all that is wrong in one error."""

from remnant.config.model import Config
from remnant.config.resolution import resolve

__all__ = ["Config", "resolve"]
