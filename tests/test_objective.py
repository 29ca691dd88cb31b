import pytest
import torch
from torch import Tensor, nn

from remnant.memory import Drawn
from remnant.objective import AsymmetricCrossEntropy, CrossEntropy, DarkReplay, Objective, OneBatch

LOGITS = torch.tensor([[2.0, 1.0, 0.0, -1.0]])


RNG = torch.Generator()


def seen(*classes: int) -> Tensor:
    mask = torch.zeros(4, dtype=torch.bool)
    mask[list(classes)] = True
    return mask


def drawn(x: Tensor, y: list[int], logits: Tensor | None = None) -> Drawn:
    return Drawn(x, torch.tensor(y), torch.empty(len(x), 0) if logits is None else logits)


def linear(seed: int = 0) -> nn.Linear:
    torch.manual_seed(seed)
    return nn.Linear(3, 4)


def test_plain_cross_entropy_by_hand() -> None:
    assert CrossEntropy().row_loss(LOGITS, torch.tensor([2]), seen(0, 1, 2)).item() == pytest.approx(
        2.4402, abs=1e-4
    )


def test_ace_masks_a_class_that_was_seen_and_is_absent() -> None:
    loss = AsymmetricCrossEntropy().row_loss(LOGITS, torch.tensor([2]), seen(0, 1, 2))
    assert loss.item() == pytest.approx(0.3133, abs=1e-4)


def test_ace_masks_also_the_other_class_of_the_current_task() -> None:
    loss = AsymmetricCrossEntropy().row_loss(LOGITS, torch.tensor([3]), seen(0, 1, 2, 3))
    assert loss.item() == pytest.approx(0.0, abs=1e-6)


def test_ace_lets_all_classes_of_the_batch_compete() -> None:
    logits, y = LOGITS.repeat(2, 1), torch.tensor([0, 1])
    loss = AsymmetricCrossEntropy().row_loss(logits, y, seen(0, 1, 2, 3))
    expected = torch.log1p(torch.exp(torch.tensor([-1.0, 1.0])))
    assert torch.allclose(loss, expected)


def test_the_stream_does_not_touch_the_weights_of_masked_classes() -> None:
    net = linear()
    ace = AsymmetricCrossEntropy()
    ace(
        net, torch.randn(5, 3), torch.tensor([2, 3, 2, 3, 2]), None, seen(0, 1, 2, 3), RNG
    ).loss.backward()
    assert net.weight.grad is not None
    assert (net.weight.grad[:2] == 0).all()
    assert (net.weight.grad[2:] != 0).any()


def test_replayed_rows_are_never_masked() -> None:
    net, old = linear(), torch.randn(2, 3)
    x, y, mask = torch.randn(2, 3), torch.tensor([2, 3]), seen(0, 1, 2, 3)
    ace = AsymmetricCrossEntropy()
    alone = ace(net, x, y, None, mask, RNG).loss
    both = ace(net, x, y, lambda: drawn(old, [0, 1]), mask, RNG).loss
    expected = nn.functional.cross_entropy(net(old), torch.tensor([0, 1]))
    assert torch.allclose(both - alone, expected)


def test_replay_adds_a_mean_of_its_own() -> None:
    net, x, old = linear(), torch.randn(4, 3), torch.randn(2, 3)
    y = torch.tensor([0, 1, 2, 3])
    loss = CrossEntropy()(net, x, y, lambda: drawn(old, [0, 1]), seen(0, 1, 2, 3), RNG).loss
    first = nn.functional.cross_entropy(net(x), y)
    second = nn.functional.cross_entropy(net(old), torch.tensor([0, 1]))
    assert torch.allclose(loss, first + second)


@pytest.mark.parametrize("objective", [CrossEntropy(), AsymmetricCrossEntropy(), DarkReplay()])
def test_without_a_draw_there_is_only_the_stream(objective: Objective) -> None:
    net, x, y = linear(), torch.randn(4, 3), torch.tensor([0, 1, 2, 3])
    outcome = objective(net, x, y, None, seen(0, 1, 2, 3), RNG)
    assert torch.allclose(outcome.loss, nn.functional.cross_entropy(net(x), y))
    assert not outcome.logits.requires_grad


def test_dark_replay_adds_both_terms_from_two_draws() -> None:
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


def test_dark_replay_of_weight_zero_never_draws() -> None:
    def draw() -> Drawn:
        raise AssertionError("nothing should be drawn")

    net, x, y = linear(), torch.randn(4, 3), torch.tensor([0, 1, 2, 3])
    DarkReplay(0.0, 0.0)(net, x, y, draw, seen(0), RNG)


def test_stored_logits_that_still_hold_cost_nothing() -> None:
    net, x = linear(), torch.randn(4, 3)
    y, old = torch.tensor([0, 1, 2, 3]), torch.randn(2, 3)
    replay = drawn(old, [0, 1], net(old).detach())
    loss = DarkReplay(1.0, 0.0)(net, x, y, lambda: replay, seen(0, 1, 2, 3), RNG).loss
    assert torch.allclose(loss, nn.functional.cross_entropy(net(x), y))


def test_negative_weights_are_refused() -> None:
    with pytest.raises(ValueError, match="weights >= 0"):
        DarkReplay(alpha=-1.0)


def test_one_batch_is_one_mean_over_stream_and_strongly_augmented_memory() -> None:
    net, x, y = linear(), torch.randn(4, 3), torch.tensor([0, 1, 2, 3])
    asked = []

    def draw(*, strong: bool = False) -> Drawn:
        asked.append(strong)
        return drawn(torch.ones(2, 3), [1, 2])

    outcome = OneBatch(cutmix=0.0)(net, x, y, draw, seen(0, 1, 2, 3), RNG)
    everything = torch.cat([net(x), net(torch.ones(2, 3))])
    expected = nn.functional.cross_entropy(everything, torch.cat([y, torch.tensor([1, 2])]))
    assert torch.allclose(outcome.loss, expected)
    assert asked == [True]
    assert torch.equal(outcome.logits, net(x).detach())
