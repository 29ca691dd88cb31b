from dataclasses import replace

import numpy as np
import pytest
import reference_cnll as reference
import torch
from hypothesis import given, strategies as st
from torch import Tensor, nn

from remnant.methods.cnll import Cnll
from remnant.methods.cnll.semi import Augmenter, TwoHeads, Views, fine_tuning_loss, warm_up_loss
from remnant.transforms.image import ImageTransform


class Plain(nn.Module):
    """Features and a head without BatchNorm, so that samples of a batch do not affect each other."""

    def __init__(self, seed: int, classes: int) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.body = nn.Linear(5, 3, dtype=torch.float64)
            self.head = nn.Linear(3, classes, dtype=torch.float64)

    def features(self, x: Tensor) -> Tensor:
        return self.body(x).tanh()

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(x))


def two_heads(seed: int, classes: int = 4) -> TwoHeads:
    return TwoHeads(Plain(seed, classes), Plain(seed + 1, classes))


def random_views(labelled: int, unlabelled: int, seed: int, classes: int = 4) -> Views:
    rng = torch.Generator().manual_seed(seed)

    def views(count: int) -> Tensor:
        return torch.randn(2 * count, 5, generator=rng, dtype=torch.float64)

    y = torch.randint(classes, (labelled,), generator=rng)
    onehot = nn.functional.one_hot(y, classes).double()
    weight = torch.rand(1, generator=rng, dtype=torch.float64)
    other = torch.randperm(2 * (labelled + unlabelled), generator=rng)
    return Views(views(labelled), onehot, views(unlabelled), views(unlabelled), weight, other)


@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(0, 4), st.floats(0, 12))
def test_the_fine_tuning_loss_matches_the_reference(
    seed: int, labelled: int, unlabelled: int, epoch: float
) -> None:
    net, views, settings = two_heads(seed), random_views(labelled, unlabelled, seed), Cnll()
    seen = [True, seed % 2 == 0, True, False]
    loss = fine_tuning_loss(net, views, settings, epoch, torch.tensor(seen))

    def first(x: np.ndarray) -> np.ndarray:
        return net(torch.from_numpy(x)[None])[0].detach().numpy()

    def second(x: np.ndarray) -> np.ndarray:
        return net.both(torch.from_numpy(x)[None])[1][0].detach().numpy()

    expected = reference.fine_tuning_loss(
        first, second,
        labelled=views.labelled.view(2, labelled, 5).numpy(),
        onehot=views.onehot.numpy(),
        weak=views.weak.view(2, unlabelled, 5).numpy(),
        strong=views.strong.view(2, unlabelled, 5).numpy(),
        temperature=settings.temperature,
        weight=reference.ramp(epoch, 30, 5, 16),
        lam=views.weight.item(),
        permutation=views.other.tolist(),
        seen=seen,
    )  # fmt: skip
    assert (loss.supervised.item(), loss.unsupervised.item()) == pytest.approx(expected, rel=1e-6)


def gradients(net: TwoHeads, loss: Tensor) -> dict[str, float]:
    net.zero_grad()
    loss.backward()
    return {n: 0.0 if p.grad is None else float(p.grad.abs().sum()) for n, p in net.named_parameters()}


def test_the_unsupervised_loss_has_no_gradient_on_the_first_head() -> None:
    net, views = two_heads(0), random_views(3, 4, 0)
    loss = fine_tuning_loss(net, views, Cnll(), 9.0, torch.ones(4, dtype=torch.bool))
    size = gradients(net, loss.unsupervised)
    assert size["net.head.weight"] == 0
    assert size["net.head.bias"] == 0
    assert min(size["second.weight"], size["second.bias"], size["net.body.weight"]) > 0


def test_the_supervised_loss_has_no_gradient_on_the_second_head() -> None:
    net, views = two_heads(0), random_views(3, 4, 0)
    loss = fine_tuning_loss(net, views, Cnll(), 9.0, torch.ones(4, dtype=torch.bool))
    size = gradients(net, loss.supervised)
    assert size["second.weight"] == size["second.bias"] == 0
    assert min(size["net.head.weight"], size["net.body.weight"]) > 0


def test_labels_are_guessed_from_weakly_augmented_views_only() -> None:
    net, views, seen = two_heads(0), random_views(2, 3, 0), torch.ones(4, dtype=torch.bool)
    unmixed = replace(views, weight=torch.ones(1, dtype=torch.float64))
    shifted = replace(unmixed, weak=unmixed.weak + 1)
    before, after = (fine_tuning_loss(net, v, Cnll(), 9.0, seen) for v in (unmixed, shifted))
    assert before.supervised == after.supervised
    assert before.unsupervised != after.unsupervised
    with torch.no_grad():
        p = net(unmixed.weak).softmax(1)
        guess = ((p[:3] + p[3:]) / 2) ** 2
        guess /= guess.sum(1, keepdim=True)
        second = net.both(unmixed.strong)[1].softmax(1)
    expected = 0.1 * 7.5 * ((second - torch.cat([guess, guess])) ** 2).mean()
    without = fine_tuning_loss(net, unmixed, Cnll(), 5.0, seen)  # lambda_u is still 0
    assert (before.unsupervised - without.unsupervised).item() == pytest.approx(expected.item())


def test_the_warm_up_loss_is_cross_entropy_minus_entropy_with_the_confidence_penalty() -> None:
    net, x, y = two_heads(0), torch.randn(3, 5, dtype=torch.float64), torch.tensor([0, 2, 1])
    onehot = nn.functional.one_hot(y, 4).double()
    plain = nn.functional.cross_entropy(net(x), y)
    entropy = torch.distributions.Categorical(logits=net(x)).entropy().mean()
    assert warm_up_loss(net, x, onehot, False).item() == pytest.approx(plain.item())
    assert warm_up_loss(net, x, onehot, True).item() == pytest.approx((plain - entropy).item())


def test_unlabelled_samples_have_two_weak_and_two_strong_views() -> None:
    transform = ImageTransform(mean=(0.5,), std=(0.3,), pad=1, flip=False)
    grey, onehot = torch.full((40, 1, 6, 6), 200, dtype=torch.uint8), torch.eye(40)
    augmenter = Augmenter(transform, torch.Generator().manual_seed(0))
    views = augmenter.views(grey[:2], onehot[:2], grey, 4.0)
    known = transform.plain(torch.tensor([0, 200], dtype=torch.uint8).view(2, 1, 1, 1)).flatten()
    assert torch.isin(views.weak, known).all()  # shifted, with black padding
    assert not torch.isin(views.strong, known).all()
    counts = [len(v) for v in (views.labelled, views.weak, views.strong, views.other)]
    assert counts == [4, 80, 80, 84]
    assert len(views.weight) == 1
