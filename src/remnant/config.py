"""The settings of a run: checked together, with all that is wrong in one error."""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated, Any

import numpy as np
import tomli_w
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator, ValidationError

from remnant import component
from remnant.cnll import Cnll
from remnant.consolidate import CONSOLIDATIONS, Consolidation, Nothing
from remnant.data import DATA
from remnant.errors import RemnantError, nearest, sentence
from remnant.insertion import Insertion
from remnant.learner import Training
from remnant.methods import LEARNERS, METHODS, Method, Replay
from remnant.nets import NETS, Net
from remnant.nets import check_fits as check_net
from remnant.noise import NOISES, Noise, check_fits
from remnant.objective import Objective
from remnant.registry import CHOICES, OF_METHOD, OF_REPLAY, REGISTRIES
from remnant.replacement import PurityDiversity, Replacement
from remnant.schedule import SCHEDULES, Phase, Schedule, phases
from remnant.scoring import Scoring
from remnant.spr import Spr
from remnant.stream import class_order, split_evenly

FORMAT = 2  # of run folders; a new number makes every run a new one


def _component(kind: str) -> PlainValidator:
    return PlainValidator(lambda table: component.build(kind, REGISTRIES[kind], table))


def _known(kind: str, names: Iterable[str]) -> BeforeValidator:
    known = list(names)

    def check(name: object) -> object:
        if name not in known:
            raise ValueError(
                f"unknown {kind} {name!r}{nearest(str(name), known)} Known: {', '.join(known)}"
            )
        return name

    return BeforeValidator(check)


class Config(BaseModel):
    """Everything that decides the result of a run, made by `resolve`; equal ones give equal bytes."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", arbitrary_types_allowed=True, allow_inf_nan=False
    )

    name: str = Field("digits", pattern=r"^[\w.+-]+$", description="first part of the run folder")
    data: Annotated[str, _known("data set", DATA)] = Field("digits", description="data set")
    per_class: int = Field(0, ge=0, strict=True, description="training rows per class; 0: all")
    noise: Annotated[Noise, _component("noise")] = Field(NOISES["symmetric"], description="label noise")
    tasks: int = Field(5, ge=1, strict=True, description="tasks of equally many classes")
    split: tuple[int, ...] = Field((), description="classes of each task, in place of `tasks`")
    class_order: str | tuple[int, ...] = Field(
        "native", description="native, superclass, random, or a list of class numbers"
    )
    validation: float = Field(
        0.0, ge=0, lt=1, strict=True,
        description="share of the noisy training rows to test on, in place of the test set",
    )  # fmt: skip
    net: Annotated[Net, _component("net")] = Field(NETS["small"], description="network")
    channels_last: bool = Field(False, strict=True, description="memory layout; faster when wide")
    method: Annotated[str, _known("method", METHODS)] = Field("aer-abs", description="method")
    objective: Annotated[Objective, _component("objective")] = Field(description="what a step minimises")
    schedule: Annotated[Schedule, _component("schedule")] = Field(description="what an epoch may do")
    scoring: Annotated[Scoring, _component("scoring")] = Field(description="how old a loss may be")
    insertion: Annotated[Insertion, _component("insertion")] = Field(description="who may enter")
    replacement: Annotated[Replacement, _component("replacement")] = Field(description="who leaves")
    consolidation: Annotated[Consolidation | Nothing, _component("consolidation")] = Field(
        description="what is done with the memory at the end of a task"
    )
    learner: Annotated[Replay | Spr | Cnll, _component("learner")] = Field(
        description="what learns: replay by the six choices above, or a method of another build"
    )
    buffer: int = Field(100, ge=0, le=10**7, strict=True, description="rows of the memory")
    epochs: int = Field(20, ge=1, strict=True, description="epochs per task")
    batch: int = Field(32, ge=3, strict=True, description="rows of the stream, and of the memory")
    lr: float = Field(0.1, gt=0, strict=True, description="learning rate")
    lr_drops: tuple[float, ...] = Field((), description="shares of the epochs after which lr / 10")
    momentum: float = Field(0.0, ge=0, lt=1, strict=True, description="of SGD")
    weight_decay: float = Field(0.0, ge=0, strict=True, description="of SGD")
    threads: int = Field(1, ge=1, le=256, strict=True, description="compute threads; changes bits")
    seed: int = Field(0, ge=0, strict=True, description="of everything random")

    @property
    def label(self) -> str:
        """Return the name of the method that the choices make, or the one they were changed from."""
        # All tasks at once is no choice: a changed joint is no other method, and no other is joint.
        others = [name for name in METHODS if "joint" not in (name, self.method)]
        for name in (self.method, *others):
            if self.the_method().is_same_but_tuned(METHODS[name]):
                return name
        return f"{self.method}-custom"

    def the_method(self) -> Method:
        """Return the choices as one value."""
        return Method(**{choice: getattr(self, choice) for choice in OF_METHOD})

    def training(self) -> Training:
        """Return how long and how fast to learn."""
        return Training(
            self.epochs, self.batch, self.lr, self.lr_drops, self.momentum, self.weight_decay
        )

    def sizes(self) -> list[int]:
        """Return the number of classes of each task."""
        classes = len(DATA[self.data].spec.classes)
        return list(self.split) or split_evenly(classes, self.tasks)

    def table(self) -> dict[str, Any]:
        """Return the whole config as plain values, ready for TOML or JSON, without idle choices."""
        idle = () if isinstance(self.learner, Replay) else (*CHOICES, *OF_REPLAY)
        values = {name: getattr(self, name) for name in type(self).model_fields if name not in idle}
        return {
            name: component.describe(REGISTRIES[name], value)
            if name in REGISTRIES
            else list(value) if isinstance(value, tuple) else value
            for name, value in values.items()
        }  # fmt: skip

    def toml(self) -> str:
        """Return the whole config as a recipe that repeats the run."""
        return tomli_w.dumps(self.table())

    def run_id(self, fingerprint: str) -> str:
        """Return the run's folder name: config and data decide it, output options do not."""
        content = json.dumps([FORMAT, fingerprint, self.table()], sort_keys=True)
        digest = hashlib.sha256(content.encode()).hexdigest()[:8]
        noise = re.sub(r":.*/", ":", component.short(NOISES, self.noise))  # a file without its folders
        noise = re.sub(r"[^\w.=-]+", "-", noise)[:60]
        return f"{self.name}-{self.label}-{noise}-s{self.seed}-{digest}"


