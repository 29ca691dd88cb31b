"""The settings of a run as one value."""

import hashlib
import json
import re
from collections.abc import Iterable
from typing import Annotated, Any

import tomli_w
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator

from remnant import component
from remnant.cnll import Cnll
from remnant.consolidate import Consolidation, Nothing
from remnant.data import Spec, entry
from remnant.errors import RemnantError, nearest
from remnant.insertion import Insertion
from remnant.learner import Training
from remnant.methods import METHODS, Method, Replay
from remnant.nets import NETS, Net
from remnant.noise import NOISES, Noise
from remnant.objective import Objective
from remnant.registry import CHOICES, OF_METHOD, OF_REPLAY, REGISTRIES
from remnant.replacement import Replacement
from remnant.schedule import Schedule
from remnant.scoring import Scoring
from remnant.spr import Spr
from remnant.stream import split_evenly

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


def _is_data(name: object) -> object:
    try:
        return entry(str(name)).spec.name
    except RemnantError as error:
        raise ValueError(str(error)) from error


class Config(BaseModel):
    """Everything that decides the result of a run, made by `resolve`; equal ones give equal bytes."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", arbitrary_types_allowed=True, allow_inf_nan=False
    )

    name: str = Field("digits", pattern=r"^[\w.+-]+$", description="first part of the run folder")
    data: Annotated[str, BeforeValidator(_is_data)] = Field("digits", description="data set")
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
    def spec(self) -> Spec:
        """Return what is known of the data before they are loaded."""
        return entry(self.data).spec

    @property
    def label(self) -> str:
        """Return the name of the method that the choices make, or the one they were changed from."""
        # All tasks at once is no choice: a changed joint is no other method, and no other is joint.
        others = [name for name in METHODS if "joint" not in (name, self.method)]
        for name in (self.method, *others):
            if self.the_method().is_same_but_tuned(METHODS[name].on(self.spec)):
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
        return list(self.split) or split_evenly(len(self.spec.classes), self.tasks)

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
