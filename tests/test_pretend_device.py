import gc
import signal
import weakref
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from pretend_device import register
from run_helpers import in_child, kill_self
from torch import Tensor, nn

from remnant.engine.backend import Backend
from remnant.engine.diagnosis import is_as_known, self_test

X, Y, MASK, ONE = (
    torch.arange(6.0).view(2, 3),
    torch.tensor([1, 0]),
    torch.tensor([1, 0]) > 0,
    torch.tensor(1.0),
)
REFUSED = r"same device|drawn on the CPU"


@pytest.fixture(scope="module")
def device() -> torch.device:
    return register()


@pytest.mark.parametrize(
    "mix",
    [
        lambda x: x + X,
        lambda x: X + x,
        lambda x: x.add_(X),
        lambda x: torch.cat([x, X]),
        lambda x: torch.stack([X, x]),
        lambda x: x @ X.T,
        lambda x: F.cross_entropy(x, Y),
        lambda x: F.linear(x, X),
        lambda x: F.conv1d(x[None], X[None]),
        lambda x: F.batch_norm(x, torch.zeros(3), torch.ones(3)),
        lambda x: x.masked_fill(MASK[:, None], 0.0),
        lambda x: torch.where(MASK[:, None], x, x),
        lambda x: x.lerp(x, X),
        lambda x: x.gather(1, Y[:, None]),
        lambda x: x.index_select(0, Y),
        lambda x: X[Y.to(x.device)],
        lambda x: x.__setitem__(Y, X),
        lambda x: torch.isin(x, X),
        lambda x: torch.rand(3, device=x.device),
        lambda x: torch.rand(3, device=x.device, generator=torch.Generator()),
        lambda x: torch.randperm(3, device=x.device),
        lambda x: F.dropout(x),
    ],
)  # fmt: skip
def test_tensors_of_two_devices_are_not_mixed_and_no_random_numbers_are_drawn(
    mix: Callable[[Tensor], object], device: torch.device
) -> None:
    with pytest.raises(RuntimeError, match=REFUSED):
        mix(X.to(device))


@pytest.mark.parametrize(
    "compute",
    [
        lambda x: x + ONE,
        lambda x: ONE - x,
        lambda x: x.remainder(4) + 2**x,
        lambda x: x[Y],
        lambda x: x[Y.to(x.device)],
        lambda x: x[MASK],
        lambda x: x.T[1:, 0],
        lambda x: x.view(3, 2).flip(1).unbind(1)[0],
        lambda x: x.sort(1, descending=True).values,
        lambda x: torch.nonzero(x > 2),
        lambda x: x.unique(),
        lambda x: F.one_hot(x.long()),
        lambda x: x.double().log_softmax(1).to(torch.bfloat16),
        lambda x: torch.arange(5, device=x.device) * 2,
        lambda x: x.index_put((Y,), x),
    ],
)  # fmt: skip
def test_results_are_those_of_the_cpu(compute: Callable[[Tensor], Tensor], device: torch.device) -> None:
    found, expected = compute(X.to(device)), compute(X)
    assert found.device == device
    assert (found.dtype, found.shape, found.stride()) == (expected.dtype, expected.shape, expected.stride())
    assert torch.equal(found.cpu(), expected)


def test_values_are_read_on_the_cpu_only(device: torch.device) -> None:
    with pytest.raises(TypeError, match="convert pretend:0 device type tensor to numpy"):
        X.to(device).numpy()


def test_views_share_their_values(device: torch.device) -> None:
    x = torch.zeros(2, 3, device=device)
    view, alias = x.T[1], x.detach()
    view.fill_(5)
    x[0, torch.tensor([0])] = torch.tensor(7.0)
    assert alias.tolist() == [[7, 5, 0], [0, 5, 0]]
    assert view.data_ptr() == x.data_ptr() + 4


def test_values_are_freed_with_the_last_view(device: torch.device) -> None:
    class Canary:
        pass

    x, canary = torch.zeros(8, device=device), Canary()
    x.untyped_storage().canary = canary  # type: ignore[attr-defined]
    is_freed, view = weakref.ref(canary), x[2:]
    del x, canary
    gc.collect()
    assert is_freed() is not None
    del view
    gc.collect()
    assert is_freed() is None


@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_training_has_the_bits_of_the_cpu(precision: str, device: torch.device) -> None:
    trained = []
    for place in (torch.device("cpu"), device):
        rng = torch.Generator().manual_seed(0)
        x, y = torch.randn(8, 1, 8, 8, generator=rng).to(place), (torch.arange(8) % 4).to(place)
        layers = nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 4)
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            for p in nn.Sequential(*layers).parameters():
                p.copy_(torch.randn(p.shape, generator=rng) / 4)
        net = Backend(place, precision).prepare(nn.Sequential(*layers))
        optimizer = torch.optim.Adam(net.parameters(), fused=True)
        for _ in range(4):
            optimizer.zero_grad()
            F.cross_entropy(net(x), y).backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
        trained.append(net.state_dict())
    assert all(torch.equal(value, trained[1][name].cpu()) for name, value in trained[0].items())
    assert {value.device for value in trained[1].values()} == {device}


@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_the_self_test_gives_the_known_loss(precision: str, device: torch.device) -> None:
    assert is_as_known(self_test(Backend(device, precision)), precision)


def test_a_forked_process_can_still_train(device: torch.device) -> None:
    torch.ones(1, device=device, requires_grad=True).backward()

    def train() -> None:
        torch.ones(1, requires_grad=True).backward()
        kill_self()

    assert in_child(train) == signal.SIGKILL


def test_generators_of_the_cpu_are_still_forked_without_naming_devices(device: torch.device) -> None:
    with torch.random.fork_rng():
        inside = torch.rand(1)
    assert torch.equal(torch.rand(1), inside)
