"""Measure how time and memory grow with the buffer, the classes and the tasks.

One of the three changes at a time: buffer 200 to 50,000, classes 10 to 1,000, tasks 2 to 50. For each size,
the time of a learning step, of a forgetting step, of selection in a step without scoring, and of an epoch
pair with scoring and metrics, in multiples of the first size, measured in turns with it; the bytes of the
stored samples, and how much the memory of the process grew. One in 20 candidates is accepted. Another
table has the time of a checkpoint with a buffer of photos, and its share of a run.

    python bench/growth.py --out docs/growth                        # writes growth.md, .json and .svg
    python bench/growth.py --buffers 200 2000 --classes 10 100 --tasks 1 10 --photos 200
"""

import argparse
import os
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from measure import CLOCKS, in_turns, ratio, report

from remnant.buffer import Buffer
from remnant.config import Config, resolve
from remnant.data import Dataset, Spec, arrays
from remnant.engine.threads import compute_threads
from remnant.experiment import checkpoint, evaluate
from remnant.experiment.build import learner_builder
from remnant.methods.epoch_schedule import Phase
from remnant.methods.protocol import EpochDone
from remnant.methods.replay import Replay, ReplayLearner
from remnant.methods.timing import Only, fill
from remnant.stream import Stream, Task, make_stream
from remnant.transforms.image import ImageTransform

FIRST = {"buffer": 200, "classes": 100, "tasks": 2}
COLOURS = ("#1f77b4", "#d62728", "#2ca02c")


def dataset(classes: int, samples: int, size: int) -> Dataset:
    """Return random images with labels of all classes in turn; a quarter of the labels are noisy."""
    rng = np.random.default_rng(0)
    transform = ImageTransform((0.5,) * 3, (0.25,) * 3, pad=2)
    spec = Spec("random", (3, size, size), tuple(f"class-{c}" for c in range(classes)), transform)
    x = rng.integers(0, 256, (samples, 3, size, size), dtype=np.uint8)
    y = np.arange(samples) % classes
    return arrays(
        spec, x, y, x[: 2 * classes], y[: 2 * classes], truth=(y + (np.arange(samples) % 4 == 0)) % classes
    )


