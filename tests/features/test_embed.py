from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import tiny_data
from hf_models import save_vit
from torch import Tensor, nn

from remnant.data.dataset import Dataset, Indices, subset
from remnant.data.pretrained import Pretrained
from remnant.engine.backend import Backend
from remnant.features import blank_dataset, embed, feature_dataset, pending, seconds_per_image
from remnant.features.embed import BATCH, PART, available_threads, store_of
from remnant.nets import Backbone, Features


class Killed(Exception):
    """Stands for the end of the process."""


@dataclass(frozen=True)
class Counting(Features):
    """Features whose backbone returns the mean of each channel, and counts images."""

    counts: tuple[list[int], list[int]] = ((), ())  # type: ignore[assignment]  # images; limit

    @property
    def pretrained(self) -> Pretrained:
        return Pretrained(8, (0.0,) * 3, (1 / 255,) * 3, 3, "0" * 64)

    def load(self) -> Backbone:
        return Backbone(Means(*self.counts), self.pretrained)


class Means(nn.Module):
    def __init__(self, images: list[int], limit: list[int]) -> None:
        super().__init__()
        self.images, self.limit = images, limit

    def forward(self, x: Tensor) -> Tensor:
        if self.limit and sum(self.images) >= self.limit[0]:
            raise Killed
        self.images.append(len(x))
        return x.mean((2, 3))


@pytest.fixture
def net() -> Iterator[Counting]:
    return Counting(counts=([], []))


def passed(net: Counting) -> int:
    """Return the number of forward passes."""
    return len(net.counts[0])


def large_data(samples: int) -> Dataset:
    """Different grey images."""
    data = tiny_data()
    x = np.arange(samples * 36, dtype=np.int64).reshape(samples, 1, 6, 6) % 65521 % 251
    x[:, 0, 0, :2] = np.stack([np.arange(samples) % 256, np.arange(samples) // 256], 1)
    source = type(data.train)(torch.from_numpy(x.astype(np.uint8)))  # type: ignore[call-arg]
    index = np.arange(samples)
    return replace(data, train=source, y=index % 6, index=index, truth=index % 6, published=samples)


def test_vectors_are_those_of_the_images_in_their_order(net: Counting, tmp_path: Path) -> None:
    data = tiny_data()
    made = feature_dataset(data, net, Backend(), tmp_path)
    index = torch.tensor([5, 0, 71])
    expected = data.train.take(index).float().mean((2, 3)).expand(-1, 3)
    torch.testing.assert_close(made.train.take(index), expected, atol=0.5, rtol=0)
    assert (made.spec.shape, made.train.take(index).dtype) == ((3,), torch.float32)
    assert np.array_equal(made.y, data.y)
    assert len(made.test) == len(data.test)


@dataclass
class Unhashable:
    """A source of a user, which need not be hashable."""

    x: Tensor

    def __len__(self) -> int:
        return len(self.x)

    def take(self, index: Tensor) -> Tensor:
        return self.x[index]

    def select(self, index: Indices) -> "Unhashable":
        return Unhashable(self.x[torch.from_numpy(index)])


def test_a_source_may_be_any_object_and_occur_twice(net: Counting, tmp_path: Path) -> None:
    data = tiny_data()
    source = Unhashable(data.train.take(torch.arange(len(data.train))))
    made = feature_dataset(replace(data, train=source, test=source), net, Backend(), tmp_path)
    assert torch.equal(made.train.take(torch.arange(72)), made.test.take(torch.arange(72)))


def test_each_image_is_computed_once(net: Counting, tmp_path: Path) -> None:
    data = tiny_data()  # its test images are training images, too
    assert pending(data, net, "float32", tmp_path) == 72
    feature_dataset(subset(data, 4, np.random.default_rng(0)), net, Backend(), tmp_path)
    first = passed(net)
    assert pending(data, net, "float32", tmp_path) < 72
    feature_dataset(data, net, Backend(), tmp_path)
    assert passed(net) > first
    assert len(store_of(net, "float32", tmp_path).places) == 72
    done = passed(net)
    feature_dataset(data, net, Backend(), tmp_path)
    assert passed(net) == done
    assert pending(data, net, "float32", tmp_path) == 0


def test_a_killed_computation_continues_after_its_last_complete_part(net: Counting, tmp_path: Path) -> None:
    data = large_data(2 * PART + 40)
    net.counts[1].append(PART + 2 * BATCH)
    with pytest.raises(Killed):
        feature_dataset(data, net, Backend(), tmp_path / "killed")
    assert len(store_of(net, "float32", tmp_path / "killed").places) == PART
    net.counts[0].clear()
    net.counts[1].clear()
    resumed = feature_dataset(data, net, Backend(), tmp_path / "killed")
    assert sum(net.counts[0]) == PART + 2 * BATCH + BATCH  # the rest of the training images; test images
    whole = feature_dataset(data, net, Backend(), tmp_path / "whole")
    index = torch.arange(len(data.train))
    assert torch.equal(resumed.train.take(index), whole.train.take(index))


def test_the_bits_of_features_do_not_depend_on_the_subset(tmp_path: Path) -> None:
    data, net = tiny_data(), Features(f"hf:{save_vit(tmp_path / 'vit')}")
    part = subset(data, 1, np.random.default_rng(0))
    few = feature_dataset(part, net, Backend(), tmp_path / "few")
    all_of_them = feature_dataset(data, net, Backend(), tmp_path / "all")
    assert torch.equal(few.train.take(torch.arange(6)), all_of_them.train.take(torch.from_numpy(part.index)))


def test_other_weights_sizes_or_precisions_have_another_folder(tmp_path: Path) -> None:
    stores = [
        store_of(Features(), "float32", tmp_path),
        store_of(Features(), "bf16", tmp_path),
        store_of(Features(image_size=64), "float32", tmp_path),
        store_of(Counting(), "float32", tmp_path),
    ]
    assert len({store.folder for store in stores}) == 4
    assert stores[0].folder.name.startswith("features-efficientnet-lite0-128-")
    assert store_of(Features(head="mlp:3", noise=0.5), "float32", tmp_path).folder == stores[0].folder


def test_bf16_features_are_close_to_those_of_float32() -> None:
    net = Features(image_size=32)
    images = torch.randint(0, 256, (4, 3, 32, 32), generator=torch.Generator().manual_seed(0)).byte()
    plain, low = (embed(Backend(precision=p).prepare(net.load()), images) for p in ("float32", "bf16"))  # type: ignore[arg-type]
    assert low.dtype == torch.float32
    assert 0 < (low - plain).norm() / plain.norm() < 0.1


def test_a_blank_dataset_has_the_size_of_the_real_one(net: Counting) -> None:
    data = tiny_data()
    blank = blank_dataset(data, net)
    assert (len(blank.train), len(blank.test), blank.spec.shape) == (72, 24, (3,))
    assert blank.train.take(torch.tensor([3, 4])).shape == (2, 3)
    assert passed(net) == 0
    assert seconds_per_image(net, data.spec, Backend()) > 0


def test_threads_are_limited_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert available_threads() == 1
    monkeypatch.setenv("OMP_NUM_THREADS", "")
    assert available_threads() >= 1
