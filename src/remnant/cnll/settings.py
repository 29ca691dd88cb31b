"""What CNLL can be told."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from remnant.component import expect, tuned
from remnant.protocol import STREAM, Plan, Work

WARM_UP, FINE_TUNING = "warm-up", "fine-tuning"  # its kinds of work
BUFFERS = ("clean_store", "noisy_store", "clean", "noisy", "delay")  # first, what is replayed


@dataclass(frozen=True, kw_only=True)
class Cnll:
    """Five buffers: rows wait, are judged clean or noisy, and teach with their labels or without."""

    delay: int = 0  # rows that wait to be judged; 0: as many as `buffer`, in all five
    clean: int = 0  # rows judged clean; the network is fine-tuned when there are so many
    noisy: int = 0  # rows judged noisy since then
    clean_store: int = 0  # clean rows that are replayed
    noisy_store: int = 0  # noisy rows that are replayed
    unlimited: bool = False  # the two stores have no end
    clean_kept: int = 25  # of the surest clean rows of a delay, offered to the store
    noisy_kept: int = 50  # of the surest noisy rows
    hardened: bool = False  # a label agrees with the largest class, or it does not: no degrees
    batch: int = 64  # rows in a step; as many unlabelled ones beside them
    momentum: float = 0.9  # of SGD
    weight_decay: float = 5e-4  # of SGD
    warmup_epochs: int = tuned(5)  # on each delay
    warmup_lr: float = tuned(0.025)  # much smaller, and one class may be clean and the other noisy
    confidence_penalty: bool = tuned(False)  # in the warm-up; for asymmetric noise
    finetune_epochs: int = tuned(10)  # over clean and noisy rows
    finetune_lr: float = tuned(0.025)  # constant
    lambda_u: float = tuned(30.0)  # a tenth of it weighs unlabelled rows, at the end of the ramp
    quiet: int = 5  # epochs of fine-tuning before the ramp
    ramp: int = 16  # epochs it takes
    temperature: float = 0.5  # below 1 sharpens the guessed labels
    mixup: float = 4.0  # both parameters of the Beta distribution

    def __post_init__(self) -> None:
        least: dict[str, float] = dict.fromkeys(BUFFERS, 0)
        least |= {"clean_kept": 0, "noisy_kept": 0, "warmup_epochs": 0, "finetune_epochs": 1, "quiet": 0}
        least |= {"ramp": 1, "lambda_u": 0, "weight_decay": 0}
        least |= {"batch": 3}  # so that no batch has one row: BatchNorm needs two
        rules = {f"{name} >= {value}": getattr(self, name) >= value for name, value in least.items()}
        positive = ("warmup_lr", "finetune_lr", "temperature", "mixup")
        rules |= {f"{name} > 0": getattr(self, name) > 0 for name in positive}
        rules |= {"delay >= 2, or 0": self.delay != 1, "momentum in [0, 1)": 0 <= self.momentum < 1}
        expect(rules, self)

    def sized(self, buffer: int) -> "Cnll":
        """Return the same with the sizes of its buffers filled in."""
        sizes: dict[str, Any] = {name: getattr(self, name) or buffer for name in BUFFERS}
        return replace(self, **sizes)

    def budget(self, buffer: int) -> int | None:
        """Return how many rows its buffers may hold together: the paper grants 5 x 500; None: any."""
        return None if self.unlimited else 5 * buffer

    def capacity(self, buffer: int) -> int:
        """Return how many rows its buffers can hold together, as long as they have an end."""
        return sum(getattr(self.sized(buffer), name) for name in BUFFERS)

    def plan(self, rows: Sequence[int], epochs: int, batch: int) -> Plan:
        """Return the steps on tasks of so many rows, as if half of them were clean; sizes filled in."""
        warm_up = fine_tuning = stored = 0
        for n in [n for n in rows for _ in range(epochs)]:
            delays = [min(self.delay, n - start) for start in range(0, n, self.delay)]
            warm_up += sum(math.ceil(delay / self.batch) for delay in delays)
            stored += len(delays) * min(self.clean_kept, self.delay // 2)
            replayed = stored if self.unlimited else min(stored, self.clean_store)
            times = max(1, round(n / 2 / self.clean))
            fine_tuning += times * math.ceil((n / 2 / times + replayed) / self.batch)
        return {
            STREAM: Work(epochs * sum(math.ceil(n / batch) for n in rows), epochs),
            WARM_UP: Work(self.warmup_epochs * warm_up, self.warmup_epochs),
            FINE_TUNING: Work(self.finetune_epochs * fine_tuning, self.finetune_epochs),
        }

    def rehearsed(self) -> "Cnll":
        """Return the same, so short that each kind of work is met soon: to be timed."""
        return replace(self, warmup_epochs=1, finetune_epochs=1)

    def rate_of(self, work: str) -> str:
        """Return the setting that says how fast a kind of work learns."""
        return "learner.warmup_lr" if work == WARM_UP else "learner.finetune_lr"

    def weight(self, epoch: float) -> float:
        """Return lambda_u after so many epochs of fine-tuning, and parts of one.

        >>> [Cnll().weight(epoch) for epoch in (4.5, 5, 9, 13, 21, 30)]
        [0.0, 0.0, 7.5, 15.0, 30.0, 30.0]
        """
        return self.lambda_u * min(1.0, max(0.0, (epoch - self.quiet) / self.ramp))
