"""A tensor on the wrong device, which nothing shows on the CPU, is an error on the pretend device."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from placement_runs import run_in_parts, short
from pretend_device import NAME, register
from torch import Tensor

from remnant.buffer import Buffer
from remnant.errors import RemnantError
from remnant.methods.cnll.semi import TwoHeads
from remnant.methods.consolidation import mixmatch, soft_labels
from remnant.methods.consolidation.training import ConsolidationLoop
from remnant.methods.replay import ReplayLearner
from remnant.methods.spr.learner import SprLearner
from remnant.stream import Batch, Task
from remnant.transforms.image import ImageTransform

Patch = pytest.MonkeyPatch


def after(patch: Patch, owner: type, name: str, change: Callable[[Any, Any], Any]) -> None:
    """Replace a method by itself and `change(self, result)`, which returns another result."""
    method = getattr(owner, name)

    def changed(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        return change(self, method(self, *args, **kwargs))

    patch.setattr(owner, name, changed)


def moved(self: Any, *names: str) -> None:  # noqa: ANN401
    """Move attributes to the CPU."""
    for name in names:
        setattr(self, name, getattr(self, name).cpu())


def buffer_inputs(patch: Patch) -> None:
    after(patch, Buffer, "__init__", lambda self, _: moved(self, "x"))


def buffer_labels(patch: Patch) -> None:
    after(patch, Buffer, "__init__", lambda self, _: moved(self, "y"))


def buffer_logits(patch: Patch) -> None:
    after(patch, Buffer, "__init__", lambda self, _: moved(self, "logits"))


def loaded_buffer(patch: Patch) -> None:
    patch.setattr(Buffer, "load_state_dict", lambda self, state: vars(self).update(state))


def seen_classes(patch: Patch) -> None:
    after(patch, ReplayLearner, "__init__", lambda self, _: moved(self, "seen"))


def batch_inputs(patch: Patch) -> None:
    after(patch, Task, "take", lambda self, batch: replace(batch, x=batch.x.cpu()))


def batch_labels(patch: Patch) -> None:
    after(patch, Task, "take", lambda self, batch: replace(batch, y=batch.y.cpu()))


def batch_ids_on_the_device(patch: Patch) -> None:
    def move(self: Task, batch: Batch) -> Batch:
        return replace(batch, id=batch.id.to(batch.x.device))

    after(patch, Task, "take", move)


def constants_of_a_transform(patch: Patch) -> None:
    after(patch, ImageTransform, "plain", lambda self, x: x - torch.tensor(self.mean).view(-1, 1, 1))


def draws_of_a_transform(patch: Patch) -> None:
    after(patch, ImageTransform, "plain", lambda self, x: x + torch.rand(x.shape))


def generator_of_a_transform(patch: Patch) -> None:
    def augmented(self: ImageTransform, x: Tensor, rng: torch.Generator) -> Tensor:
        return self.plain(x) + torch.rand(x.shape, generator=rng, device=x.device)

    patch.setattr(ImageTransform, "augmented", augmented)


def second_network(patch: Patch) -> None:
    after(patch, ConsolidationLoop, "__init__", lambda self, _: self.context.nets[1].cpu() and None)


def mixup_weights(patch: Patch) -> None:
    def mixup(x: Tensor, target: Tensor, weight: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
        weight = weight.to(x.dtype)
        return x.lerp(x[other], weight.view(-1, 1, 1, 1)), target.lerp(target[other], weight[:, None])

    patch.setattr(soft_labels, "mixup", mixup)


def trusted_labels(patch: Patch) -> None:
    def refine(clean: Tensor, onehot: Tensor, guess: Tensor) -> Tensor:
        return torch.lerp(guess, onehot, clean.to(guess.dtype)[:, None])

    patch.setattr(mixmatch, "refine", refine)


def head_of_spr(patch: Patch) -> None:
    def move(self: SprLearner, trainer: Any) -> Any:  # noqa: ANN401
        trainer.net.head.cpu()
        return trainer

    after(patch, SprLearner, "_contrastive", move)


def second_head_of_cnll(patch: Patch) -> None:
    after(patch, TwoHeads, "__init__", lambda self, _: moved(self, "second"))


FAULTS = {
    buffer_inputs: "er", buffer_labels: "er", buffer_logits: "der++", loaded_buffer: "er",
    seen_classes: "er", batch_inputs: "er", batch_labels: "er", batch_ids_on_the_device: "er",
    constants_of_a_transform: "er", draws_of_a_transform: "er", generator_of_a_transform: "er",
    second_network: "gdumb+coteaching", mixup_weights: "aer-abs+consolidation",
    trusted_labels: "aer-abs+consolidation", head_of_spr: "spr", second_head_of_cnll: "cnll",
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_tensor_on_the_wrong_device_is_an_error(
    fault: Callable[[Patch], None], tmp_path: Path, monkeypatch: Patch
) -> None:
    register()
    fault(monkeypatch)
    with pytest.raises((RuntimeError, RemnantError), match=r"same device|drawn on the CPU"):
        run_in_parts(short(FAULTS[fault], device=NAME), tmp_path, 5)


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_nothing_shows_it_on_the_cpu(
    fault: Callable[[Patch], None], tmp_path: Path, monkeypatch: Patch
) -> None:
    fault(monkeypatch)
    run_in_parts(short(FAULTS[fault], device="cpu"), tmp_path, 100)