def resolve(given: Mapping[str, Any]) -> Config:
    """Return the config that these settings ask for, or one error with everything wrong in them."""
    known = [*Config.model_fields]
    problems = [f"unknown key {key!r}{_hint(key, known)}" for key in given if key not in known]
    raw = {key: value for key, value in given.items() if key in known}
    complete, wrong = _with_method(raw), set()
    try:
        config = Config(**complete)
    except ValidationError as error:
        problems += [sentence(e) for e in error.errors()]
        wrong = {str(e["loc"][0]) for e in error.errors()}
        config = Config(**_with_method({k: v for k, v in raw.items() if k not in wrong}))
    problems += [text for keys, text in _contradictions(config) if not wrong & keys]
    if problems:
        lines = "\n".join(f"  - {problem}" for problem in problems)
        raise RemnantError(f"the settings cannot be used:\n{lines}\nSee `remnant list settings`.")
    return config


def _with_method(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Fill in the method's choices; a table without a name changes settings of the method's own."""
    merged = dict(raw)
    method = METHODS.get(str(raw.get("method", "aer-abs")), METHODS["aer-abs"])
    for kind, registry in REGISTRIES.items():
        default = getattr(method, kind) if kind in OF_METHOD else Config.model_fields[kind].default
        base = component.describe(registry, default)
        value = raw.get(kind, {})
        if not isinstance(value, str | Mapping):
            value = {"name": value}
        table = component.as_table(registry, value)
        same = table.get("name", base["name"]) == base["name"]
        merged[kind] = (base if same else {}) | table
    if merged["learner"].get("name") != "replay":  # a recipe's rates are for methods that replay
        merged = {key: value for key, value in merged.items() if key not in OF_REPLAY}
    return merged


def _hint(key: str, known: list[str]) -> str:
    owners = [
        f"{kind}.{key}"
        for kind, registry in REGISTRIES.items()
        if any(key in component.settings(value) for value in registry.values())
    ]
    return f"; did you mean {' or '.join(owners)}?" if owners else nearest(key, known)


def _contradictions(config: Config) -> Iterator[tuple[set[str], str]]:
    """Yield what does not go together, with the keys that take part in it."""
    spec = DATA[config.data].spec
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
