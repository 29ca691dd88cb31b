"""From a config to the things it names: a stream and a learner."""

from pathlib import Path

import torch
from torch import nn

from remnant.cnll import CnllLearner
from remnant.config import Config
from remnant.data import Dataset, load, subset
from remnant.data.source import Labels
from remnant.errors import RemnantError
from remnant.learner import ReplayLearner
from remnant.memory import Memory
from remnant.methods import Replay
from remnant.nets import NewNet, build
from remnant.protocol import Learner
from remnant.rng import Generators, derive, numpy_generator
from remnant.spr import Spr, SprLearner
from remnant.stream import Stream, class_order, make_stream


def make_the_data(config: Config, data_dir: Path | None) -> tuple[Dataset, Labels]:
    """Load the rows and draw the noise: the data set, and the observed labels of its training rows."""
    data = load(config.data, data_dir)
    if config.per_class:
        # One subset for all seeds: runs of several seeds differ in noise and training, not in data.
        data = subset(data, config.per_class, numpy_generator(0, "subset"))
    return data, config.noise(data, numpy_generator(config.seed, "noise"))


def make_the_stream(config: Config, data_dir: Path | None) -> Stream:
    """Load the data, draw the noise, split into tasks."""
    data, observed = make_the_data(config, data_dir)
    stream = make_stream(
        data,
        observed,
        class_order(config.class_order, data.spec, numpy_generator(config.seed, "class order")),
        config.sizes(),
        config.validation,
        numpy_generator(config.seed, "validation"),
    )
    return stream.joint() if config.method == "joint" else stream


def what_was_skipped(stream: Stream, strict: bool, most: int = 20) -> list[str]:
    """Return a line for each file that could not be read, and one that counts them; refuse if strict."""
    if not stream.skipped:
        return []
    lines = [f"skipped {file}: {why}" for file, why in stream.skipped.items()]
    count = f"{len(lines):,} files could not be read and are left out"
    if strict:
        raise RemnantError(
            f"expected every file to be readable with --strict: {count}, the first is {lines[0]}. Mend "
            "them, or go on without them and without --strict."
        )
    more = "; the names of all are in result.json" if len(lines) > most else ""
    return [*lines[:most], f"{count}{more}"]


def make_the_learner(config: Config, stream: Stream) -> Learner:
    """Build the learner that the method names."""
    kind = config.learner
    if isinstance(kind, Replay):
        return make_the_replay_learner(config, stream)
    new_net, rng = net_maker(config, stream), Generators.from_seed(config.seed)
    rest = (config.epochs, config.batch, stream.spec, new_net, rng)
    if isinstance(kind, Spr):
        return SprLearner(kind.sized(config.buffer), *rest)
    return CnllLearner(kind.sized(config.buffer), *rest)


def net_maker(config: Config, stream: Stream) -> NewNet:
    """Return what builds networks by name."""
    normed = config.the_method().objective.normed_head

    def new_net(name: str) -> nn.Module:
        net = build(config.net, stream.spec, derive(config.seed, name), normed)
        layout = torch.channels_last if config.channels_last else torch.contiguous_format
        return net.to(memory_format=layout)  # type: ignore[call-overload, no-any-return]

    return new_net


def make_the_replay_learner(config: Config, stream: Stream) -> ReplayLearner:
    """Build networks, memory and method."""
    method, spec, new_net = config.the_method(), stream.spec, net_maker(config, stream)
    memory = Memory(
        config.buffer if method.uses_memory(config.epochs) else 0,
        spec.shape,
        spec.dtype,
        logits=len(spec.classes) if method.objective.keeps_logits else 0,
    )
    rng = Generators.from_seed(config.seed)
    training, noise_rate = config.training(), share_of_wrong_labels(stream)
    return ReplayLearner(method, training, spec, new_net, memory, rng, noise_rate)


def share_of_wrong_labels(stream: Stream) -> float:
    """Return the share of wrong labels among the rows to learn from: known in a benchmark."""
    rows = torch.cat([task.id for task in stream.tasks])
    return float((stream.truth[rows] != stream.observed[rows]).double().mean())
