"""Features of datasets: every image passes through a frozen backbone once, and its vector is stored.

Shapes: B images of K channels, H x W pixels; D features.
"""

import hashlib
import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import torch
from torch import Tensor

from remnant.data.dataset import Dataset, MemoryMapped, Source, Spec
from remnant.data.images import progress_bar
from remnant.engine.backend import Backend
from remnant.engine.threads import compute_threads
from remnant.features.store import FeatureStore, image_digest
from remnant.nets.pretrained.backbone import Backbone
from remnant.nets.pretrained.features import Features

BATCH = 32  # images per forward pass
PART = 8 * BATCH  # images per part of the store
READ = 128  # images that are read at once to compute their digests


def embed(backbone: Backbone, images: Tensor, device: torch.device | None = None) -> Tensor:
    """Return features (B, D) on the CPU of uint8 images (B, K, H, W) of any size."""
    backbone.eval()
    with torch.inference_mode():
        parts = [backbone(backbone.prepare(part.to(device or part.device))) for part in images.split(BATCH)]
        return torch.cat(parts).float().cpu()


def store_of(net: Features, precision: str, root: Path) -> FeatureStore:
    """Return the store of the features of a net in a data folder."""
    about = net.pretrained
    content = repr((about.weights, about.size, about.mean, about.std, precision))
    name = "".join(c if c.isalnum() else "-" for c in net.backbone.rpartition("/")[2])
    digest = hashlib.sha256(content.encode()).hexdigest()[:12]
    return FeatureStore(root / f"features-{name}-{about.size}-{digest}", about.features)


def feature_dataset(data: Dataset, net: Features, backend: Backend, root: Path) -> Dataset:
    """Return the dataset with features instead of images; missing ones are computed and stored."""
    store = store_of(net, backend.precision, root)
    digests = [digests_of(source) for source in (data.train, data.test)]
    if any(missing(store, found) for found in digests):
        with store.locked():
            _compute(store, list(zip((data.train, data.test), digests, strict=True)), net, backend)
    vectors = store.vectors()
    train, test = (
        MemoryMapped(vectors, np.array([store.places[digest] for digest in found], dtype=np.int64))
        for found in digests
    )
    return replace(data, spec=net.adapted(data.spec), train=train, test=test)


def pending(data: Dataset, net: Features, precision: str, root: Path) -> int:
    """Return the number of images whose features are not stored yet."""
    return absent(store_of(net, precision, root), [digests_of(source) for source in (data.train, data.test)])


def seconds_per_image(net: Features, spec: Spec, backend: Backend) -> float:
    """Measure the seconds that the features of an image take, on one batch."""
    backbone = load_frozen(net, backend)
    images = torch.zeros(BATCH, *spec.shape, dtype=spec.dtype)
    with compute_threads(available_threads()):
        embed(backbone, images[:1], backend.device)  # the first pass is slower
        start = time.perf_counter()
        embed(backbone, images, backend.device)
        return (time.perf_counter() - start) / BATCH


def blank_dataset(data: Dataset, net: Features) -> Dataset:
    """Return the dataset with the same vector for all images, for an estimate before any is computed."""
    vector = np.zeros((1, net.pretrained.features), np.float32)
    train, test = (MemoryMapped(vector, np.zeros(len(s), np.int64)) for s in (data.train, data.test))
    return replace(data, spec=net.adapted(data.spec), train=train, test=test)


def load_frozen(net: Features, backend: Backend) -> Backbone:
    """Load the backbone of a net onto the device."""
    return cast(Backbone, replace(backend, channels_last=True).prepare(net.load()))


def digests_of(source: Source) -> list[bytes]:
    """Return the digest of each image of a source."""
    parts = torch.arange(len(source)).split(READ)
    return [image_digest(image) for index in parts for image in source.take(index).numpy()]


def missing(store: FeatureStore, digests: Sequence[bytes]) -> list[int]:
    """Return the positions of the images that the store does not have; one of those that are equal."""
    first = {digest: i for i, digest in reversed(list(enumerate(digests)))}
    return sorted(i for digest, i in first.items() if digest not in store.places)


def absent(store: FeatureStore, digests: Sequence[list[bytes]]) -> int:
    """Return how many different images, of all sources together, the store does not have."""
    return len(set().union(*digests) - store.places.keys())


def _compute(
    store: FeatureStore, sources: Sequence[tuple[Source, list[bytes]]], net: Features, backend: Backend
) -> None:
    """Compute and store missing features, in parts; each source is given with the digests of its images."""
    backbone = load_frozen(net, backend)
    total = absent(store, [found for _, found in sources])
    with compute_threads(available_threads()), progress_bar(total, "features") as bar:
        for source, found in sources:
            images = missing(store, found)
            for start in range(0, len(images), PART):
                part, vectors = torch.tensor(images[start : start + PART]), []
                for index in part.split(BATCH):
                    vectors.append(embed_filled(backbone, source.take(index), backend.device))
                    bar.update(len(index))
                store.append([found[i] for i in part.tolist()], torch.cat(vectors).numpy())


def embed_filled(backbone: Backbone, images: Tensor, device: torch.device | None = None) -> Tensor:
    """Return features (B, D) of images that are repeated up to full batches.

    The last digits of features depend on the size of the batch. In a full batch, they depend neither on
    the other images nor on the number of threads.
    """
    filled = images[torch.arange(-(-len(images) // BATCH) * BATCH) % len(images)]
    return embed(backbone, filled, device)[: len(images)]


def available_threads() -> int:
    """Return the number of cores that this process may use, at most OMP_NUM_THREADS if that is set."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limit = os.environ.get("OMP_NUM_THREADS", "")
    return min(cores, int(limit)) if limit.isdecimal() and int(limit) else cores
