"""Compare a consolidation with the forward and backward passes that it needs.

Each epoch over a full buffer is timed, and each forward pass in it is noted (network, mode, samples). Then
the same passes are repeated alone: the same networks in the same layout on random inputs, with a backward
pass where there was one, and one SGD step per step. The difference is the cost of augmentation, mixing,
label guessing and the mixture model. ResNet18 on 32 x 32 images, random labels.

    python bench/consolidation.py [--width 64] [--buffer-size 128] [--rounds 5] [--threads 2]
"""

import argparse
import os
import time
from dataclasses import replace
from statistics import median
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from remnant.config import resolve
from remnant.data import DATA, arrays
from remnant.engine.optimizer import new_sgd
from remnant.engine.threads import compute_threads
from remnant.experiment.build import build_learner
from remnant.methods.consolidation.training import ConsolidationLoop
from remnant.methods.replay import ReplayLearner
from remnant.methods.timing import fill
from remnant.stream import Stream, make_stream

METHODS = ["er+fit", "aer-abs+consolidation", "er+coteaching", "er+dividemix"]
GOAL = 1.15
LR = 1e-6  # the labels are random, and a higher learning rate could diverge


class Forward(NamedTuple):
    step: int
    net: nn.Module
    trains: bool
    samples: int


def random_stream(samples: int) -> Stream:
    """Return random images in the shape of CIFAR-10."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (samples, 3, 32, 32), dtype=np.uint8)
    y = np.arange(samples) % 10
    data = arrays(DATA["cifar10"].spec, x, y, x[:10], y[:10])
    return make_stream(data, data.y, range(10), [10], 0.0, rng)


def consolidation_of(method: str, width: int, buffer_size: int) -> ConsolidationLoop:
    """Return the consolidation of a method, with a full buffer."""
    stream = random_stream(buffer_size)
    settings = {"data": "cifar10", "net": f"resnet18:{width}", "channels_last": True, "tasks": 1}
    config = resolve(settings | {"method": method, "buffer_size": buffer_size})
    learner = build_learner(config, stream)
    assert isinstance(learner, ReplayLearner)
    fill(learner.buffer, stream.tasks[0], 10)
    learner.seen.fill_(True)
    fit = learner.consolidation
    assert fit is not None
    fit.consolidation = replace(fit.consolidation, lr=LR)
    return fit


def timed_epoch(fit: ConsolidationLoop) -> tuple[float, list[Forward]]:
    """Run the last epoch; return its seconds, and the forward passes in it."""
    done: list[Forward] = []

    def note(net: nn.Module, inputs: tuple[Tensor]) -> None:
        done.append(Forward(fit.loop.step, net, net.training, len(inputs[0])))

    events = fit.run_last_epoch(0)
    hooks = [net.register_forward_pre_hook(note) for net in fit.context.nets]
    start = time.perf_counter()
    for _ in events:
        pass
    seconds = time.perf_counter() - start
    for hook in hooks:
        hook.remove()
    return seconds, done


def timed_passes(forwards: list[Forward], x: Tensor, y: Tensor, optimizer: torch.optim.SGD) -> float:
    """Repeat the forward and backward passes alone; return their seconds."""
    start = time.perf_counter()
    for step in sorted({forward.step for forward in forwards}):
        losses = []
        for _, net, trains, samples in (f for f in forwards if f.step == step):
            net.train(trains)
            if trains:
                losses.append(F.cross_entropy(net(x[:samples]), y[:samples]))
            else:
                with torch.inference_mode():
                    net(x[:samples])
        optimizer.zero_grad()
        torch.stack(losses).sum().backward()
        optimizer.step()
    return time.perf_counter() - start


def compare(method: str, args: argparse.Namespace) -> str:
    """Return the line of a method."""
    x, y = torch.randn(1024, 3, 32, 32), torch.randint(10, (1024,))
    fit = consolidation_of(method, args.width, args.buffer_size)
    parameters = [p for net in fit.context.nets for p in net.parameters()]
    optimizer, pairs = new_sgd(parameters, LR, 0.0, 0.0), []
    for _ in range(args.rounds + 1):
        seconds, forwards = timed_epoch(fit)
        pairs.append((seconds, timed_passes(forwards, x, y, optimizer)))
    pairs = pairs[1:]  # without warm-up
    epoch, passes = (median(times) for times in zip(*pairs, strict=True))
    ratio, steps = median(a / b for a, b in pairs), 1 + max(f.step for f in forwards)
    predicted = sum(f.samples for f in forwards if not f.trains) / steps
    trained = sum(f.samples for f in forwards if f.trains) / steps
    return f"{method:24s}{epoch:9.3f}{passes:9.3f}{ratio:8.3f}   {predicted:.0f} / {trained:.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--buffer-size", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    args = parser.parse_args()
    print(f"ResNet18 of width {args.width}, buffer size {args.buffer_size}, {args.threads} threads,")
    print(f"medians of {args.rounds} epochs, each next to its passes alone; goal {GOAL}\n")
    print(f"{'method':24s}{'s/epoch':>9s}{'passes':>9s}{'ratio':>8s}   samples predicted / trained per step")
    with compute_threads(args.threads):
        for method in METHODS:
            print(compare(method, args), flush=True)


if __name__ == "__main__":
    main()