class Case:
    """A learner of aer-abs in the middle of a stream, with a full buffer of samples of all earlier tasks."""

    def __init__(self, buffer: int, classes: int, tasks: int, width: int, per_task: int) -> None:
        data = dataset(classes, per_task * tasks, 32)
        sizes = [classes // tasks + (i < classes % tasks) for i in range(tasks)]
        self.stream: Stream = make_stream(data, data.y, range(classes), sizes, 0.0, np.random.default_rng(0))
        self.task: Task = self.stream.tasks[-1]
        settings = {"data": data, "net": f"resnet18:{width}", "buffer_size": buffer, "split": sizes}
        self.config: Config = resolve(settings | {"epochs": 10_000, "lr": 0.01, "channels_last": True})
        self.learners = {phase.label: self._learner(phase) for phase in (Phase.LEARN, Phase.FORGET)}
        self.epochs = {name: self._epochs(learner) for name, learner in self.learners.items()}
        self.steps = {name: learner.learn(self.task) for name, learner in self.learners.items()}

    def _learner(self, phase: Phase) -> ReplayLearner:
        method = self.config.to_method()
        assert isinstance(method, Replay)
        build = learner_builder(self.config, self.stream)
        learner = build(replace(method, schedule=Only(phase)), self.config.setup())
        assert isinstance(learner, ReplayLearner)
        for task in reversed(self.stream.tasks):
            fill(learner.buffer, task, len(self.config.spec.classes))
        share = torch.arange(len(learner.buffer)) % len(self.stream.tasks)
        learner.buffer.task[: len(learner.buffer)] = share
        learner.buffer.id[: len(learner.buffer)] = torch.arange(len(learner.buffer)) % len(
            self.stream.observed
        )
        learner.selection.policy["candidates"] = 20 * len(learner.buffer)
        return learner

    def step(self, name: str) -> None:
        """Take a step."""
        while isinstance(next(self.steps[name]), EpochDone):
            pass

    def _epochs(self, learner: ReplayLearner) -> Iterator[None]:
        events = learner.learn(self.task)
        buffer = learner.buffers()["buffer"]
        for event in events:
            if isinstance(event, EpochDone):  # what the runner measures
                evaluate.separation(learner, buffer, self.stream, event.task)
                evaluate.buffer_report(buffer, self.stream, event.task)
                yield

    def epoch_pair(self) -> None:
        """Take an epoch of each kind, with the metrics at its end."""
        for epochs in self.epochs.values():
            next(epochs)

    def selection(self) -> Callable[[], object]:
        """Return a function that decides and writes for one batch, without any training."""
        learner = self._learner(Phase.WRITE)
        events = learner.learn(self.task)
        return lambda: next(events)

    @property
    def buffer_bytes(self) -> int:
        """Return the bytes of the stored samples."""
        x = self.learners["learn"].buffer.x
        return x.numel() * x.element_size()


def measure(axis: str, sizes: list[int], args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield a row for each size of one axis, in multiples of the first size."""
    reference = Case(**(FIRST | {axis: sizes[0]}), width=args.width, per_task=args.per_task)
    for size in sizes:
        before = rss()
        case = Case(**(FIRST | {axis: size}), width=args.width, per_task=args.per_task)
        grown = rss() - before
        works: dict[str, Callable[[], object]] = {}
        for name, one in (("first", reference), ("this", case)):
            works |= {f"{name} {kind}": (lambda k=kind, c=one: c.step(k)) for kind in ("learn", "forget")}
            works[f"{name} pair"] = one.epoch_pair
        works["selection"] = case.selection()
        times = in_turns(works, args.rounds, args.clock)
        row: dict[str, Any] = {"axis": axis, "size": size}
        row |= {f"{k} step": ratio(times[f"this {k}"], times[f"first {k}"]) for k in ("learn", "forget")}
        row["epoch pair"] = ratio(times["this pair"], times["first pair"])
        row["selection % of a forgetting step"] = 100 * ratio(times["selection"], times["this forget"])
        row |= {"samples MB": 2 * case.buffer_bytes / 1e6, "process MB": grown / 1e6}
        yield row


def rss() -> float:
    """Return the memory of this process in bytes."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return float(pages * resource.getpagesize())


def measure_checkpoints(photos: list[int]) -> Iterator[dict[str, Any]]:
    """Yield the seconds of a checkpoint with a buffer of photos, and the pause until the next one."""
    for count in photos:
        buffer = Buffer(count, (3, 224, 224))
        with tempfile.TemporaryDirectory(dir=".") as folder:
            taken = []
            for _ in range(2):
                start = time.monotonic()
                checkpoint.save(Path(folder), {"buffer": buffer.state_dict()})
                taken.append(time.monotonic() - start)
        cost = median(taken)
        pause = max(10.0, 20 * cost)
        row = {"axis": "checkpoint, photos", "size": count, "checkpoint s": cost, "pause s": pause}
        yield row | {"% of the run": 100 * cost / (cost + pause), "samples MB": buffer.x.numel() / 1e6}


def plot(rows: list[dict[str, Any]]) -> str:
    """Return an SVG with one panel per axis: cost in multiples of the first size."""
    axes = list(dict.fromkeys(row["axis"] for row in rows if "epoch pair" in row))
    names = ("learn step", "forget step", "epoch pair")
    top = max([2.0, *(row[name] for row in rows for name in names if name in row)])
    parts = []
    for panel, axis in enumerate(axes):
        found = [row for row in rows if row["axis"] == axis]
        left, width, height = 60 + 270 * panel, 210, 180
        x = [left + width * i / max(1, len(found) - 1) for i in range(len(found))]
        for name, colour in zip(names, COLOURS, strict=True):
            y = [30 + height * (1 - row[name] / top) for row in found]
            points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))
            parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [
            f'<text x="{a:.0f}" y="228" text-anchor="middle">{row["size"]:,}</text>'
            for a, row in zip(x, found, strict=True)
        ]
        parts.append(f'<text x="{left + width / 2}" y="248" text-anchor="middle">{axis}</text>')
        for value in range(int(top) + 1):
            at = 30 + height * (1 - value / top)
            parts.append(f'<line x1="{left}" x2="{left + width}" y1="{at:.1f}" y2="{at:.1f}" stroke="#ddd"/>')
            parts.append(f'<text x="{left - 8}" y="{at + 4:.1f}" text-anchor="end">{value}</text>')
    legend = "".join(
        f'<text x="{60 + 130 * i}" y="16" fill="{colour}">{name}</text>'
        for i, (name, colour) in enumerate(zip(names, COLOURS, strict=True))
    )
    size = f"{60 + 270 * len(axes)} 260"
    style = 'font-family="sans-serif" font-size="11"'
    start = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}" {style}>'
    return f"{start}{legend}{''.join(parts)}</svg>\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--buffers", nargs="*", type=int, default=[200, 2000, 10_000, 50_000])
    parser.add_argument("--classes", nargs="*", type=int, default=[10, 100, 1000])
    parser.add_argument("--tasks", nargs="*", type=int, default=[2, 10, 50])
    parser.add_argument("--photos", nargs="*", type=int, default=[200, 2000])
    parser.add_argument("--width", type=int, default=8)
    parser.add_argument("--per-task", type=int, default=5000, help="samples of a task")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--clock", choices=CLOCKS, default="wall", help="cpu: on a busy machine, threads 1")
    parser.add_argument("--out", type=Path, help="path without suffix; writes .md, .json and .svg")
    args = parser.parse_args()
    sizes = {"buffer": args.buffers, "classes": args.classes, "tasks": args.tasks}
    rows: list[dict[str, Any]] = []
    with compute_threads(args.threads):
        for axis, values in sizes.items():
            for row in measure(axis, values, args) if values else ():
                rows.append(row)
                print(row, flush=True)
    setting = f"aer-abs, ResNet18 of width {args.width}, {args.per_task} samples per task"
    title = f"Growth in multiples of the first size: {setting}"
    report(title, args.threads, rows, args.out)
    if args.photos:
        saved = list(measure_checkpoints(args.photos))
        where = args.out.with_name(f"{args.out.name}-checkpoint") if args.out else None
        report(
            "Checkpoints of a buffer of photos of 224 x 224 pixels, with fsync", args.threads, saved, where
        )
    if args.out is not None and rows:
        args.out.with_suffix(".svg").write_text(plot(rows))


if __name__ == "__main__":
    main()
