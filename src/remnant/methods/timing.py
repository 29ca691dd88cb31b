"""Timing of a few training steps, to estimate the duration of a run."""

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch

from remnant.buffer.buffer import Buffer
from remnant.methods.epoch_schedule import Phase
from remnant.methods.protocol import Algorithm, Build, Event, Setup, StepDone
from remnant.stream import Task

STEPS = 6


@dataclass(frozen=True)
class Only:
    """A schedule with one phase."""

    phase: Phase

    def __call__(self, epoch: int, epochs: int) -> Phase:
        """Return the phase."""
        return self.phase


def fill(buffer: Buffer, task: Task, classes: int) -> None:
    """Store samples of the task in every slot."""
    slots = torch.arange(buffer.capacity)
    samples = task.take(slots % len(task))
    samples = replace(samples, id=-2 - slots)  # ids that never occur, so that no candidate is a duplicate
    buffer.put(slots, samples, task.number, torch.zeros(buffer.capacity, classes, device=buffer.x.device))


def first_steps(events: Iterator[Event], steps: int = STEPS) -> tuple[list[float], int]:
    """Return the seconds of the first steps of an epoch, and how many steps it has."""
    times, planned, last = list[float](), 0, time.perf_counter()
    for event in events:
        _wait(event)
        now = time.perf_counter()
        if not isinstance(event, StepDone) or len(times) == steps:
            break
        times.append(now - last)
        last, planned = now, event.steps
    return times, planned


def _wait(event: Event) -> None:
    """Wait until a step is computed, by reading its loss."""
    if isinstance(event, StepDone) and event.unread is not None:
        event.unread.item()


def seconds_by_work(events: Iterator[Event]) -> dict[str, list[float]]:
    """Return the seconds of each step by kind of work, without the first step of each."""
    times: dict[str, list[float]] = {}
    last = time.perf_counter()
    for event in events:
        _wait(event)
        now = time.perf_counter()
        if isinstance(event, StepDone):
            times.setdefault(event.work, []).append(now - last)
        last = time.perf_counter()
    return {work: spent[1:] or spent for work, spent in times.items()}


def time_full_delay(
    short: Algorithm, delay: int, setup: Setup, build: Build, task: Task
) -> dict[str, list[float]]:
    """Return the seconds of steps by kind of work, on samples that fill a delay buffer once."""
    task = replace(task, id=task.id[:delay], y=task.y[:delay])
    training = replace(setup.training, epochs=math.ceil(delay / len(task)))
    return seconds_by_work(build(short, replace(setup, training=training)).learn(task))
