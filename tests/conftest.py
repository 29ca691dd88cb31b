"""Small things that many tests need."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hypothesis
import numpy as np
import pytest
import torch
from cli_helpers import Invoke
from rich.console import Console
from torch import Tensor, nn

from remnant.config import Config, resolve
from remnant.data.dataset import Dataset, Spec, arrays
from remnant.experiment.loggers.console import Quiet
from remnant.experiment.run import execute
from remnant.experiment.runner import Options
from remnant.methods.protocol import Setup, Training
from remnant.methods.replay import Replay, ReplayLearner
from remnant.nets import Small, build
from remnant.rng import Generators, derive
from remnant.stream import Stream, make_stream
from remnant.transforms.image import ImageTransform

# No test is about time: a busy machine is not a fault.
hypothesis.settings.register_profile("patient", deadline=None)
hypothesis.settings.load_profile("patient")

# The networks here are so small that a second thread only gets in the way.
torch.set_num_threads(1)

TINY = {
    "noise": "symmetric:0.4",
    "per_class": 12,
    "net": "small:4",
    "epochs": 4,
    "buffer_size": 20,
    "batch": 8,
}


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
        transform=ImageTransform(mean=(0.5,), std=(0.3,), pad=1, flip=False),
    )
    y = np.repeat(np.arange(classes), rows)
    x = (y[:, None, None, None] * 30 + rng.integers(0, 30, (len(y), 1, 6, 6))).astype(np.uint8)
    return arrays(spec, x, y, x[::3], y[::3], truth=y)


def tiny_stream(tasks: int = 3, noise: float = 0.3, seed: int = 0) -> Stream:
    from remnant.noise import symmetric

    data = tiny_data()
    rng = np.random.default_rng(seed)
    observed = symmetric(data.y, noise, 6, rng)
    return make_stream(data, observed, range(6), [6 // tasks] * tasks, 0.0, rng)


def tiny_setup(stream: Stream, buffer_size: int = 10, **changes: Any) -> Setup:  # noqa: ANN401
    """Four short epochs per task."""
    training = {"epochs": 4, "batch": 8, "lr": 0.05} | changes
    return Setup(stream.spec, Training(**training), buffer_size)


def tiny_net(stream: Stream) -> Callable[..., nn.Module]:
    """Build networks of a few weights by name."""

    def new_net(name: str, *, normed_head: bool = False) -> nn.Module:
        return build(Small(4), stream.spec, derive(3, name), normed_head)

    return new_net


def tiny_learner(method: Replay, stream: Stream, **changes: Any) -> ReplayLearner:  # noqa: ANN401
    """A learner with a buffer of ten samples; `buffer_size` and fields of Training can be changed."""
    setup = tiny_setup(stream, **changes)
    return method.build(setup, tiny_net(stream), Generators.from_seed(1), noise_rate=0.3)


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
        return execute(config, Options(out=tmp_path / where, **options), [quiet])

    return go


@pytest.fixture
def invoke(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Invoke:
    """Run commands in an empty folder, without matplotlib: a tiny run would take as long as its report."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return Invoke(monkeypatch, capsys)
