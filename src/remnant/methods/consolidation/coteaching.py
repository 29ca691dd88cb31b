"""Co-teaching (Han et al., 2018) on the buffer: two networks select samples for each other."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor

from remnant.errors import RemnantError
from remnant.methods.consolidation.base import Consolidation, ConsolidationContext, StepBatch
from remnant.methods.consolidation.division import Division
from remnant.settings import expect, setting
from remnant.transforms.mixing import cutmix


@dataclass(frozen=True, kw_only=True)
class CoTeaching(Consolidation):
    """Two networks, each trained on the samples of a batch on which the other has the smallest loss."""

    forget_rate: float = setting(-1.0, "fraction of samples left out; -1: the noise rate", tuned=True)
    ramp: int = setting(10, "epochs until forget_rate is reached")
    cutmix: float = setting(0.0, "probability of applying CutMix to a batch")

    networks: ClassVar[int] = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        rules = {
            "forget_rate in [0, 1), or -1": 0 <= self.forget_rate < 1 or self.forget_rate == -1,
            "ramp >= 1": self.ramp >= 1,
            "cutmix in [0, 1]": 0 <= self.cutmix <= 1,
        }
        expect(rules, self)

    def check_noise_rate(self, noise_rate: float | None, data: str) -> None:
        """Raise RemnantError if the fraction of samples to leave out is neither known nor given."""
        if self.forget_rate < 0 and noise_rate is None:
            raise RemnantError(
                "consolidation.forget_rate: expected the fraction of noisy labels, which co-teaching leaves "
                f"out, but that of {data} is unknown. Set an estimate, such as --set "
                "consolidation.forget_rate=0.2, or use another consolidation."
            )

    def kept(self, samples: int, epoch: int, noise_rate: float | None) -> int:
        """Return how many samples of a batch each network is trained on.

        >>> [CoTeaching(forget_rate=0.4).kept(32, epoch, 0.0) for epoch in (0, 1, 10, 11)]
        [32, 31, 20, 20]
        """
        rate = noise_rate if noise_rate is not None and self.forget_rate < 0 else self.forget_rate
        remembered = 1 - min(rate * epoch / self.ramp, rate)
        return max(1, math.ceil(round(remembered * samples, 9)))  # round off the floating-point error

    def loss(
        self, context: ConsolidationContext, step: StepBatch, division: Division | None, epoch: int
    ) -> Tensor:
        """Return the sum of both networks' losses, each on the samples selected by the other."""
        mixed = cutmix(context.augmented(step.samples), self.cutmix, context.rng)
        y = context.buffer.y[step.samples]

        def losses(k: int) -> Tensor:
            logits = context.nets[k](mixed.x)
            own = F.cross_entropy(logits, y, reduction="none")
            return mixed.blend(own, F.cross_entropy(logits, y[mixed.other], reduction="none"))

        return cross_selected(losses(0), losses(1), self.kept(len(y), epoch, context.noise_rate))


def cross_selected(first: Tensor, second: Tensor, count: int) -> Tensor:
    """Return the mean loss of each network on the `count` smallest losses of the other, summed.

    >>> import torch
    >>> cross_selected(torch.tensor([0.0, 9.0]), torch.tensor([9.0, 0.0]), 1)
    tensor(18.)
    """
    for_first = second.detach().argsort(stable=True)[:count]
    for_second = first.detach().argsort(stable=True)[:count]
    return first[for_first].mean() + second[for_second].mean()
