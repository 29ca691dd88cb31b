"""Runs on a device that refuses tensors of the CPU have the bits of runs on the CPU."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from actions import action_dataset
from conftest import TINY, tiny_stream
from placement_runs import run_in_parts, short
from pretend_device import NAME, register
from run_helpers import RunIn, assert_same_results, records
from torch import Tensor

import remnant
from remnant.config import Config
from remnant.data.dataset import InMemory, MemoryMapped
from remnant.experiment import checkpoint
from remnant.experiment.build import build_learner, build_stream
from remnant.methods.registry import METHODS
from remnant.methods.spr.simclr import strong_view
from remnant.sweep.estimate import estimate
from remnant.transforms.image import ImageTransform
from remnant.transforms.mixing import cutmix

FAST = {"der++-aer-abs", "aer-abs+consolidation", "gdumb+coteaching", "puridiver", "spr"}
EACH_METHOD = [m if m in FAST else pytest.param(m, marks=pytest.mark.slow) for m in METHODS]
DIVIDING = ("consolidation", "dividemix", "puridiver")


@pytest.fixture(autouse=True, scope="module")
def device() -> torch.device:
    return register()


def compare(config: Config, run_in: RunIn, out: Path) -> Path:
    """Run a config on the CPU, and in three parts on the device; return the folder of the latter."""
    expected = run_in(config.model_copy(update={"device": "cpu"}), "cpu")
    newest = checkpoint.generations(expected / "checkpoint")[0]
    steps = checkpoint.unpack(newest.read_bytes())["history"]["steps"]
    found, parts = run_in_parts(config.model_copy(update={"device": NAME}), out, steps // 3 + 1)
    assert parts == 3
    assert_same_results(expected, found)
    return found


@pytest.mark.parametrize("method", EACH_METHOD)
@pytest.mark.slow
def test_a_run_of_each_method_in_parts_has_the_bits_of_the_cpu(
    method: str, run_in: RunIn, tmp_path: Path
) -> None:
    folder = compare(short(method), run_in, tmp_path)
    divisions = [part for record in records(folder, "consolidation") for part in record["division"] or ()]
    is_divided = any("trusted" in part for part in divisions)
    assert is_divided == any(name in method for name in DIVIDING)


@pytest.mark.parametrize("changes", [{"precision": "bf16"}, {"channels_last": True, "net": "resnet18:2"}])
@pytest.mark.slow
def test_precision_and_layout_have_the_bits_of_the_cpu(
    changes: dict[str, Any], run_in: RunIn, tmp_path: Path
) -> None:
    compare(short("aer-abs", per_class=4, momentum=0.9, **changes), run_in, tmp_path)


@pytest.mark.parametrize("method", ["aer-abs", pytest.param("er+fit", marks=pytest.mark.slow)])
@pytest.mark.slow
def test_skeletons_have_the_bits_of_the_cpu(method: str, run_in: RunIn, tmp_path: Path) -> None:
    skeletons = {"data": action_dataset(), "net": "efficientgcn-b0", "noise": "symmetric:0.2"}
    config = short(method, **skeletons, per_class=0, batch=12, buffer_size=6, channels_last=False)
    compare(config, run_in, tmp_path)


@pytest.mark.parametrize(
    "augment",
    [
        ImageTransform((0.5,) * 3, (0.2,) * 3).augmented,
        ImageTransform((0.5,) * 3, (0.2,) * 3).strong,
        lambda x, rng: strong_view(x, True, rng),
        lambda x, rng: cutmix(x, 1.0, rng).x,
    ],
)  # fmt: skip
def test_augmented_colour_images_have_the_bits_of_the_cpu(
    augment: Callable[[Tensor, torch.Generator], Tensor], device: torch.device
) -> None:
    x = torch.randint(256, (100, 3, 12, 12), generator=torch.Generator().manual_seed(0)).byte()
    expected, found = (augment(x.to(place), torch.Generator().manual_seed(1)) for place in ("cpu", device))
    assert found.device == device
    assert torch.equal(found.cpu(), expected)


def test_skeletons_with_strong_augmentation_have_the_bits_of_the_cpu(device: torch.device) -> None:
    data = action_dataset()
    x, augment = data.train.take(torch.arange(24)), data.spec.transform.strong
    expected, found = (augment(x.to(place), torch.Generator().manual_seed(1)) for place in ("cpu", device))
    assert torch.equal(found.cpu().nan_to_num(), expected.nan_to_num())


def test_a_run_from_python_has_the_bits_of_the_cpu(tmp_path: Path) -> None:
    settings = TINY | {"method": "er-ace", "tasks": 2, "epochs": 1}
    expected, found = (remnant.run(out=tmp_path, device=name, **settings) for name in ("cpu", NAME))
    assert found != expected
    assert_same_results(expected, found)


def test_inputs_labels_logits_and_networks_are_on_the_device_and_the_rest_is_on_the_cpu(
    device: torch.device,
) -> None:
    config = short("der++-aer-abs", device=NAME)
    stream = build_stream(config, None)
    learner = build_learner(config, stream)
    list(learner.learn(stream.tasks[0]))
    state = flat_tensors(learner.state_dict())
    on_device = {path for path, value in state.items() if value.device == device}
    assert on_device >= {"/buffer/x", "/buffer/y", "/buffer/logits", "/seen", "/weights/net/head.weight"}
    on_cpu = {"/buffer/id", "/buffer/task", "/loop/order", "/selection/scores/loss", "/rng/order"}
    assert on_cpu <= state.keys() - on_device
    restored = checkpoint.unpack(checkpoint.pack(learner.state_dict()))
    assert {value.device.type for value in flat_tensors(restored).values()} == {"cpu"}


def flat_tensors(value: Any, path: str = "") -> dict[str, Tensor]:  # noqa: ANN401
    if isinstance(value, dict):
        return {k: v for key, part in value.items() for k, v in flat_tensors(part, f"{path}/{key}").items()}
    return {path: value} if isinstance(value, Tensor) else {}


def test_samples_are_taken_to_the_device_from_memory_and_from_disk(device: torch.device) -> None:
    stream = tiny_stream().on(device)
    task, index = stream.tasks[0], torch.tensor([3, 0])
    source = task.source
    assert isinstance(source, InMemory)
    mapped = MemoryMapped(source.x.cpu().numpy(), np.arange(len(source)))
    for batch in (task.take(index), replace(task, source=mapped).take(index)):
        assert (batch.x.device, batch.y.device, batch.id.device.type) == (device, device, "cpu")
        assert torch.equal(batch.x.cpu(), source.x.cpu()[task.id[index]])


@pytest.mark.parametrize("method", ["aer-abs+consolidation", "der++", "spr", "cnll"])
def test_steps_are_timed_on_the_device(method: str) -> None:
    config = short(method, device=NAME)
    assert estimate(config, build_stream(config, None)).seconds[0] > 0
