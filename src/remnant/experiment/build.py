"""Construction of the stream of tasks and the learner of a config."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from remnant.config import Config
from remnant.config.components import short
from remnant.config.registries import REGISTRIES
from remnant.data import Dataset, OwnData, load, subset
from remnant.data.dataset import Labels, Spec
from remnant.data.files import root
from remnant.engine.backend import Backend, find_device, prefers_bf16, prefers_channels_last
from remnant.engine.parallel.ranks import find_ranks
from remnant.errors import RemnantError, memory_errors
from remnant.features import blank_dataset, feature_dataset, pending
from remnant.methods.protocol import Algorithm, Build, NewNet, Setup, TaskLearner
from remnant.models.recalibrated import Recalibrated
from remnant.nets import Features, build as build_net
from remnant.noise import check_clean
from remnant.rng import Generators, derive, numpy_generator
from remnant.stream import Stream, class_order, make_row_stream, make_stream

AUTOMATIC = ("device", "precision", "channels_last")  # settings that may be `auto`


def build_dataset(config: Config, data_dir: Path | None) -> tuple[Dataset, Labels]:
    """Load the dataset and draw the noise; return the dataset and the observed training labels."""
    if isinstance(config.data, OwnData):  # before images are decoded
        may_be_clean = config.data.clean or bool(config.data.listing.truth)
        check_clean(config.noise, config.data.path, is_clean=may_be_clean, has_truth=False)
    data = load(config.data, data_dir) if isinstance(config.data, str | OwnData) else config.data
    if config.per_class:
        # The same subset for all seeds: runs with different seeds differ in noise and training, not in data.
        data = subset(data, config.per_class, numpy_generator(0, "subset"))
    check_clean(config.noise, data.spec.name, is_clean=data.is_clean, has_truth=data.truth is not None)
    found = config.noise(data, numpy_generator(config.seed, "noise"))
    noise = short(REGISTRIES["noise"], config.noise)
    if not isinstance(found, Dataset):
        _check_labels(found, data, noise)
        return data, found
    _check_labels(found.y, data, noise)
    _check_samples(found, data, noise)
    return found, found.y


def _check_samples(found: Dataset, data: Dataset, noise: str) -> None:
    """Raise if a noise that returned a dataset changed more than training inputs and their labels."""
    kept = ("spec", "test", "test_y", "index")
    changed = [name for name in kept if getattr(found, name) is not getattr(data, name)]
    if changed or len(found.train) != len(data.train):
        what = f"another {', '.join(changed)}" if changed else f"{len(found.train)} training inputs"
        raise RemnantError(
            f"noise {noise}: expected it to return {len(data.train)} training inputs and their labels in a "
            f"dataset that is otherwise unchanged, got {what}. Use dataclasses.replace(dataset, ...)."
        )


def _check_labels(labels: object, data: Dataset, noise: str) -> None:
    """Raise if a noise, which may be any function, did not return a label for each training sample."""
    last, got = len(data.spec.classes) - 1, type(labels).__name__
    if isinstance(labels, np.ndarray):
        got = f"{labels.dtype} of shape {labels.shape}"
        if labels.shape == data.y.shape and labels.dtype.kind in "iu":
            got = f"labels from {labels.min()} to {labels.max()}"
            if labels.min() >= 0 and labels.max() <= last:
                return
    raise RemnantError(
        f"noise {noise}: expected it to return an array of {len(data.y)} labels from 0 to {last}, got {got}."
    )


def build_stream(config: Config, data_dir: Path | None) -> Stream:
    """Load the dataset, draw the noise, compute features if the network needs them, split into tasks."""
    data, observed = build_dataset(config, data_dir)
    if embeds(config):
        data = feature_dataset(data, config.net, build_backend(config), root(data_dir))
    return split_into_tasks(config, data, observed)


def plan_stream(config: Config, data_dir: Path | None) -> tuple[Stream, int]:
    """Return the stream and the number of images whose features would have to be computed.

    If there are any, all samples of the stream are equal: only its sizes and labels have a meaning.
    """
    data, observed = build_dataset(config, data_dir)
    missing = 0
    if embeds(config):
        net, backend, folder = config.net, build_backend(config), root(data_dir)
        missing = pending(data, net, backend.precision, folder)
        data = blank_dataset(data, net) if missing else feature_dataset(data, net, backend, folder)
    return split_into_tasks(config, data, observed), missing


def embeds(config: Config) -> bool:
    """Return whether methods receive the features of a frozen network instead of images."""
    return isinstance(config.net, Features) and not config.net.train_backbone


def split_into_tasks(config: Config, data: Dataset, observed: Labels) -> Stream:
    """Return the stream of tasks, with its training samples on the device."""
    validation, rng = config.validation, numpy_generator(config.seed, "validation")
    if isinstance(config.tasks, str):
        stream = make_row_stream(data, observed, config.tasks, validation, rng)
    else:
        order = class_order(config.class_order, data.spec, numpy_generator(config.seed, "class order"))
        stream = make_stream(data, observed, order, config.class_counts(), validation, rng)
    stream = stream.joint() if config.method == "joint" else stream
    return stream.on(find_device(config.device))


def data_notes(stream: Stream, strict: bool, most: int = 10) -> list[str]:
    """Return lines about the samples: the files that are left out, with the reasons; raise if strict."""
    lines = [f"left out: {file}: {why}" for file, why in stream.skipped.items()]
    if strict and lines:
        raise RemnantError(
            f"expected all files to be readable with --strict (strict=True), but {_reasons(stream)}; first: "
            f"{lines[0].removeprefix('left out: ')}. Fix them, or run without it."
        )
    counted = [f"{_reasons(stream)}; all of them are listed in result.json"] if len(lines) > most else []
    return [*lines[:most], *counted, *(f"note: {text}" for text in stream.notes)]


def _reasons(stream: Stream) -> str:
    """Return how many files are left out for each reason, without its details."""
    short_reasons = (re.split(r"[;(]|, in line", why)[0].strip() for why in stream.skipped.values())
    counts = Counter(short_reasons).most_common(5)
    return f"{len(stream.skipped):,} left out: {', '.join(f'{n:,} x {why}' for why, n in counts)}"


def build_backend(config: Config, started_with: Mapping[str, Any] | None = None) -> Backend:
    """Find the device and the ranks, and choose what is `auto`: as the run was started, if it is resumed."""
    chosen = {name: getattr(config, name) for name in AUTOMATIC}
    chosen |= {name: value for name, value in (started_with or {}).items() if chosen.get(name) == "auto"}
    try:
        device = find_device(chosen["device"])
    except RemnantError as error:
        if config.device != "auto":
            raise
        raise RemnantError(
            f"expected the device {chosen['device']}, on which this run was started, but this machine has no "
            "such device. Resume the run on a machine that has one, or restart it from the beginning with "
            "--force (force=True)."
        ) from error
    ranks = find_ranks(device)
    if config.compile and ranks.count > 1:
        raise RemnantError(
            f"compile: expected false with {ranks.count} ranks, got true. Set compile=false, or run in a "
            "single process."
        )
    precision, layout = chosen["precision"], chosen["channels_last"]
    if "auto" in (precision, layout):
        net = _tested_net(config, config.spec)
        layout = prefers_channels_last(net, device) if layout == "auto" else layout
        if precision == "auto":
            precision = "bf16" if prefers_bf16(net, device) else "float32"
    return Backend(device, precision, layout, config.compile, ranks)


def net_builder(config: Config, spec: Spec, backend: Backend) -> NewNet:
    """Return the function that builds networks by name."""
    _tested_net(config, spec)

    def new_net(name: str, *, normed_head: bool = False) -> nn.Module:
        return backend.prepare(build_net(config.net, spec, derive(config.seed, name), normed_head))

    return new_net


def _tested_net(config: Config, spec: Spec) -> nn.Module:
    """Return a network; raise RemnantError if it, which may be built by any function, has no logits."""
    name, classes = short(REGISTRIES["net"], config.net), len(spec.classes)
    inputs = ", ".join(map(str, spec.shape))
    expected = f"net {name}: expected a network from inputs (B, {inputs}) to logits (B, {classes})"
    try:
        with memory_errors(), torch.random.fork_rng(devices=[]), torch.inference_mode():
            net = build_net(config.net, spec, seed=0).eval()
            logits: object = net(spec.transform.plain(torch.zeros(2, *spec.shape, dtype=spec.dtype)))
    except RemnantError:
        raise
    except Exception as error:  # the code of the network can raise anything
        raise RemnantError(f"{expected}, but it failed with {type(error).__name__}: {error}") from error
    found = list(logits.shape) if isinstance(logits, torch.Tensor) else type(logits).__name__
    if found != [2, classes]:
        raise RemnantError(f"{expected}, got {found} for two inputs. Use len(spec.classes) outputs.")
    return net


def learner_builder(config: Config, stream: Stream, backend: Backend | None = None) -> Build:
    """Return the function that builds a learner of a method for this stream."""
    backend = backend or build_backend(config)
    new_net = net_builder(config, stream.spec, backend)

    def build(method: Algorithm, setup: Setup) -> TaskLearner:
        setup = replace(setup, device=backend.device)
        return method.build(setup, new_net, Generators.from_seed(config.seed), stream.noise_rate)

    return build


def build_learner(config: Config, stream: Stream, backend: Backend | None = None) -> TaskLearner:
    """Build the learner of the config's method."""
    learner = learner_builder(config, stream, backend)(config.to_method(), config.setup())
    return Recalibrated(learner, stream.spec.transform) if config.batchnorm == "buffer" else learner
