"""What a consolidation costs, as a multiple of the bare forwards and backwards that it must do.

Each epoch over a full memory is timed; every forward in it is noted (network, mode, rows) and then done
again bare: the same networks in the same layout on random inputs, backwards where there were any, one
SGD step a step. What is left is the price of augmentation, mixing, guessing labels and the mixture.
ResNet18 on 32 x 32 images, random labels.

    python bench/consolidation.py [--width 64] [--memory 128] [--rounds 5] [--threads 2]
"""

import argparse
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from statistics import median
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from remnant.config import resolve
from remnant.consolidate import Fit
from remnant.data import DATA
from remnant.data.source import arrays
from remnant.estimate import fill
from remnant.experiment import make_the_replay_learner
from remnant.process import compute
from remnant.protocol import EpochDone
from remnant.sgd import new_sgd
from remnant.stream import Stream, make_stream

METHODS = ["er+fit", "aer-abs+consolidation", "er+coteaching", "er+dividemix"]
GOAL = 1.15


class Forward(NamedTuple):
    step: int
    net: nn.Module
    trains: bool
    rows: int


def made_stream(rows: int) -> Stream:
    """Random images in the shape of CIFAR-10."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (rows, 3, 32, 32), dtype=np.uint8)
    y = np.arange(rows) % 10
    data = arrays(DATA["cifar10"].spec, x, y, x[:10], y[:10])
    return make_stream(data, data.y, range(10), [10], 0.0, rng)


def fit_of(method: str, width: int, rows: int) -> Fit:
    stream = made_stream(rows)
    settings = {"data": "cifar10", "net": f"resnet18:{width}", "channels_last": True, "buffer": rows}
    learner = make_the_replay_learner(resolve(settings | {"method": method, "tasks": 1}), stream)
    fill(learner.memory, stream.tasks[0], 10)
    learner.seen.fill_(True)
    assert learner.fit is not None
    learner.fit.task, learner.fit.epoch = 0, learner.fit.how.epochs - 1  # after any warm-up
    return learner.fit


def epochs_of(fit: Fit) -> Iterator[tuple[float, list[Forward]]]:
    """Yield the seconds of each epoch, and the forwards in it."""
    done: list[Forward] = []

    def note(net: nn.Module, inputs: tuple[Tensor]) -> None:
        done.append(Forward(fit.step, net, net.training, len(inputs[0])))

    hooks = [net.register_forward_pre_hook(note) for net in fit.bench.nets]
    start = time.perf_counter()
    for event in fit.run(0):
        if isinstance(event, EpochDone):
            seconds = time.perf_counter() - start
            for hook in hooks:
                hook.remove()
            yield seconds, done
            done = []
            hooks = [net.register_forward_pre_hook(note) for net in fit.bench.nets]
            start = time.perf_counter()


def bare(forwards: list[Forward], x: Tensor, y: Tensor, optimizer: torch.optim.SGD) -> float:
    """Do the same forwards and backwards, with nothing around them."""
    start = time.perf_counter()
    for step in sorted({forward.step for forward in forwards}):
        losses = []
        for _, net, trains, rows in (f for f in forwards if f.step == step):
            net.train(trains)
            if trains:
                losses.append(F.cross_entropy(net(x[:rows]), y[:rows]))
            else:
                with torch.inference_mode():
                    net(x[:rows])
        optimizer.zero_grad()
        torch.stack(losses).sum().backward()
        optimizer.step()
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--memory", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    args = parser.parse_args()
    x = torch.randn(1024, 3, 32, 32)
    y = torch.randint(10, (1024,))
    print(f"ResNet18 of width {args.width}, memory {args.memory}, {args.threads} threads, medians of")
    print(f"{args.rounds} epochs, each beside its bare twin; goal {GOAL}\n")
    print(
        f"{'method':24s}{'s/epoch':>9s}{'bare':>9s}{'ratio':>8s}   rows forward / with backward per step"
    )
    with compute(args.threads):
        for method in METHODS:
            fit = fit_of(method, args.width, args.memory)
            parameters = [p for net in fit.bench.nets for p in net.parameters()]
            optimizer = new_sgd(parameters, 1e-6, 0.0, 0.0)
            pairs = []
            for number, (seconds, forwards) in enumerate(epochs_of(fit)):
                fit.how = replace(fit.how, lr=1e-6)  # random labels: do not diverge over them
                pairs.append((seconds, bare(forwards, x, y, optimizer)))
                if number == args.rounds:
                    break
            pairs = pairs[1:]  # the first warms up
            ours, theirs = (median(p[i] for p in pairs) for i in (0, 1))
            ratio = median(a / b for a, b in pairs)
            steps = 1 + max(f.step for f in forwards)
            looks = sum(f.rows for f in forwards if not f.trains) / steps
            learns = sum(f.rows for f in forwards if f.trains) / steps
            print(f"{method:24s}{ours:9.3f}{theirs:9.3f}{ratio:8.3f}   {looks:.0f} / {learns:.0f}")


if __name__ == "__main__":
    main()
