"""Gradients of the losses, compared with finite differences in double precision."""

import pytest
import torch
from consolidation_context import CLASSES
from torch import Tensor

from remnant.methods.objective import OBJECTIVES


@pytest.mark.parametrize("name", [name for name in OBJECTIVES if name != "one-batch"])  # CutMix needs images
def test_the_gradient_of_each_objective_is_that_of_finite_differences(name: str) -> None:
    y, seen = torch.tensor([0, 2, 2]), torch.tensor([True, True, True, False])

    def loss(logits: Tensor) -> Tensor:
        net = torch.nn.Identity()
        return OBJECTIVES[name](net, logits, y, None, seen, torch.Generator().manual_seed(0)).loss

    logits = torch.randn(3, CLASSES, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    assert torch.autograd.gradcheck(loss, logits.requires_grad_())
