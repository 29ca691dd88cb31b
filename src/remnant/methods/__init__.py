"""Methods: replay methods (Algorithm 1 of the paper), SPR and CNLL, and the registry of their names."""

from remnant.methods.registry import METHODS as METHODS
from remnant.methods.replay import Replay as Replay
