"""Measure the cost of a step in multiples of a single forward pass, backward pass and SGD step.

ResNet18 of width 64 on 32 x 32 images, batch size 32, a full buffer of 500 samples. The baseline step uses
the NCHW layout, all other steps use channels_last as the recipe paper/cifar10 does. The expected cost of a
forgetting step is computed for 60,000 candidates, the end of the first task of CIFAR-10, from measured costs
and exact probabilities.

    python bench/step.py [--rounds 15] [--threads 2]
"""

import argparse
import math
import os
import time
from collections.abc import Callable
from dataclasses import replace
from statistics import median

import numpy as np
import torch
import torch.nn.functional as F

from remnant.config import resolve
from remnant.data import DATA, arrays
from remnant.engine.threads import compute_threads
from remnant.experiment.build import learner_builder
from remnant.methods.epoch_schedule import Phase
from remnant.methods.replay import ReplayLearner
from remnant.methods.timing import Only, fill
from remnant.nets import NETS, build
from remnant.stream import Stream, make_stream

BATCH, CAPACITY, SEEN, STEPS = 32, 500, 60_000, 313
LEARN, FORGET = "learning step", "forgetting step, no candidate accepted"
FORWARD, SCORE = "un-augmented forward pass of the batch", "scoring the whole buffer"
GOALS = {LEARN: 1.8, FORGET: 0.92}


def random_stream() -> Stream:
    """Return random images in the shape of the first tasks of CIFAR-10."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (20_000, 3, 32, 32), dtype=np.uint8)
    y = np.arange(20_000) % 10
    data = arrays(DATA["cifar10"].spec, x, y, x[:10], y[:10])
    return make_stream(data, data.y, range(10), [5, 5], 0.0, rng)


def baseline_step(memory_format: torch.memory_format, passes: int = 1) -> Callable[[], None]:
    """Return a function that takes an SGD step after this many forward and backward passes."""
    net = build(NETS["resnet18"], DATA["cifar10"].spec, seed=0).to(memory_format=memory_format)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.03)
    batches = [(torch.randn(BATCH, 3, 32, 32), torch.randint(10, (BATCH,))) for _ in range(passes)]

    def step() -> None:
        optimizer.zero_grad()
        torch.stack([F.cross_entropy(net(x), y) for x, y in batches]).sum().backward()
        optimizer.step()

    return step


def learner_in(phase: Phase, stream: Stream) -> ReplayLearner:
    """Return aer-abs in one phase, with a full buffer, so late that no candidate is accepted."""
    settings = {"data": "cifar10", "net": "resnet18:64", "channels_last": True, "buffer_size": CAPACITY}
    config = resolve(settings | {"lr": 0.03, "epochs": 10_000})
    method = replace(config.to_method(), schedule=Only(phase))
    learner = learner_builder(config, stream)(method, config.setup())
    assert isinstance(learner, ReplayLearner)
    fill(learner.buffer, stream.tasks[0], 10)
    learner.selection.policy["candidates"] = 1 << 50
    return learner


def steps_of(learner: ReplayLearner, stream: Stream) -> Callable[[], object]:
    """Return a function that takes a step of the learner."""
    events = learner.learn(stream.tasks[0])
    next(events)
    return lambda: next(events)


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def acceptance() -> float:
    """Return the probability that at least one of the 8 candidates of a batch is accepted."""
    return 1 - math.prod(1 - CAPACITY / n for n in range(SEEN + 1, SEEN + 9))


def scorings_per_step(refresh_every: int, probability: float) -> float:
    """Return the expected number of scorings per step in an epoch that starts without a valid score."""
    expected = [0.0]
    for left in range(1, STEPS + 1):
        scored = 1 + expected[max(0, left - refresh_every)]
        expected.append(probability * scored + (1 - probability) * expected[-1])
    return expected[-1] / STEPS


def measure(rounds: int) -> tuple[float, dict[str, float]]:
    """Return the median seconds of a baseline step, and the median cost of each kind of work."""
    stream = random_stream()
    forgetting = learner_in(Phase.FORGET, stream)
    work = {
        "baseline step, channels_last": baseline_step(torch.channels_last),
        "two passes and one SGD step, channels_last": baseline_step(torch.channels_last, passes=2),
        LEARN: steps_of(learner_in(Phase.LEARN, stream), stream),
        FORGET: steps_of(forgetting, stream),
        FORWARD: lambda: forgetting.predict(forgetting.buffer.x[:BATCH]),
        SCORE: lambda: forgetting.predict(forgetting.buffer.x),
    }
    baseline = baseline_step(torch.contiguous_format)
    seconds: list[float] = []
    ratios: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(rounds):
        for name, step in work.items():  # each next to a baseline step, so that other load affects both
            seconds.append(timed(baseline))
            ratios[name].append(timed(step) / seconds[-1])
    return median(seconds), {name: median(values[1:]) for name, values in ratios.items()}  # without warm-up


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    args = parser.parse_args()
    with compute_threads(args.threads):
        seconds, cost = measure(args.rounds)
    probability = acceptance()
    print(f"baseline step {seconds:.3f} s on {args.threads} threads; medians of {args.rounds - 1} pairs")
    print(f"a candidate is accepted in {100 * probability:.2f} % of the steps\n")
    for name, value in cost.items():
        goal = f"   (goal {GOALS[name]})" if name in GOALS else ""
        print(f"{name:42s} {value:6.3f}{goal}")
    for every, goal in ((1, ""), (math.ceil(CAPACITY / BATCH), "   (goal 1.15)")):
        scorings = scorings_per_step(every, probability)
        value = cost[FORGET] + probability * cost[FORWARD] + scorings * cost[SCORE]
        print(f"{f'expected forgetting step, refresh_every {every}':42s} {value:6.3f}{goal}")


if __name__ == "__main__":
    main()
