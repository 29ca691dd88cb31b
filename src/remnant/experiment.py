"""From a config to the things it names: a stream and a learner."""

from pathlib import Path

import torch
from torch import nn

from remnant.config import Config
from remnant.data import load, subset
from remnant.learner import ReplayLearner
from remnant.memory import Memory
from remnant.nets import build
from remnant.rng import Generators, derive, numpy_generator
from remnant.stream import Stream, class_order, make_stream


def make_the_stream(config: Config, data_dir: Path | None) -> Stream:
    """Load the data, draw the noise, split into tasks."""
    data = load(config.data, data_dir)
    if config.per_class:
        # One subset for all seeds: runs of several seeds differ in noise and training, not in data.
        data = subset(data, config.per_class, numpy_generator(0, "subset"))
    observed = config.noise(data, numpy_generator(config.seed, "noise"))
    stream = make_stream(
        data,
        observed,
        class_order(config.class_order, data.spec, numpy_generator(config.seed, "class order")),
        config.sizes(),
        config.validation,
        numpy_generator(config.seed, "validation"),
    )
    return stream.joint() if config.method == "joint" else stream


def make_the_learner(config: Config, stream: Stream) -> ReplayLearner:
    """Build networks, memory and method."""
    method, spec = config.the_method(), stream.spec

    def new_net(name: str) -> nn.Module:
        net = build(config.net, spec, derive(config.seed, name), method.objective.normed_head)
        layout = torch.channels_last if config.channels_last else torch.contiguous_format
        return net.to(memory_format=layout)  # type: ignore[call-overload, no-any-return]

    memory = Memory(
        config.buffer if method.uses_memory(config.epochs) else 0,
        spec.shape,
        logits=len(spec.classes) if method.objective.keeps_logits else 0,
    )
    rng = Generators.from_seed(config.seed)
    training, noise_rate = config.training(), share_of_wrong_labels(stream)
    return ReplayLearner(method, training, spec, new_net, memory, rng, noise_rate)


def share_of_wrong_labels(stream: Stream) -> float:
    """Return the share of wrong labels among the rows to learn from: known in a benchmark."""
    rows = torch.cat([task.id for task in stream.tasks])
    return float((stream.truth[rows] != stream.observed[rows]).double().mean())
