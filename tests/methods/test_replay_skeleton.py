"""Replay methods on skeletons: synthetic sequences of four actions that look the same in a mirror."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from actions import SPEC, action_dataset
from conftest import same, weights
from torch import nn

from remnant.config import recipe, resolve
from remnant.experiment import checkpoint
from remnant.experiment.loggers.console import Quiet
from remnant.experiment.run import execute
from remnant.experiment.runner import Options, Run
from remnant.methods.protocol import Setup, Training
from remnant.methods.registry import METHODS
from remnant.methods.replay import Replay, ReplayLearner
from remnant.nets import NETS, build
from remnant.noise import symmetric
from remnant.rng import Generators, derive
from remnant.stream import Stream, make_stream


def action_stream() -> Stream:
    data, rng = action_dataset(), np.random.default_rng(0)
    return make_stream(data, symmetric(data.y, 0.2, 4, rng), range(4), [2, 2], 0.0, rng)


def learner_of(name: str, **changes: Any) -> ReplayLearner:  # noqa: ANN401
    def new_net(name: str, *, normed_head: bool = False) -> nn.Module:
        return build(NETS["efficientgcn-b0"], SPEC, derive(0, name), normed_head)

    method, training = METHODS[name], {"epochs": 2, "batch": 6, "lr": 0.05} | changes
    assert isinstance(method, Replay)
    return method.build(Setup(SPEC, Training(**training), 6), new_net, Generators.from_seed(0), 0.2)


def test_aer_abs_learns_from_skeletons_and_stores_them_unchanged() -> None:
    stream, learner = action_stream(), learner_of("aer-abs")
    for task in stream.tasks:
        list(learner.learn(task))
    assert len(learner.buffer) == 6
    assert learner.buffer.x.dtype == torch.float16
    for x, id in zip(learner.buffer.x, learner.buffer.id, strict=True):
        assert torch.equal(x, stream.tasks[0].source.take(id[None])[0])
    logits = learner.predict(stream.tests[0].source.take(stream.tests[0].id))
    assert logits.shape == (6, 4)
    assert logits.isfinite().all()


@pytest.mark.slow
def test_a_network_learns_to_recognise_the_actions() -> None:
    data = action_dataset()
    task = make_stream(data, data.y, range(4), [4], 0.0, np.random.default_rng(0)).tasks[0]
    learner = learner_of("finetune", epochs=18, lr=0.1)
    list(learner.learn(task))
    is_correct = learner.predict(data.test.take(torch.arange(12))).argmax(1).numpy() == data.test_y
    assert is_correct.mean() > 0.7


@pytest.mark.parametrize("steps", [1, 4, 6])
def test_training_on_skeletons_resumes_bit_for_bit(steps: int) -> None:
    task = action_stream().tasks[0]
    whole, first, second = (learner_of("aer-abs") for _ in range(3))
    list(whole.learn(task))
    for step, _ in enumerate(first.learn(task), 1):
        if step == steps:
            break
    second.load_state_dict(checkpoint.unpack(checkpoint.pack(first.state_dict())))
    list(second.learn(task))
    assert same(weights(second), weights(whole))
    assert torch.equal(second.buffer.id, whole.buffer.id)


def write_nw_ucla(folder: Path) -> None:
    """Write three training sequences and a test sequence of each action, of different lengths."""
    rng, y = np.random.default_rng(0), np.repeat(np.arange(10), 4)
    lengths = rng.integers(2, 9, len(y))
    np.savez(
        folder / "nw_ucla.npz",
        joints=rng.normal(size=(lengths.sum(), 20, 3)).astype(np.float32),
        offsets=np.cumsum([0, *lengths]),
        y=y,
        is_train_crossview=np.arange(len(y)) % 4 < 3,
    )


@pytest.mark.slow
def test_an_interrupted_run_on_skeletons_ends_with_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quiet: Quiet
) -> None:
    write_nw_ucla(tmp_path)
    given = recipe.read("nw-ucla") | {
        "split": [4, 6],
        "epochs": 2,
        "batch": 16,
        "buffer_size": 6,
        "per_class": 6,
    }
    config = resolve(given)

    def run(out: str) -> Path:
        return execute(config, Options(out=tmp_path / out, data_dir=tmp_path, save_every=0.0), [quiet])

    whole, save = run("whole"), Run._save

    def save_and_stop(self: Run) -> Path:
        path = save(self)
        if self.history.steps == 5:
            raise KeyboardInterrupt
        return path

    monkeypatch.setattr(Run, "_save", save_and_stop)
    with pytest.raises(KeyboardInterrupt):
        run("resumed")
    monkeypatch.setattr(Run, "_save", save)
    resumed = run("resumed")
    for name in ("metrics.jsonl", "buffer.safetensors", "config.toml"):
        assert (resumed / name).read_bytes() == (whole / name).read_bytes()
