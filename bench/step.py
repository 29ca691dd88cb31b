"""What a step costs, as multiples of a bare forward + backward + SGD step; all measured in one run.

ResNet18 of width 64 on 32 x 32 images, batch 32, a full memory of 500. The bare step is plain NCHW; ours
are as the recipe cifar10 has them (channels_last). The expected forgetting step is for 60,000 candidates
seen, the end of CIFAR-10's first task: measured costs times exact probabilities.

    python bench/step.py [--rounds 15] [--threads 2]
"""

import argparse
import math
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from statistics import median

import numpy as np
import torch
import torch.nn.functional as F

from remnant.config import resolve
from remnant.data import DATA
from remnant.data.source import arrays
from remnant.estimate import Only, fill
from remnant.experiment import make_the_replay_learner
from remnant.learner import ReplayLearner
from remnant.nets import NETS, build
from remnant.process import compute
from remnant.protocol import Event
from remnant.schedule import Phase
from remnant.stream import Stream, make_stream

BATCH, CAPACITY, SEEN, STEPS = 32, 500, 60_000, 313
GOALS = {"learning step": 1.8, "forgetting step, nobody accepted": 0.92}


def made_stream() -> Stream:
    """Random images in the shape of CIFAR-10's first tasks."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (20_000, 3, 32, 32), dtype=np.uint8)
    y = np.arange(20_000) % 10
    data = arrays(DATA["cifar10"].spec, x, y, x[:10], y[:10])
    return make_stream(data, data.y, range(10), [5, 5], 0.0, rng)


def bare_step(memory_format: torch.memory_format, passes: int = 1) -> Callable[[], None]:
    net = build(NETS["resnet18"], DATA["cifar10"].spec, seed=0).to(memory_format=memory_format)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.03)
    batches = [(torch.randn(BATCH, 3, 32, 32), torch.randint(10, (BATCH,))) for _ in range(passes)]

    def step() -> None:
        optimizer.zero_grad()
        torch.stack([F.cross_entropy(net(x), y) for x, y in batches]).sum().backward()
        optimizer.step()

    return step


def learner_in(phase: Phase, stream: Stream) -> ReplayLearner:
    """The paper's method with a full memory, so late that no candidate is accepted."""
    settings = {"data": "cifar10", "net": "resnet18:64", "channels_last": True, "buffer": CAPACITY}
    learner = make_the_replay_learner(resolve(settings | {"lr": 0.03, "epochs": 10_000}), stream)
    learner.method = replace(learner.method, schedule=Only(phase))
    fill(learner.memory, stream.tasks[0], 10)
    learner.memory.candidates = 1 << 50
    return learner


def steps_of(learner: ReplayLearner, stream: Stream) -> Callable[[], None]:
    events: Iterator[Event] = learner.learn(stream.tasks[0])
    next(events)

    def step() -> None:
        next(events)

    return step


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def acceptance() -> float:
    """Probability that one or more of the 8 candidates of a batch are accepted."""
    return 1 - math.prod(1 - CAPACITY / n for n in range(SEEN + 1, SEEN + 9))


def scorings_per_step(refresh_every: int, probability: float) -> float:
    """Expected scorings per step over an epoch, which begins with no valid score."""
    expected = [0.0]
    for left in range(1, STEPS + 1):
        scored = 1 + expected[max(0, left - refresh_every)]
        expected.append(probability * scored + (1 - probability) * expected[-1])
    return expected[-1] / STEPS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    args = parser.parse_args()
    with compute(args.threads):
        stream = made_stream()
        forgetting = learner_in(Phase.FORGET, stream)
        work = {
            "bare step, channels_last": bare_step(torch.channels_last),
            "two bare passes, one SGD step, ditto": bare_step(torch.channels_last, passes=2),
            "learning step": steps_of(learner_in(Phase.LEARN, stream), stream),
            "forgetting step, nobody accepted": steps_of(forgetting, stream),
            "un-augmented forward of the batch": lambda: forgetting.predict(forgetting.memory.x[:BATCH]),
            "scoring the whole memory": lambda: forgetting.predict(forgetting.memory.x),
        }
        bare = bare_step(torch.contiguous_format)
        seconds, ratios = [], {name: [] for name in work}
        for _ in range(args.rounds):
            for name, step in work.items():  # each beside a bare step, so that a slow moment hits both
                seconds.append(timed(bare))
                ratios[name].append(timed(step) / seconds[-1])
    cost = {name: median(values[1:]) for name, values in ratios.items()}
    probability = acceptance()
    print(
        f"bare step {median(seconds):.3f} s on {args.threads} threads; "
        f"medians of {args.rounds - 1} pairs"
    )
    print(f"a candidate is accepted in {100 * probability:.2f} % of the steps\n")
    for name, value in cost.items():
        goal = f"   (goal {GOALS[name]})" if name in GOALS else ""
        print(f"{name:42s} {value:6.3f}{goal}")
    for every, goal in ((1, ""), (math.ceil(CAPACITY / BATCH), "   (goal 1.15)")):
        value = cost["forgetting step, nobody accepted"]
        value += probability * cost["un-augmented forward of the batch"]
        value += scorings_per_step(every, probability) * cost["scoring the whole memory"]
        print(f"{f'expected forgetting step, refresh_every {every}':42s} {value:6.3f}{goal}")


if __name__ == "__main__":
    main()
