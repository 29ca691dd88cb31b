"""Checks for settings of a method that cannot be used together."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from remnant.buffer.base import needs_loss
from remnant.methods.consolidation import CONSOLIDATIONS
from remnant.methods.epoch_schedule import SCHEDULES, Phase, ReplayOnly, Schedule, phases
from remnant.methods.protocol import Problem, Setup
from remnant.methods.rebuild import NoRebuild

if TYPE_CHECKING:
    from remnant.methods.replay import Replay


def buffer_problems(setup: Setup, name: str, capacity: int, budget: int | None) -> Iterator[Problem]:
    """Yield a problem if the buffers are too small, or hold more samples in total than the budget."""
    if setup.buffer_size < 2:
        text = f"{name} needs a buffer of at least 2 samples, got {setup.buffer_size}"
        yield Problem.of(f"buffer_size: {text}", "buffer_size", "method")
    elif budget is not None and capacity > budget:
        yield Problem.of(
            f"algorithm: expected at most {budget} samples in all buffers of {name} with buffer_size = "
            f"{setup.buffer_size}, got {capacity}; reduce one of them, or increase buffer_size",
            *("buffer_size", "algorithm"),
        )


def replay_problems(method: "Replay", setup: Setup, name: str) -> Iterator[Problem]:
    """Yield the problems of the settings of a replay method."""
    if method.uses_buffer(setup.training.epochs):
        yield from buffer_problems(setup, name, setup.buffer_size, setup.buffer_size)
        yield from _writing_problems(method, setup)
    elif method.consolidation.epochs:
        yield Problem.of(
            f"consolidation: it trains on the buffer, but {name} has none; set consolidation=none",
            *("consolidation", "schedule", "method"),
        )
    if not any(Phase.TRAIN in phase for phase in phases(method.schedule, setup.training.epochs)):
        yield from _untrained_problems(method)


def _writing_problems(method: "Replay", setup: Setup) -> Iterator[Problem]:
    batch, epochs = setup.training.batch, setup.training.epochs
    if not method.insertion.count(batch):
        yield Problem.of(
            f"insertion: no sample of a batch of {batch} is inserted into the buffer; use a smaller alpha or "
            "larger batches",
            *("insertion", "batch", "method"),
        )
    if any(Phase.WRITE in phase for phase in phases(method.schedule, epochs)):
        return
    if not isinstance(method.rebuild, NoRebuild):
        return
    if isinstance(method.schedule, ReplayOnly):
        yield Problem.of(
            "schedule: with replay-only, the buffer is written at the end of a task; set rebuild=trusted",
            *("schedule", "rebuild", "method"),
        )
    else:
        yield Problem.of(
            f"epochs: the schedule {_name(method.schedule)!r} with {epochs} epoch(s) never writes to the "
            "buffer, because the last epoch is a learning epoch; use at least 2",
            *("epochs", "schedule", "method"),
        )


def _untrained_problems(method: "Replay") -> Iterator[Problem]:
    """Yield the problems of a method whose network is never trained on the stream."""
    name, keys = _name(method.schedule), ("consolidation", "schedule", "method")
    if not getattr(method.consolidation, "from_scratch", True):
        yield Problem.of(
            f"consolidation: with the schedule {name!r} there is no trained network to continue from; set "
            "consolidation.from_scratch=true, or use gdumb+coteaching or gdumb+dividemix",
            *keys,
        )
    uses_network = {
        "insertion": method.insertion.needs_loss,
        "replacement": needs_loss(method.replacement) or getattr(method.replacement, "needs_features", False),
    }
    if scored := [key for key, uses in uses_network.items() if uses]:
        yield Problem.of(
            f"{' and '.join(scored)}: samples are scored by the network, which the schedule {name!r} never "
            "trains; use insertion = everything and replacement = greedy-balanced",
            *(*keys, *scored),
        )
    if not method.consolidation.epochs:
        known = ", ".join(n for n in CONSOLIDATIONS if n != "none")
        yield Problem.of(
            f"schedule: with {name!r} no network is trained before the end of a task; choose a "
            f"consolidation: {known}",
            *keys,
        )


def _name(schedule: Schedule) -> str:
    return next((name for name, known in SCHEDULES.items() if known == schedule), type(schedule).__name__)
