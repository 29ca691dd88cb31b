import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from rank_helpers import group, in_ranks
from torch import Tensor, nn

from remnant.nets.efficientgcn import Dropout


class Normed(nn.Module):
    """All kinds of layers that depend on a batch, a layer that is not used and one that is not trained."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(48, 5),
            nn.BatchNorm1d(5, affine=False, momentum=None), Dropout(0.3),
            nn.BatchNorm1d(5, track_running_stats=False),
        )  # fmt: skip
        self.body[4].requires_grad_(False)
        self.head, self.unused = nn.Linear(5, 4), nn.Linear(5, 4)

    def features(self, x: Tensor) -> Tensor:
        result: Tensor = self.body(x)
        return result

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.head(self.features(x))
        return result


def net() -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Normed().double()


def batch(samples: int) -> tuple[Tensor, Tensor]:
    rng = torch.Generator().manual_seed(samples)
    x = torch.randn(samples, 1, 6, 6, generator=rng, dtype=torch.float64) + 100
    return x, torch.randint(4, (samples,), generator=rng)


def state_after(network: nn.Module, samples: int, steps: int = 3) -> dict[str, Any]:
    """Train for a few steps of two forward passes, the second of features; return everything that changes."""
    found: dict[str, Any] = {}
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    for _ in range(steps):
        (x, y), (other, other_y) = batch(samples), batch(samples + 2)
        other.requires_grad_()
        loss = F.cross_entropy(network(x), y)
        loss = loss + F.cross_entropy(network.head(network.features(other)), other_y).square()  # type: ignore[operator]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found["loss"] = loss.item()
    found |= {f"gradient of {k}": w.grad if w.grad is None else w.grad.tolist()
              for k, w in network.named_parameters()}  # fmt: skip
    found |= {name: value.tolist() for name, value in network.state_dict().items()}
    network.eval()
    with torch.inference_mode():
        found["evaluated"] = network(x).tolist()
    return found | {"gradient of the input": None if other.grad is None else other.grad.tolist()}


def assert_close(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        if value is None:
            assert found[name] is None, name
        else:
            a, b = (torch.tensor(v, dtype=torch.float64) for v in (found[name], value))
            torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-10, msg=lambda text, n=name: f"{n}: {text}")


@pytest.mark.parametrize(("count", "samples"), [(2, 8), (3, 7)])
def test_training_in_shares_equals_training_on_whole_batches(
    tmp_path: Path, count: int, samples: int
) -> None:
    whole = state_after(net(), samples)
    first, *others = in_ranks(count, tmp_path, lambda: state_after(group().prepare(net()), samples))
    assert_close(first, whole)
    assert others == [first] * (count - 1)  # bit for bit


def test_a_batch_with_fewer_samples_than_ranks_is_computed_by_all(tmp_path: Path) -> None:
    whole = state_after(net(), 2)
    for found in in_ranks(3, tmp_path, lambda: state_after(group().prepare(net()), 2)):
        assert_close(found, whole)


def test_a_rank_computes_its_share_only(tmp_path: Path) -> None:
    def work() -> list[int]:
        sizes: list[int] = []

        class Counting(nn.Linear):
            def forward(self, x: Tensor) -> Tensor:
                sizes.append(len(x))
                return super().forward(x)

        group().prepare(nn.Sequential(Counting(1, 1)))(torch.zeros(5, 1))
        return sizes

    assert in_ranks(2, tmp_path, work) == [[2], [3]]


def test_names_and_copies_of_a_network_stay_as_they_are(tmp_path: Path) -> None:
    def work() -> list[bool]:
        split = copy.deepcopy(group().prepare(net()))
        return [list(split.state_dict()) == list(net().state_dict()), isinstance(split, Normed)]

    assert in_ranks(2, tmp_path, work) == [[True, True]] * 2


@pytest.mark.parametrize(("kind", "mean"), [(torch.float32, 1000), (torch.bfloat16, 1)])
def test_statistics_are_as_exact_as_those_of_torch(tmp_path: Path, kind: torch.dtype, mean: int) -> None:
    x = (torch.arange(32.0).view(8, 2, 2) / 32 + mean).to(kind)  # far from 0, with a small variance

    def output(prepare: Callable[[nn.Module], nn.Module]) -> list[Any]:
        normed = prepare(nn.Sequential(nn.BatchNorm1d(2)))(x)
        return [normed.float().tolist(), str(normed.dtype)]

    values, name = output(lambda net: net)
    for found in in_ranks(2, tmp_path, lambda: output(group().prepare)):
        torch.testing.assert_close(torch.tensor(found[0]), torch.tensor(values), rtol=1e-3, atol=1e-3)
        assert found[1] == name
