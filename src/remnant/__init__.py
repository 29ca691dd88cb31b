"""Continual learning under noisy labels, with a small and clean replay buffer.

Public names are imported on first use, so that the command line starts without importing torch.
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from remnant.buffer import (
        Buffer as Buffer,
        Choice as Choice,
        LowestLoss as LowestLoss,
        Reservoir as Reservoir,
    )
    from remnant.config import Config as Config, resolve as resolve
    from remnant.data import Dataset as Dataset, Entry as Entry, Spec as Spec, arrays as arrays, load as load
    from remnant.experiment.loggers import Logger as Logger
    from remnant.experiment.run import run as run
    from remnant.learner.learner import Learner as Learner
    from remnant.methods.loop import Loop as Loop
    from remnant.methods.objective import (
        AsymmetricCrossEntropy as AsymmetricCrossEntropy,
        CrossEntropy as CrossEntropy,
    )
    from remnant.methods.protocol import (
        Algorithm as Algorithm,
        Setup as Setup,
        TaskLearner as TaskLearner,
        Training as Training,
    )
    from remnant.methods.registry import METHODS as METHODS
    from remnant.methods.replay import Replay as Replay
    from remnant.settings import setting as setting
    from remnant.stream import Stream as Stream, Task as Task, make_stream as make_stream
    from remnant.transforms.image import ImageTransform as ImageTransform

_MODULES = {
    "buffer": ("Buffer", "Choice", "LowestLoss", "Reservoir"),
    "config": ("Config", "resolve"),
    "data": ("Dataset", "Entry", "Spec", "arrays", "load"),
    "experiment.run": ("run",),
    "experiment.loggers": ("Logger",),
    "learner.learner": ("Learner",),
    "methods.loop": ("Loop",),
    "methods.objective": ("AsymmetricCrossEntropy", "CrossEntropy"),
    "methods.protocol": ("Algorithm", "Setup", "TaskLearner", "Training"),
    "methods.registry": ("METHODS",),
    "methods.replay": ("Replay",),
    "settings": ("setting",),
    "stream": ("Stream", "Task", "make_stream"),
    "transforms.image": ("ImageTransform",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}
_RENAMED = {"Memory": "Buffer", "Method": "Replay", "View": "ImageTransform"}

__version__ = version("remnant")


def __getattr__(name: str) -> object:
    if name in _RENAMED:
        raise AttributeError(f"remnant.{name} has been renamed: use remnant.{_RENAMED[name]}")
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'remnant' has no attribute {name!r}")
    return getattr(import_module(f"remnant.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*_MODULE_OF, "__version__"])
