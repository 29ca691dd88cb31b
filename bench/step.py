"""Measure the cost of a step of every method in multiples of a bare step.

A bare step is a forward pass, a backward pass and an SGD step of the same network in float32 and NCHW with
batch size 32, on ready inputs. Steps are those of a full buffer so late in the stream that no candidate is
accepted. The average of an epoch pair adds the measured cost of scoring, with exact probabilities of
acceptance over all forgetting epochs of a run on CIFAR-10. Overhead is what a step takes beyond passes and
SGD steps on as many samples, in the same layout and precision.

    python bench/step.py                                        # everything: hours
    python bench/step.py --methods er-ace aer-abs --widths 8 64 --buffers 500 --precisions float32
"""

import argparse
import math
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from measure import CLOCKS, Work, in_turns, ratio, report
from torch import Tensor, nn

from remnant.config import Config, resolve
from remnant.data import DATA, arrays
from remnant.engine.backend import Backend
from remnant.engine.optimizer import new_sgd
from remnant.engine.threads import compute_threads
from remnant.experiment.build import learner_builder
from remnant.methods.epoch_schedule import Phase, phases
from remnant.methods.registry import METHODS
from remnant.methods.replay import CONSOLIDATE, Replay, ReplayLearner
from remnant.methods.timing import Only, fill
from remnant.nets import NETS, build
from remnant.stream import Stream, make_stream

BATCH = 32
EPOCHS, TASKS, STEPS, CANDIDATES = 25, 5, 313, 8  # forgetting epochs of a task of CIFAR-10, steps of each
FORWARD, SCORE = "forward pass of the batch", "scoring of the whole buffer"


