"""The algorithm CNLL: its settings, their checks, and the planned steps."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from remnant.methods.protocol import Build, NewNet, Problem, Setup, TaskLearner, Work, WorkPlan
from remnant.methods.replay_checks import buffer_problems
from remnant.methods.timing import time_full_delay
from remnant.rng import Generators
from remnant.settings import expect, setting
from remnant.stream import Task

WRITE, WARM_UP, FINE_TUNING = "write", "warm-up", "fine-tuning"  # kinds of work
BUFFERS = ("clean_store", "noisy_store", "clean", "noisy", "delay")  # the replayed one first


@dataclass(frozen=True, kw_only=True)
class Cnll:
    """CNLL: delayed samples are split into clean and noisy ones, for training with and without labels."""

    delay: int = setting(0, "size of the delay buffer, which is split when it is full; 0: buffer_size")
    clean: int = setting(0, "size of the clean buffer; fine-tuning starts when it is full; 0: buffer_size")
    noisy: int = setting(0, "size of the noisy buffer; 0: buffer_size")
    clean_store: int = setting(0, "size of the replay store of clean samples; 0: buffer_size")
    noisy_store: int = setting(0, "size of the replay store of noisy samples; 0: buffer_size")
    unlimited: bool = setting(False, "whether the two replay stores grow without limit")
    clean_kept: int = setting(25, "number of most confident clean samples per split for clean_store")
    noisy_kept: int = setting(50, "number of most confident noisy samples per split for noisy_store")
    hardened: bool = setting(False, "compare labels with the predicted class, not its probabilities")
    batch: int = setting(64, "labelled samples per step, plus as many unlabelled ones")
    momentum: float = setting(0.9, "momentum of SGD")
    weight_decay: float = setting(5e-4, "weight decay of SGD")
    warmup_epochs: int = setting(5, "epochs of warm-up on each full delay buffer", tuned=True)
    warmup_lr: float = setting(
        0.025,
        "learning rate of the warm-up; if it is much smaller, samples are split by class, not by label",
        tuned=True,
    )
    confidence_penalty: bool = setting(
        False, "penalise confident predictions in the warm-up; for asymmetric noise", tuned=True
    )
    finetune_epochs: int = setting(10, "epochs of fine-tuning on clean and noisy samples", tuned=True)
    finetune_lr: float = setting(0.025, "learning rate of fine-tuning, constant", tuned=True)
    lambda_u: float = setting(
        30.0, "weight of unlabelled samples at the end of the ramp, multiplied by 0.1", tuned=True
    )
    quiet: int = setting(5, "epochs of fine-tuning before the ramp of lambda_u starts")
    ramp: int = setting(16, "epochs of the ramp of lambda_u")
    temperature: float = setting(0.5, "temperature of guessed labels; below 1 sharpens")
    mixup: float = setting(4.0, "both parameters of the Beta distribution of MixUp")
    about: str = field(default="", compare=False)

    unused: ClassVar[tuple[str, ...]] = ("lr", "lr_drops", "momentum", "weight_decay")

    def __post_init__(self) -> None:
        least: dict[str, float] = dict.fromkeys(BUFFERS, 0)
        least |= {"clean_kept": 0, "noisy_kept": 0, "warmup_epochs": 0, "finetune_epochs": 1, "quiet": 0}
        least |= {"ramp": 1, "lambda_u": 0, "weight_decay": 0}
        least |= {"batch": 3}  # so that no batch has one sample: BatchNorm needs two
        rules = {f"{name} >= {value}": getattr(self, name) >= value for name, value in least.items()}
        positive = ("warmup_lr", "finetune_lr", "temperature", "mixup")
        rules |= {f"{name} > 0": getattr(self, name) > 0 for name in positive}
        rules |= {"delay >= 2, or 0": self.delay != 1, "momentum in [0, 1)": 0 <= self.momentum < 1}
        expect(rules, self)

    def sized(self, buffer_size: int) -> "Cnll":
        """Return a copy with the default sizes of its buffers filled in."""
        sizes: dict[str, Any] = {name: getattr(self, name) or buffer_size for name in BUFFERS}
        return replace(self, **sizes)

    def budget(self, buffer_size: int) -> int | None:
        """Return how many samples all buffers may hold together: the paper allows 5 x 500; None: no limit."""
        return None if self.unlimited else 5 * buffer_size

    def unlabelled_weight(self, epoch: float) -> float:
        """Return lambda_u after `epoch` epochs of fine-tuning, a number that may be fractional.

        >>> [Cnll().unlabelled_weight(epoch) for epoch in (4.5, 5, 9, 13, 21, 30)]
        [0.0, 0.0, 7.5, 15.0, 30.0, 30.0]
        """
        return self.lambda_u * min(1.0, max(0.0, (epoch - self.quiet) / self.ramp))

    def build(self, setup: Setup, new_net: NewNet, rng: Generators, noise_rate: float | None) -> TaskLearner:
        """Build network and buffers."""
        from remnant.methods.cnll.learner import CnllLearner

        return CnllLearner(self.sized(setup.buffer_size), setup, new_net, rng)

    def plan(self, setup: Setup, samples: Sequence[int]) -> WorkPlan:
        """Return the planned steps for tasks with these numbers of samples, assuming that half are clean."""
        own, epochs = self.sized(setup.buffer_size), setup.training.epochs
        warm_up = fine_tuning = stored = 0
        for n in [n for n in samples for _ in range(epochs)]:
            delays = [min(own.delay, n - start) for start in range(0, n, own.delay)]
            warm_up += sum(math.ceil(delay / own.batch) for delay in delays)
            stored += len(delays) * min(own.clean_kept, own.delay // 2)
            replayed = stored if own.unlimited else min(stored, own.clean_store)
            times = max(1, round(n / 2 / own.clean))
            fine_tuning += times * math.ceil((n / 2 / times + replayed) / own.batch)
        write = epochs * sum(math.ceil(n / setup.training.batch) for n in samples)
        works = {
            WRITE: Work(write, epochs),
            WARM_UP: Work(own.warmup_epochs * warm_up, own.warmup_epochs, "algorithm.warmup_lr"),
            FINE_TUNING: Work(
                own.finetune_epochs * fine_tuning, own.finetune_epochs, "algorithm.finetune_lr"
            ),
        }
        return WorkPlan(works, self.budget(setup.buffer_size))

    def check(self, setup: Setup, name: str) -> Iterator[Problem]:
        """Yield the problems of the settings."""
        own = self.sized(max(2, setup.buffer_size))  # a smaller buffer_size is reported below
        capacity = sum(getattr(own, name) for name in BUFFERS)
        yield from buffer_problems(setup, name, capacity, self.budget(setup.buffer_size))

    def time_steps(self, setup: Setup, build: Build, task: Task) -> dict[str, list[float]]:
        """Return the seconds of steps by kind of work, on samples that fill the delay buffer once."""
        short = replace(self, warmup_epochs=1, finetune_epochs=1)
        return time_full_delay(short, self.sized(setup.buffer_size).delay, setup, build, task)
