"""Continual learning under noisy labels: keep a small, clean memory of a stream.

The public names are imported when they are first used: the command line can answer without torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from remnant.augment import View as View
    from remnant.config import Config as Config
    from remnant.config import resolve as resolve
    from remnant.data import Entry as Entry
    from remnant.data import Spec as Spec
    from remnant.data import arrays as arrays
    from remnant.data import load as load
    from remnant.learner import ReplayLearner as ReplayLearner
    from remnant.learner import Training as Training
    from remnant.memory import Memory as Memory
    from remnant.methods import METHODS as METHODS
    from remnant.methods import Method as Method
    from remnant.runner import Options as Options
    from remnant.runner import run as run
    from remnant.stream import Stream as Stream
    from remnant.stream import Task as Task
    from remnant.stream import make_stream as make_stream

_HOME = {
    "Config": "config",
    "Entry": "data",
    "METHODS": "methods",
    "Memory": "memory",
    "Method": "methods",
    "Options": "runner",
    "ReplayLearner": "learner",
    "Spec": "data",
    "Stream": "stream",
    "Task": "stream",
    "Training": "learner",
    "View": "augment",
    "arrays": "data",
    "load": "data",
    "make_stream": "stream",
    "resolve": "config",
    "run": "runner",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'remnant' has no attribute {name!r}")
    return getattr(import_module(f"remnant.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted(_HOME)