def random_stream() -> Stream:
    """Return random images in the shape of the first tasks of CIFAR-10."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (20_000, 3, 32, 32), dtype=np.uint8)
    y = np.arange(20_000) % 10
    data = arrays(DATA["cifar10"].spec, x, y, x[:10], y[:10])
    return make_stream(data, data.y, range(10), [5, 5], 0.0, rng)


def bare_step(width: int, backend: Backend, passes: int) -> Work:
    """Return a function that takes an SGD step after this many forward and backward passes."""
    net = backend.prepare(build(replace(NETS["resnet18"], width=width), DATA["cifar10"].spec, seed=0))  # type: ignore[type-var]
    optimizer = new_sgd(net.parameters(), 0.03, 0.0, 0.0)
    batches = [(torch.randn(BATCH, 3, 32, 32), torch.randint(10, (BATCH,))) for _ in range(passes)]

    def step() -> None:
        optimizer.zero_grad()
        torch.stack([F.cross_entropy(net(x), y) for x, y in batches]).sum().backward()
        optimizer.step()

    return step


def config_of(method: str, width: int, buffer: int, precision: str) -> Config:
    settings = {"data": "cifar10", "net": f"resnet18:{width}", "channels_last": True, "method": method}
    return resolve(settings | {"buffer_size": buffer, "lr": 0.03, "epochs": 50, "precision": precision})


def endless(learner: ReplayLearner, stream: Stream) -> Iterator[object]:
    """Yield the events of a task again and again."""
    while True:
        learner.loop.key = -1
        yield from learner.learn(stream.tasks[0])


def steps_in(phase: Phase, config: Config, stream: Stream) -> tuple[ReplayLearner, Work]:
    """Return a learner in one phase with a full buffer that accepts no candidate, and its step."""
    method = config.to_method()
    assert isinstance(method, Replay)
    only = replace(method, schedule=Only(phase), consolidation=Replay().consolidation)
    learner = learner_builder(config, stream)(only, config.setup())
    assert isinstance(learner, ReplayLearner)
    fill(learner.buffer, stream.tasks[0], 10)
    learner.selection.policy["candidates"] = 1 << 50
    events = endless(learner, stream)
    return learner, lambda: next(events)


def consolidation_steps(config: Config, stream: Stream) -> Work:
    """Return a step of training on the buffer, after any warm-up."""
    learner = learner_builder(config, stream)(config.to_method(), config.setup())
    assert isinstance(learner, ReplayLearner)
    loop = learner.consolidation
    assert loop is not None
    fill(loop.context.buffer, stream.tasks[0], 10)
    loop.context.seen.fill_(True)

    def again() -> Iterator[object]:
        while True:
            loop.loop.key = -1
            yield from loop.run_last_epoch(0)

    events = again()
    return lambda: next(events)


def passes_of(net: nn.Module, step: Work) -> int:
    """Return how many batches of 32 a step passes through the network in train mode."""
    samples = []

    def count(module: nn.Module, inputs: tuple[Tensor, ...], _: Tensor) -> None:
        samples.append(len(inputs[0]) if module.training else 0)

    hook = net.register_forward_hook(count)
    step()
    hook.remove()
    return round(sum(samples) / BATCH)


def measure_replay(
    config: Config, width: int, stream: Stream, rounds: int, clock: str
) -> Iterator[dict[str, Any]]:
    """Yield a row for each kind of step of a replay method, and one for an epoch pair."""
    method, backend = config.to_method(), Backend(precision=config.precision, channels_last=True)
    assert isinstance(method, Replay)
    kinds = {phase.label: phase for phase in phases(method.schedule, config.epochs) if phase}
    learners = {kind: steps_in(phase, config, stream) for kind, phase in kinds.items()}
    passes = {kind: passes_of(learner.net, step) for kind, (learner, step) in learners.items()}
    first = next(iter(learners.values()))[0]
    works: dict[str, Work] = {"bare": bare_step(width, Backend(), 1)}
    works |= {f"passes {n}": bare_step(width, backend, n) for n in set(passes.values()) if n}
    works |= {kind: step for kind, (_, step) in learners.items()}
    if method.consolidation.epochs:
        works[CONSOLIDATE] = consolidation_steps(config, stream)
    if first.buffer.capacity:
        works[FORWARD] = lambda: first.predict(first.buffer.x[:BATCH])
        works[SCORE] = lambda: first.predict(first.buffer.x)
    times = in_turns(works, rounds, clock)
    cost = {name: ratio(times[name], times["bare"]) for name in works}
    for kind in [name for name in cost if name in (*kinds, CONSOLIDATE)]:
        row: dict[str, Any] = {"step": kind, "ms": 1e3 * median(times[kind]), "x bare": cost[kind]}
        if passes.get(kind):
            same = ratio(times[kind], times[f"passes {passes[kind]}"])
            row |= {"passes": passes[kind], "x passes": same, "overhead %": 100 * (1 - 1 / same)}
        yield row
    if "forget" in cost and "learn" in cost:
        yield {"step": "epoch pair", "x bare": cost["learn"] + forgetting(cost, config)}


def forgetting(cost: dict[str, float], config: Config) -> float:
    """Return the mean cost of a forgetting step over a run on CIFAR-10."""
    scoring, capacity = config.scoring, config.buffer_size
    needs_scores = getattr(config.replacement, "needs_loss", False)
    total = 0.0
    for epoch in range(EPOCHS * TASKS):
        probability = acceptance(epoch * STEPS * CANDIDATES, capacity)
        scored = scorings_per_step(scoring.limit(capacity), probability) if needs_scores else 0.0
        total += cost["forget"] + probability * cost[FORWARD] + scored * cost[SCORE]
    return total / (EPOCHS * TASKS)


def acceptance(seen: int, capacity: int) -> float:
    """Return the probability that at least one of the candidates of a batch is accepted."""
    return 1 - math.prod(1 - min(1.0, capacity / n) for n in range(seen + 1, seen + CANDIDATES + 1))


def scorings_per_step(refresh_every: int, probability: float) -> float:
    """Return the expected number of scorings per step in an epoch that starts without a valid score."""
    expected = [0.0]
    for left in range(1, STEPS + 1):
        scored = 1 + expected[max(0, left - refresh_every)]
        expected.append(probability * scored + (1 - probability) * expected[-1])
    return expected[-1] / STEPS


def measure_other(
    config: Config, width: int, stream: Stream, rounds: int, clock: str
) -> Iterator[dict[str, Any]]:
    """Yield a row for each kind of step of an algorithm with a training loop of its own."""
    found: dict[str, list[float]] = {}
    bare, build_one = bare_step(width, Backend(), 1), learner_builder(config, stream)
    for _ in range(max(1, rounds // 5)):
        unit = median(in_turns({"bare": bare}, 3)["bare"])
        task = replace(stream.tasks[0], id=stream.tasks[0].id[:1000], y=stream.tasks[0].y[:1000])
        for kind, times in config.to_method().time_steps(config.setup(), build_one, task).items():
            found.setdefault(kind, []).append(median(times) / unit)
    for kind, ratios in found.items():
        yield {"step": kind, "x bare": median(ratios)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--widths", nargs="+", type=int, default=[8, 16, 64])
    parser.add_argument("--buffers", nargs="+", type=int, default=[500, 2000])
    parser.add_argument("--precisions", nargs="+", default=["float32", "bf16"])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--clock", choices=CLOCKS, default="wall", help="cpu: on a busy machine, threads 1")
    parser.add_argument("--out", type=Path, help="path without suffix; writes .md and .json")
    args = parser.parse_args()
    stream, rows = random_stream(), []
    with compute_threads(args.threads):
        for width, buffer, precision, method in product(
            args.widths, args.buffers, args.precisions, args.methods
        ):
            config = config_of(method, width, buffer, precision)
            is_replay = isinstance(config.to_method(), Replay)
            measure: Callable[..., Iterator[dict[str, Any]]] = measure_replay if is_replay else measure_other
            empty = dict.fromkeys(("ms", "x bare", "passes", "x passes", "overhead %"))
            for row in measure(config, width, stream, args.rounds, args.clock):
                case = {"width": width, "buffer": buffer, "precision": precision, "method": method}
                rows.append(case | {"step": row["step"]} | empty | row)
                print(rows[-1], flush=True)
    report("Cost of a step in multiples of a bare float32 NCHW step", args.threads, rows, args.out)


if __name__ == "__main__":
    main()
