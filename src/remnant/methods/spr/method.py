"""The algorithm SPR: its settings, their checks, and the planned steps."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from remnant.methods.protocol import Build, NewNet, Problem, Setup, TaskLearner, Work, WorkPlan
from remnant.methods.replay_checks import buffer_problems
from remnant.methods.timing import time_full_delay
from remnant.rng import Generators
from remnant.settings import expect, setting
from remnant.stream import Task

MIN_BATCH = 4  # half of a batch must have two images to compare
WRITE, EXPERT, BASE, CLASSIFIER = "write", "expert", "base", "classifier"  # kinds of work


@dataclass(frozen=True, kw_only=True)
class Spr:
    """SPR: samples of a delayed buffer that are central in their class move to a purified buffer."""

    delay: int = setting(0, "size of the delayed buffer; 0: buffer_size")
    purified: int = setting(0, "size of the purified buffer; 0: buffer_size")
    expert_steps: int = setting(
        4000, "steps of the expert per full delayed buffer, divided by the epochs", tuned=True
    )
    base_steps: int = setting(
        3000, "steps of the base network per full delayed buffer, divided by the epochs", tuned=True
    )
    batch: int = setting(0, "images per contrastive step, each in two views; 0: buffer_size")
    lr: float = setting(3e-4, "learning rate of expert and base network", tuned=True)
    temperature: float = setting(0.5, "temperature of the contrastive loss")
    features: int = setting(256, "output features of the contrastive networks")
    finetune_epochs: int = setting(
        50, "epochs of the classifier on the purified buffer, at the end of a task", tuned=True
    )
    finetune_batch: int = setting(16, "samples per step of the classifier")
    finetune_lr: float = setting(2e-3, "learning rate of the classifier", tuned=True)
    finetune_drop: int = setting(300, "steps after which finetune_lr is divided by 10, repeatedly")
    clip: float = setting(0.5, "maximum gradient value of the classifier; 0: no clipping")
    about: str = field(default="", compare=False)

    unused: ClassVar[tuple[str, ...]] = ("lr", "lr_drops", "momentum", "weight_decay")

    def __post_init__(self) -> None:
        counts = ("expert_steps", "base_steps", "features", "finetune_epochs", "finetune_drop")
        positive = ("lr", "temperature", "finetune_lr")
        rules = {f"{name} >= 1": getattr(self, name) >= 1 for name in counts}
        rules |= {f"{name} >= 2, or 0": getattr(self, name) not in (1,) for name in ("delay", "purified")}
        rules |= {f"{name} >= 0": getattr(self, name) >= 0 for name in ("delay", "purified", "clip")}
        rules |= {f"{name} > 0": getattr(self, name) > 0 for name in positive}
        rules |= {
            f"batch >= {MIN_BATCH}, or 0": self.batch >= MIN_BATCH or not self.batch,
            "finetune_batch >= 3": self.finetune_batch >= 3,  # so that no batch has one sample
        }
        expect(rules, self)

    def sized(self, buffer_size: int) -> "Spr":
        """Return a copy with the default sizes of buffers and batches filled in."""
        return replace(
            self,
            delay=self.delay or buffer_size,
            purified=self.purified or buffer_size,
            batch=self.batch or max(MIN_BATCH, buffer_size),
        )

    def budget(self, buffer_size: int) -> int:
        """Return how many samples both buffers may hold together: the paper allows 2 x 500."""
        return 2 * buffer_size

    def steps_per_fill(self, epochs: int) -> tuple[int, int]:
        """Return the steps of expert and base network per full delayed buffer, divided by the epochs.

        >>> Spr().steps_per_fill(25)  # as in the paper
        (160, 120)
        """
        return math.ceil(self.expert_steps / epochs), math.ceil(self.base_steps / epochs)

    def build(self, setup: Setup, new_net: NewNet, rng: Generators, noise_rate: float | None) -> TaskLearner:
        """Build networks and buffers."""
        from remnant.methods.spr.learner import SprLearner

        return SprLearner(self.sized(setup.buffer_size), setup, new_net, rng)

    def plan(self, setup: Setup, samples: Sequence[int]) -> WorkPlan:
        """Return the planned steps for tasks with these numbers of samples."""
        own, training = self.sized(setup.buffer_size), setup.training
        epochs = training.epochs
        fills = epochs * sum(math.ceil(n / own.delay) for n in samples)
        expert, base = own.steps_per_fill(epochs)
        tuning = len(samples) * own.finetune_epochs * math.ceil(own.purified / own.finetune_batch)
        works = {
            WRITE: Work(epochs * sum(math.ceil(n / training.batch) for n in samples), epochs),
            EXPERT: Work(fills * expert, epochs, "algorithm.lr"),
            BASE: Work(fills * base, epochs, "algorithm.lr"),
            CLASSIFIER: Work(tuning, own.finetune_epochs, "algorithm.finetune_lr"),
        }
        return WorkPlan(works, self.budget(setup.buffer_size))

    def check(self, setup: Setup, name: str) -> Iterator[Problem]:
        """Yield the problems of the settings."""
        if not setup.spec.are_images:
            text = f"algorithm: SPR requires images, but gets {setup.spec.kind} of {setup.spec.name}"
            yield Problem.of(f"{text}; use another method", "data", "method", "algorithm")
        own = self.sized(max(2, setup.buffer_size))  # a smaller buffer_size is reported below
        yield from buffer_problems(setup, name, own.delay + own.purified, self.budget(setup.buffer_size))

    def time_steps(self, setup: Setup, build: Build, task: Task) -> dict[str, list[float]]:
        """Return the seconds of steps by kind of work, on samples that fill the delayed buffer once."""
        short = replace(self, expert_steps=3, base_steps=3, finetune_epochs=1)
        return time_full_delay(short, self.sized(setup.buffer_size).delay, setup, build, task)
