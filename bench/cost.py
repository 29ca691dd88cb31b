"""Measure what methods cost in a whole run: total time, time per epoch and task, peak memory (Table B).

Each method has a process of its own, so that its memory is measured separately. The methods take turns after
each task, so that other load affects all of them; only one computes at a time. `bare` takes two forward and
backward passes and an SGD step for each batch of the stream, and nothing else: its memory is what the network
and the data need. Table B of the paper, measured on a V100, is printed below.

    python bench/cost.py cifar10-small --data-dir ~/data
    python bench/cost.py digits --methods puridiver aer-abs --set consolidation.epochs=63
"""

import argparse
import contextlib
import resource
import time
from collections.abc import Iterator
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import mean
from typing import Any

import torch
import torch.nn.functional as F
from measure import report, table
from torch import Tensor

from remnant.cli.run import parse
from remnant.config import Config
from remnant.config.checks import unused_settings
from remnant.config.recipe import to_config
from remnant.config.registries import OF_METHOD
from remnant.engine.inference import predict
from remnant.engine.optimizer import new_sgd
from remnant.engine.threads import compute_threads
from remnant.experiment import evaluate
from remnant.experiment.build import build_backend, build_learner, build_stream, net_builder
from remnant.methods.epoch_schedule import Phase
from remnant.methods.protocol import StepDone
from remnant.stream import Stream, Task

BARE = "bare"
PAIRS = (("aer-abs", "er-ace", 0.8), ("aer-abs+consolidation", "puridiver.me", 0.6))  # and the goal
PAPER = [
    {
        "CIFAR-10, 40 % noise": "total",
        "PuriDivER": "5h15m",
        "PuriDivER.ME": "2h50m",
        "paper's method": "1h30m",
    },
    {"CIFAR-10, 40 % noise": "epoch", "PuriDivER": "77 s", "PuriDivER.ME": "16 s", "paper's method": "19 s"},
    {
        "CIFAR-10, 40 % noise": "memory",
        "PuriDivER": "7.8 GB",
        "PuriDivER.ME": "7.5 GB",
        "paper's method": "6.8 GB",
    },
]
Turn = tuple[float, float, float, float]  # seconds of a task and of an epoch, accuracy, peak memory so far


def settings_for(recipe: str, method: str, changes: list[str]) -> dict[str, Any]:
    """Return the settings without those that the method does not have."""
    method = "finetune" if method == BARE else method
    config = to_config(recipe, {"method": method})
    known, unused = config.table(), unused_settings(config)

    def applies(key: str) -> bool:
        kind, dot, setting = key.partition(".")
        if kind in unused:
            return False
        return not dot or kind not in OF_METHOD or setting in known.get(kind, {})

    _, settings = parse([], [f"method={method}", *changes])
    chosen = {key: value for key, value in settings.items() if applies(key)}
    to_config(recipe, chosen)  # raises an error if they cannot be used
    return chosen


class Bare:
    """A learner that takes two passes and an SGD step for each batch."""

    def __init__(self, config: Config, stream: Stream) -> None:
        self.config, self.transform = config, stream.spec.transform
        self.net = net_builder(config, stream.spec, build_backend(config))("net")
        self.optimizer = new_sgd(self.net.parameters(), config.lr, 0.0, 0.0)

    def learn(self, task: Task) -> Iterator[StepDone]:
        """Learn a task."""
        for epoch in range(self.config.epochs):
            for index in torch.randperm(len(task)).split(self.config.batch):
                batch = task.take(index)
                x = self.transform.plain(batch.x)
                self.net.train()
                self.optimizer.zero_grad()
                sum(F.cross_entropy(self.net(x), batch.y) for _ in range(2)).backward()  # type: ignore[union-attr]
                self.optimizer.step()
                yield StepDone(task.number, epoch, 1, 1, Phase.TRAIN, None, len(batch))

    def predict(self, x: Tensor) -> Tensor:
        """Return logits."""
        return predict(self.net, x, self.transform.plain)


def work(
    pipe: Connection, recipe: str, settings: dict[str, Any], data_dir: Path | None, is_bare: bool
) -> None:
    """Learn a task at each request, and send what was measured."""
    config = to_config(recipe, settings)
    with compute_threads(config.threads):
        stream = build_stream(config, data_dir)
        learner: Any = Bare(config, stream) if is_bare else build_learner(config, stream)
        pipe.send(len(stream.tasks))
        for task in stream.tasks:
            pipe.recv()
            start = last = time.perf_counter()
            streaming, epochs = 0.0, set()
            for event in learner.learn(task):
                now = time.perf_counter()
                if isinstance(event, StepDone) and Phase.CONSOLIDATE not in event.phase:
                    streaming += now - last
                    epochs.add(event.epoch)
                last = time.perf_counter()
            total = time.perf_counter() - start
            measured = evaluate.accuracy(learner, stream.tests[: task.number + 1]).class_incremental
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            pipe.send((total, streaming / len(epochs), mean(measured), peak))


def take_turns(
    recipe: str, settings: dict[str, dict[str, Any]], data_dir: Path | None
) -> dict[str, list[Turn]]:
    """Return what each method measured in each task."""
    spawn, pipes = get_context("spawn"), {}
    turns: dict[str, list[Turn]] = {method: [] for method in settings}
    with contextlib.ExitStack() as stack:  # if a process fails, the others end as well
        for method in settings:
            ours, theirs = spawn.Pipe()
            pipes[method] = stack.enter_context(ours)
            spawn.Process(
                target=work, args=(theirs, recipe, settings[method], data_dir, method == BARE)
            ).start()
            theirs.close()
        tasks = [pipe.recv() for pipe in pipes.values()].pop()
        for number in range(tasks):
            for method, pipe in pipes.items():
                pipe.send("learn a task")
                turns[method].append(pipe.recv())
                print(f"task {number + 1}/{tasks}  {method:14s} {turns[method][-1][0]:7.1f} s", flush=True)
    return turns


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("recipe")
    parser.add_argument("--methods", nargs="+", default=[BARE, *(m for pair in PAIRS for m in pair[:2])])
    parser.add_argument("--set", nargs="+", default=[], dest="changes", help="settings, KEY=VALUE")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--out", type=Path, help="path without suffix; writes .md and .json")
    args = parser.parse_args()
    settings = {method: settings_for(args.recipe, method, args.changes) for method in args.methods}
    turns = take_turns(args.recipe, settings, args.data_dir)
    rows = []
    for method, measured in turns.items():
        total, epoch, accuracy, peak = zip(*measured, strict=True)
        row: dict[str, Any] = {"method": method, "total s": sum(total), "epoch s": mean(epoch)}
        rows.append(row | {"task s": mean(total), "peak MB": round(peak[-1]), "FAA": f"{accuracy[-1]:.1f}"})
    threads = to_config(args.recipe, {}).threads
    report(f"{args.recipe} {' '.join(args.changes)}: cost of whole runs", threads, rows, args.out)
    found = {row["method"]: row for row in rows}
    for ours, other, goal in PAIRS:
        if ours in found and other in found:
            print(f"{ours} / {other}: {found[ours]['total s'] / found[other]['total s']:.2f} (goal {goal})")
    if BARE in found:
        for method, row in found.items():
            print(f"memory of {method} / {BARE}: {row['peak MB'] / found[BARE]['peak MB']:.2f} (goal 1.15)")
    print(f"\nTable B of the paper\n\n{table(PAPER)}")


if __name__ == "__main__":
    main()
