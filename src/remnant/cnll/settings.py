"""What CNLL can be told."""

import math
from dataclasses import dataclass

from remnant.component import expect, tuned


@dataclass(frozen=True, kw_only=True)
class Cnll:
    """Sizes of the five buffers, how their rows are divided, and how long and fast they are learned."""

    delay: int = 500  # rows that wait to be judged
    clean: int = 500  # rows judged clean; the network is fine-tuned when there are so many
    noisy: int = 500  # rows judged noisy since then
    clean_store: int = 500  # clean rows that are replayed; 0: as many as there are
    noisy_store: int = 500  # noisy rows that are replayed; 0: as many as there are
    clean_kept: int = 25  # of the surest clean rows of a delay, offered to the store
    noisy_kept: int = 50  # of the surest noisy rows
    hardened: bool = False  # a label agrees with the largest class, or it does not: no degrees
    batch: int = 64  # rows in a step; as many unlabelled ones beside them
    momentum: float = 0.9
    weight_decay: float = 5e-4
    warmup_epochs: int = 5  # on each delay
    warmup_lr: float = tuned(5e-4)
    warmup_lr_end: float = tuned(2e-4)  # of a cosine
    warmup_span: int = 240  # epochs that this cosine would take
    confidence_penalty: bool = False  # in the warm-up; for asymmetric noise
    finetune_epochs: int = 10
    finetune_lr: float = tuned(0.025)
    lambda_u: float = tuned(
        30.0
    )  # a tenth of it is the weight of unlabelled rows, at the end of the ramp
    quiet: int = 5  # epochs of fine-tuning before the ramp
    ramp: int = 16  # epochs it takes
    temperature: float = 0.5  # below 1 sharpens the guessed labels
    mixup: float = 4.0  # both parameters of the Beta distribution

    def __post_init__(self) -> None:
        least = {"delay": 2, "clean": 1, "noisy": 1, "clean_store": 0, "noisy_store": 0}
        least |= {"clean_kept": 0, "noisy_kept": 0, "warmup_epochs": 0, "finetune_epochs": 1, "quiet": 0}
        least |= {"warmup_span": 1, "ramp": 1, "lambda_u": 0, "weight_decay": 0, "warmup_lr_end": 0}
        least |= {"batch": 3}  # so that no batch has one row: BatchNorm needs two
        rules = {f"{name} >= {value}": getattr(self, name) >= value for name, value in least.items()}
        positive = ("warmup_lr", "finetune_lr", "temperature", "mixup")
        rules |= {f"{name} > 0": getattr(self, name) > 0 for name in positive}
        expect(rules | {"momentum in [0, 1)": 0 <= self.momentum < 1}, self)

    def warmup_rate(self, epoch: int) -> float:
        """Return the rate of a warm-up, which begins anew with each delay: a cosine, then its end.

        >>> [round(Cnll().warmup_rate(epoch), 6) for epoch in (0, 120, 240, 500)]
        [0.0005, 0.00035, 0.0002, 0.0002]
        """
        done = min(1.0, epoch / self.warmup_span)
        height = (1 + math.cos(math.pi * done)) / 2
        return self.warmup_lr_end + (self.warmup_lr - self.warmup_lr_end) * height

    def weight(self, epoch: float) -> float:
        """Return lambda_u after so many epochs of fine-tuning, and parts of one.

        >>> [Cnll().weight(epoch) for epoch in (4.5, 5, 9, 13, 21, 30)]
        [0.0, 0.0, 7.5, 15.0, 30.0, 30.0]
        """
        return self.lambda_u * min(1.0, max(0.0, (epoch - self.quiet) / self.ramp))
