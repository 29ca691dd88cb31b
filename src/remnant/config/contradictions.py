"""What does not go together in a config, each in a sentence."""

from collections.abc import Callable, Iterator

import numpy as np

from remnant import component
from remnant.cnll import Cnll
from remnant.config.model import Config
from remnant.consolidate import CONSOLIDATIONS, Consolidation, Nothing
from remnant.errors import RemnantError
from remnant.methods import LEARNERS, Method, Replay
from remnant.nets import check_fits as check_net
from remnant.noise import check_fits
from remnant.registry import CHOICES
from remnant.replacement import PurityDiversity
from remnant.schedule import SCHEDULES, Phase, phases
from remnant.spr import Spr
from remnant.stream import class_order, split_evenly


def contradictions(config: Config) -> Iterator[tuple[set[str], str]]:
    """Yield what does not go together, with the keys that take part in it."""
    spec = config.spec
    classes = len(spec.classes)
    if config.split and (sum(config.split) != classes or min(config.split) < 1):
        yield (
            {"data", "split"},
            f"split: expected numbers of classes that add up to the {classes} of {config.data}, "
            f"got {list(config.split)} ({sum(config.split)})",
        )
    if any(not 0 < share < 1 for share in config.lr_drops):
        yield {"lr_drops"}, f"lr_drops: expected shares in (0, 1), got {list(config.lr_drops)}"
    attempts: dict[str, Callable[[], object]] = {
        "tasks": lambda: config.split or split_evenly(classes, config.tasks),
        "class_order": lambda: class_order(config.class_order, spec, np.random.default_rng()),
        "noise": lambda: check_fits(config.noise, spec),
        "net": lambda: check_net(config.net, spec),
    }
    for key, attempt in attempts.items():
        try:
            attempt()
        except RemnantError as error:
            yield {"data", key}, f"{key}: {error}"
    for choice, why in () if spec.are_images else config.the_method().for_images_only():
        yield {"data", "method", choice}, f"{choice}: {why}: {config.data} are skeletons"
    yield from _method_problems(config)


def _method_problems(config: Config) -> Iterator[tuple[set[str], str]]:
    uses_memory = config.the_method().uses_memory(config.epochs)
    if uses_memory and config.buffer < 2:
        text = f"buffer: {config.method} needs a memory of at least 2 rows, got {config.buffer}"
        yield {"buffer", "method"}, text
    if isinstance(config.learner, Replay):
        yield from _memory_problems(config) if uses_memory else ()
        yield from _consolidation_problems(config)
    elif config.buffer > 1:
        yield from _learner_problems(config, config.learner)


def _learner_problems(config: Config, learner: Spr | Cnll) -> Iterator[tuple[set[str], str]]:
    name, plain = component.name_of(LEARNERS, learner), Method()
    changed = [choice for choice in CHOICES if getattr(config, choice) != getattr(plain, choice)]
    if changed:
        yield (
            {*changed, "method", "learner"},
            f"{', '.join(changed)}: {name} makes no such choice; "
            + ("leave it out" if config.method == name else f"say method = {name}, if you meant that"),
        )
    budget, capacity = learner.budget(config.buffer), learner.capacity(config.buffer)
    if budget is not None and capacity > budget:
        yield (
            {"buffer", "learner"},
            f"learner: its memories would hold {capacity} rows, and {name} with buffer = "
            f"{config.buffer} is granted {budget}; make one of them smaller, or buffer larger",
        )


def _consolidation_problems(config: Config) -> Iterator[tuple[set[str], str]]:
    method, keys = config.the_method(), {"consolidation", "schedule", "method"}
    consolidates = not isinstance(config.consolidation, Nothing)
    if consolidates and not method.uses_memory(config.epochs):
        yield (
            keys,
            f"consolidation: it learns from the memory, and {config.method} keeps none; take 'none'",
        )
    if any(Phase.TRAIN in phase for phase in phases(method.schedule, config.epochs)):
        return
    name = component.name_of(SCHEDULES, method.schedule)
    if isinstance(config.consolidation, Consolidation) and not config.consolidation.from_scratch:
        yield (
            keys,
            f"consolidation: with the schedule {name!r} there is no trained network to go on with; add "
            "consolidation.from_scratch=true, or take gdumb+coteaching or gdumb+dividemix",
        )
    judges = ["insertion"] if method.insertion.needs_loss else []
    if method.replacement.needs_loss or isinstance(method.replacement, PurityDiversity):
        judges.append("replacement")
    if judges:
        yield (
            {*keys, *judges},
            f"{' and '.join(judges)}: rows are judged by the network, which the schedule {name!r} never "
            "trains; take insertion = everything and replacement = greedy-balanced",
        )
    if not consolidates:
        yield (
            keys,
            f"schedule: with {name!r} nothing is learned before the end of a task; choose a "
            f"consolidation: {', '.join(n for n in CONSOLIDATIONS if n != 'none')}",
        )


def _memory_problems(config: Config) -> Iterator[tuple[set[str], str]]:
    method, batch = config.the_method(), config.batch
    if not method.insertion.count(batch):
        yield (
            {"insertion", "batch", "method"},
            f"insertion: of a batch of {batch} rows it lets none into the memory; take a smaller alpha "
            "or larger batches",
        )
    if not any(Phase.WRITE in phase for phase in phases(method.schedule, config.epochs)):
        name = component.name_of(SCHEDULES, method.schedule)
        yield (
            {"epochs", "schedule", "method"},
            f"epochs: the schedule {name!r} with {config.epochs} epoch(s) would never write to the "
            "memory, because the last epoch always learns; take at least 2",
        )
