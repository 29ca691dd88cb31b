import torch

from remnant.nets.head import NormedHead


def test_logits_are_normalised_over_the_batch() -> None:
    head = NormedHead(8, 3).train()
    logits = head(5 + 7 * torch.randn(50, 8))
    assert torch.allclose(logits.mean(0), torch.zeros(3), atol=1e-5)
    assert torch.allclose(logits.var(0, unbiased=False), torch.ones(3), atol=1e-4)


def test_the_head_has_weights_without_bias() -> None:
    head = NormedHead(8, 3)
    assert head.weight is head.linear.weight
    assert head.weight.shape == (3, 8)
    assert head.linear.bias is None
    assert head.norm.eps == 1e-6
