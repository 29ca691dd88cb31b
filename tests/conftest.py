"""Small things that many tests need."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pytest
import torch
from rich.console import Console
from torch import Tensor, nn

from remnant.augment import View
from remnant.config import Config, resolve
from remnant.data.source import Dataset, Spec, arrays
from remnant.learner import ReplayLearner, Training
from remnant.memory import Memory
from remnant.methods import Method
from remnant.nets import Small, build
from remnant.progress import Quiet
from remnant.rng import Generators, derive
from remnant.runner import Options, run
from remnant.stream import Stream, make_stream

# No test is about time: a busy machine is not a fault.
hypothesis.settings.register_profile("patient", deadline=None)
hypothesis.settings.load_profile("patient")

# The networks here are so small that a second thread only gets in the way.
torch.set_num_threads(1)

TINY = {"per_class": 12, "net": "small:4", "epochs": 4, "buffer": 20, "batch": 8}


def tiny_config(**changes: Any) -> Config:  # noqa: ANN401
    """A whole run of about a second."""
    return resolve(TINY | changes)


def tiny_data(classes: int = 6, rows: int = 12, seed: int = 0) -> Dataset:
    """Images whose brightness tells the class."""
    rng = np.random.default_rng(seed)
    spec = Spec(
        name="tiny",
        shape=(1, 6, 6),
        classes=tuple(f"class-{c}" for c in range(classes)),
        view=View(mean=(0.5,), std=(0.3,), pad=1, flip=False),
    )
    y = np.repeat(np.arange(classes), rows)
    x = (y[:, None, None, None] * 30 + rng.integers(0, 30, (len(y), 1, 6, 6))).astype(np.uint8)
    return arrays(spec, x, y, x[::3], y[::3])


def tiny_stream(tasks: int = 3, noise: float = 0.3, seed: int = 0) -> Stream:
    from remnant.noise import symmetric

    data = tiny_data()
    rng = np.random.default_rng(seed)
    observed = symmetric(data.y, noise, 6, rng)
    return make_stream(data, observed, range(6), [6 // tasks] * tasks, 0.0, rng)


def tiny_learner(method: Method, stream: Stream, **changes: Any) -> ReplayLearner:  # noqa: ANN401
    settings = {"epochs": 4, "batch": 8, "lr": 0.05} | changes
    capacity = settings.pop("capacity", 10)
    spec = stream.spec
    logits = len(spec.classes) if method.objective.keeps_logits else 0
    memory = Memory(capacity, spec.shape, spec.dtype, logits=logits)

    def new_net(name: str) -> nn.Module:
        return build(Small(4), spec, derive(3, name), method.objective.normed_head)

    rng = Generators.from_seed(1)
    return ReplayLearner(method, Training(**settings), spec, new_net, memory, rng, noise_rate=0.3)


def weights(learner: ReplayLearner) -> dict[str, Tensor]:
    """A copy of all weights and BatchNorm buffers."""
    return {name: value.clone() for name, value in learner.net.state_dict().items()}


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    """Bit for bit."""
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


@pytest.fixture
def quiet() -> Quiet:
    return Quiet(Console(stderr=True))


@pytest.fixture
def run_in(tmp_path: Path, quiet: Quiet) -> Callable[..., Path]:
    """Run a config in a folder of its own."""

    def go(config: Config, where: str = "runs", **options: Any) -> Path:  # noqa: ANN401
        return run(config, Options(out=tmp_path / where, **options), quiet)

    return go
