"""Methods on skeletons: made ones, of four actions that look alike in a mirror."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import same, weights
from torch import nn

from remnant import checkpoint, recipe
from remnant.config import resolve
from remnant.data import Dataset, Spec
from remnant.data.source import arrays
from remnant.learner import ReplayLearner, Training
from remnant.memory import Memory
from remnant.methods import METHODS
from remnant.nets import NETS, build
from remnant.noise import symmetric
from remnant.progress import Quiet
from remnant.rng import Generators, derive
from remnant.runner import Options, Run, run
from remnant.skeleton import KINECT_V1, SkeletonView
from remnant.spr import Spr, SprLearner
from remnant.stream import Stream, make_stream

ACTIONS = {  # joints and axis of a movement
    "raise arms": (range(4, 12), 1),
    "step forward": (range(12, 20), 2),
    "jump": (range(20), 1),
    "stand": (range(0), 0),
}
SPEC = Spec(
    name="made",
    shape=(3, 8, 20, 1),
    classes=tuple(ACTIONS),
    view=SkeletonView(KINECT_V1),
    dtype=torch.float16,
)


def waving(rows: int = 6) -> Dataset:
    """Some joints go and come back."""
    rng, frames = np.random.default_rng(0), np.linspace(0, np.pi, 8)
    y = np.repeat(np.arange(4), rows)
    x = rng.normal(0, 0.02, (len(y), 3, 8, 20, 1)) + rng.normal(0, 1, (3, 1, 20, 1))
    for row, label in enumerate(y):
        joints, axis = list(ACTIONS.values())[label]
        x[row, axis][:, list(joints), 0] += np.sin(frames)[:, None]
    return arrays(SPEC, x.astype(np.float16), y, x[::2].astype(np.float16), y[::2])


def stream_of_waves() -> Stream:
    data, rng = waving(), np.random.default_rng(0)
    return make_stream(data, symmetric(data.y, 0.2, 4, rng), range(4), [2, 2], 0.0, rng)


def learner_of(method: str, **changes: Any) -> ReplayLearner:  # noqa: ANN401
    chosen = METHODS[method]
    settings = {"epochs": 2, "batch": 6, "lr": 0.05} | changes

    def new_net(name: str) -> nn.Module:
        return build(NETS["efficientgcn-b0"], SPEC, derive(0, name), chosen.objective.normed_head)

    memory = Memory(6, SPEC.shape, SPEC.dtype)
    return ReplayLearner(chosen, Training(**settings), SPEC, new_net, memory, Generators.from_seed(0))


def test_aer_abs_learns_from_skeletons_and_keeps_some() -> None:
    stream, learner = stream_of_waves(), learner_of("aer-abs")
    for task in stream.tasks:
        list(learner.learn(task))
    assert len(learner.memory) == 6
    assert learner.memory.x.dtype == torch.float16
    for x, row in zip(learner.memory.x, learner.memory.id, strict=True):
        assert torch.equal(x, stream.tasks[0].source.take(row[None])[0])
    logits = learner.predict(stream.tests[0].source.take(stream.tests[0].id))
    assert logits.shape == (6, 4)
    assert logits.isfinite().all()


def test_a_network_learns_what_moves() -> None:
    data = waving()
    task = make_stream(data, data.y, range(4), [4], 0.0, np.random.default_rng(0)).tasks[0]
    learner = learner_of("finetune", epochs=18, lr=0.1)
    list(learner.learn(task))
    right = learner.predict(data.test.take(torch.arange(12))).argmax(1).numpy() == data.test_y
    assert right.mean() > 0.7


@pytest.mark.parametrize("cut", [1, 4, 6])
def test_a_run_on_skeletons_goes_on_bit_for_bit(cut: int) -> None:
    task = stream_of_waves().tasks[0]
    whole = learner_of("aer-abs")
    list(whole.learn(task))
    first, second = learner_of("aer-abs"), learner_of("aer-abs")
    for step, _ in enumerate(first.learn(task), 1):
        if step == cut:
            break
    second.load_state_dict(checkpoint.unpack(checkpoint.pack(first.state_dict())))
    list(second.learn(task))
    assert same(weights(second), weights(whole))
    assert torch.equal(second.memory.id, whole.memory.id)


def test_spr_is_for_images() -> None:
    def never(name: str) -> nn.Module:
        raise AssertionError(name)

    with pytest.raises(TypeError, match="SPR expects images"):
        SprLearner(Spr(), 1, 8, SPEC, never, Generators.from_seed(0))


def write_made_sequences(folder: Path) -> None:
    """Three sequences of each action of NW-UCLA, and one to be tested on, of different lengths."""
    rng, y = np.random.default_rng(0), np.repeat(np.arange(10), 4)
    lengths = rng.integers(2, 9, len(y))
    np.savez(
        folder / "nw_ucla.npz",
        joints=rng.normal(size=(lengths.sum(), 20, 3)).astype(np.float32),
        offsets=np.cumsum([0, *lengths]),
        y=y,
        is_train_crossview=np.arange(len(y)) % 4 < 3,
    )


def test_a_run_that_is_cut_ends_with_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quiet: Quiet
) -> None:
    write_made_sequences(tmp_path)
    given = recipe.read("nw-ucla") | {"split": [4, 6], "epochs": 2, "batch": 8, "buffer": 6}
    config, options = resolve(given), {"data_dir": tmp_path, "save_every": 0.0}
    whole = run(config, Options(out=tmp_path / "whole", **options), quiet)
    save = Run._save

    def save_and_die(self: Run) -> Path:
        path = save(self)
        if self.history.steps == 5:
            raise KeyboardInterrupt
        return path

    monkeypatch.setattr(Run, "_save", save_and_die)
    with pytest.raises(KeyboardInterrupt):
        run(config, Options(out=tmp_path / "cut", **options), quiet)
    monkeypatch.setattr(Run, "_save", save)
    cut = run(config, Options(out=tmp_path / "cut", **options), quiet)
    for name in ("metrics.jsonl", "memory.safetensors", "config.toml"):
        assert (cut / name).read_bytes() == (whole / name).read_bytes()
