import pytest
import torch
from torch import Tensor, nn

from remnant.buffer.buffer import ReplayBatch
from remnant.methods.objective import (
    AsymmetricCrossEntropy,
    CrossEntropy,
    DarkReplay,
    Objective,
    OneBatch,
)

LOGITS = torch.tensor([[2.0, 1.0, 0.0, -1.0]])
RNG = torch.Generator()


def seen(*classes: int) -> Tensor:
    mask = torch.zeros(4, dtype=torch.bool)
    mask[list(classes)] = True
    return mask


def drawn(x: Tensor, y: list[int], logits: Tensor | None = None) -> ReplayBatch:
    return ReplayBatch(x, torch.tensor(y), torch.empty(len(x), 0) if logits is None else logits)


def linear(seed: int = 0) -> nn.Linear:
    torch.manual_seed(seed)
    return nn.Linear(3, 4)


def test_plain_cross_entropy_of_a_hand_worked_example() -> None:
    assert CrossEntropy().sample_loss(LOGITS, torch.tensor([2]), seen(0, 1, 2)).item() == pytest.approx(
        2.4402, abs=1e-4
    )


def test_asymmetric_cross_entropy_masks_classes_seen_before_that_are_absent() -> None:
    loss = AsymmetricCrossEntropy().sample_loss(LOGITS, torch.tensor([2]), seen(0, 1, 2))
    assert loss.item() == pytest.approx(0.3133, abs=1e-4)


def test_asymmetric_cross_entropy_also_masks_absent_classes_of_the_current_task() -> None:
    loss = AsymmetricCrossEntropy().sample_loss(LOGITS, torch.tensor([3]), seen(0, 1, 2, 3))
    assert loss.item() == pytest.approx(0.0, abs=1e-6)


def test_asymmetric_cross_entropy_compares_all_classes_of_the_batch() -> None:
    logits, y = LOGITS.repeat(2, 1), torch.tensor([0, 1])
    loss = AsymmetricCrossEntropy().sample_loss(logits, y, seen(0, 1, 2, 3))
    expected = torch.log1p(torch.exp(torch.tensor([-1.0, 1.0])))
    assert torch.allclose(loss, expected)


def test_the_stream_does_not_change_the_weights_of_masked_classes() -> None:
    net = linear()
    ace = AsymmetricCrossEntropy()
    ace(net, torch.randn(5, 3), torch.tensor([2, 3, 2, 3, 2]), None, seen(0, 1, 2, 3), RNG).loss.backward()
    assert net.weight.grad is not None
    assert (net.weight.grad[:2] == 0).all()
    assert (net.weight.grad[2:] != 0).any()


def test_replayed_samples_are_never_masked() -> None:
    net, old = linear(), torch.randn(2, 3)
    x, y, mask = torch.randn(2, 3), torch.tensor([2, 3]), seen(0, 1, 2, 3)
    ace = AsymmetricCrossEntropy()
    alone = ace(net, x, y, None, mask, RNG).loss
    both = ace(net, x, y, lambda: drawn(old, [0, 1]), mask, RNG).loss
    expected = nn.functional.cross_entropy(net(old), torch.tensor([0, 1]))
    assert torch.allclose(both - alone, expected)


def test_replay_adds_the_mean_over_the_replayed_batch() -> None:
    net, x, old = linear(), torch.randn(4, 3), torch.randn(2, 3)
    y = torch.tensor([0, 1, 2, 3])
    loss = CrossEntropy()(net, x, y, lambda: drawn(old, [0, 1]), seen(0, 1, 2, 3), RNG).loss
    first = nn.functional.cross_entropy(net(x), y)
    second = nn.functional.cross_entropy(net(old), torch.tensor([0, 1]))
    assert torch.allclose(loss, first + second)


@pytest.mark.parametrize("objective", [CrossEntropy(), AsymmetricCrossEntropy(), DarkReplay()])
def test_without_replay_the_loss_is_that_of_the_stream(objective: Objective) -> None:
    net, x, y = linear(), torch.randn(4, 3), torch.tensor([0, 1, 2, 3])
    outcome = objective(net, x, y, None, seen(0, 1, 2, 3), RNG)
    assert torch.allclose(outcome.loss, nn.functional.cross_entropy(net(x), y))
    assert not outcome.logits.requires_grad


def test_dark_replay_adds_two_terms_from_two_draws() -> None:
    net, x, y = linear(), torch.randn(4, 3), torch.tensor([0, 1, 2, 3])
    draws = [drawn(torch.ones(1, 3), [0], torch.zeros(1, 4)), drawn(-torch.ones(1, 3), [1])]
    remaining = iter(draws)
    loss = DarkReplay(0.3, 0.5)(net, x, y, lambda: next(remaining), seen(0, 1, 2, 3), RNG).loss
    expected = (
        nn.functional.cross_entropy(net(x), y)
        + 0.3 * net(torch.ones(1, 3)).square().mean()
        + 0.5 * nn.functional.cross_entropy(net(-torch.ones(1, 3)), torch.tensor([1]))
    )
    assert torch.allclose(loss, expected)


def test_dark_replay_does_not_draw_for_a_term_of_weight_zero() -> None:
    def draw() -> ReplayBatch:
        raise AssertionError("nothing should be drawn")

    net, x, y = linear(), torch.randn(4, 3), torch.tensor([0, 1, 2, 3])
    DarkReplay(0.0, 0.0)(net, x, y, draw, seen(0), RNG)


def test_stored_logits_that_the_network_still_predicts_add_no_loss() -> None:
    net, x = linear(), torch.randn(4, 3)
    y, old = torch.tensor([0, 1, 2, 3]), torch.randn(2, 3)
    replay = drawn(old, [0, 1], net(old).detach())
    loss = DarkReplay(1.0, 0.0)(net, x, y, lambda: replay, seen(0, 1, 2, 3), RNG).loss
    assert torch.allclose(loss, nn.functional.cross_entropy(net(x), y))


def test_settings_out_of_range_are_errors() -> None:
    with pytest.raises(ValueError, match=r"expected alpha and beta >= 0, got -1.0 and 0.5"):
        DarkReplay(alpha=-1.0)
    with pytest.raises(ValueError, match=r"expected alpha and beta >= 0, got 0.1 and inf"):
        DarkReplay(beta=float("inf"))
    with pytest.raises(ValueError, match=r"expected cutmix as a probability in \[0, 1\], got 1.5"):
        OneBatch(cutmix=1.5)


def test_one_batch_is_one_mean_over_the_stream_and_strongly_augmented_buffer_samples() -> None:
    net, x, y = linear(), torch.randn(4, 3), torch.tensor([0, 1, 2, 3])
    asked = []

    def draw(*, strong: bool = False) -> ReplayBatch:
        asked.append(strong)
        return drawn(torch.ones(2, 3), [1, 2])

    outcome = OneBatch(cutmix=0.0)(net, x, y, draw, seen(0, 1, 2, 3), RNG)
    everything = torch.cat([net(x), net(torch.ones(2, 3))])
    expected = nn.functional.cross_entropy(everything, torch.cat([y, torch.tensor([1, 2])]))
    assert torch.allclose(outcome.loss, expected)
    assert asked == [True]
    assert torch.equal(outcome.logits, net(x).detach())
