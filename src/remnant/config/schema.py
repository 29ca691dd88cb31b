"""The config, which holds all settings of a run."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, field_validator

from remnant.config.components import PYTHON, describe, short
from remnant.config.registries import (
    CUSTOM,
    OWN_DATA,
    REGISTRIES,
    components_of,
    describe_algorithm,
    find_method,
    fitted_to,
    is_same_method,
)
from remnant.data import Dataset, OwnData, Spec, entry
from remnant.extensions import describe_object, with_sources
from remnant.methods.protocol import Algorithm, Setup, Training
from remnant.methods.registry import METHODS, SUFFIXES, with_suffix
from remnant.nets import NETS, adapted, pretrained_weights
from remnant.noise import NOISES
from remnant.stream import split_evenly

BY_ROWS = r"column|arrival:[1-9][0-9]{0,3}"  # tasks of a table, by its column `task` or in N equal parts
FORMAT = 5  # of run folders; a new number gives every run a new folder
NEWER = {"batchnorm": "stream"}  # settings newer than FORMAT, which are left out with these values


class Config(BaseModel):
    """All settings that determine the result of a run; created by `resolve`."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True, allow_inf_nan=False)

    name: str = Field("digits", pattern=r"^[\w.+-]+$", description="first part of the run folder's name")
    data: Any = Field("digits", description="dataset")
    per_class: int = Field(0, ge=0, strict=True, description="training samples per class; 0: all")
    noise: Any = Field(NOISES["none"], description="label noise")
    tasks: int | str = Field(
        5,
        description="number of tasks, each with as many classes; for a table also column or arrival:N",
    )
    split: tuple[int, ...] = Field((), description="number of classes of each task, instead of `tasks`")
    class_order: str | tuple[int, ...] = Field(
        "native", description="native, superclass, random, or a list of class numbers"
    )
    validation: float = Field(
        0.0, ge=0, lt=1, strict=True,
        description="fraction of the noisy training samples to evaluate on instead of the test split",
    )  # fmt: skip
    net: Any = Field(NETS["small"], description="network")
    channels_last: Literal["auto", True, False] = Field(
        "auto", description="memory layout of images: true, false, or auto by the width of the network"
    )
    batchnorm: Literal["stream", "buffer"] = Field(
        "stream",
        description="BatchNorm statistics for predictions: of the stream, or estimated again on the buffer",
    )
    method: str = Field("aer-abs", description="method")
    objective: Any = Field(None, description="loss of a step")
    schedule: Any = Field(None, description="what is done in each epoch")
    scoring: Any = Field(None, description="when losses of stored samples are measured")
    insertion: Any = Field(None, description="which samples of a batch may be inserted into the buffer")
    replacement: Any = Field(None, description="which stored samples are replaced")
    rebuild: Any = Field(None, description="how the buffer is rebuilt at the end of a task")
    consolidation: Any = Field(None, description="training on the buffer alone at the end of a task")
    algorithm: Any = Field(None, description="training loop, which the method determines")
    buffer_size: int = Field(
        100, ge=0, le=10**7, strict=True, description="capacity of the buffer in samples"
    )
    epochs: int = Field(20, ge=1, le=10_000, strict=True, description="epochs per task")
    batch: int = Field(
        32, ge=3, strict=True, description="samples of the stream, and of the buffer, per step"
    )
    lr: float = Field(0.1, gt=0, strict=True, description="learning rate")
    lr_drops: tuple[float, ...] = Field(
        (), description="fractions of the epochs after which lr is divided by 10"
    )
    momentum: float = Field(0.0, ge=0, lt=1, strict=True, description="momentum of SGD")
    weight_decay: float = Field(0.0, ge=0, strict=True, description="weight decay of SGD")
    device: str = Field("auto", description="auto, cpu, cuda, cuda:N or mps")
    precision: str = Field(
        "float32",
        pattern="^(auto|float32|bf16)$",
        description="of forward and backward passes: float32, bf16, or auto",
    )
    compile: bool = Field(False, strict=True, description="compile networks with torch.compile")
    threads: int = Field(
        1, ge=1, le=256, strict=True, description="compute threads; affects bitwise reproducibility"
    )
    seed: int = Field(0, ge=0, strict=True, description="random seed")

    @field_validator("tasks", mode="before")
    @classmethod
    def _check_tasks(cls, value: object) -> object:
        is_number = isinstance(value, int) and not isinstance(value, bool) and value >= 1
        if not is_number and not (isinstance(value, str) and re.fullmatch(BY_ROWS, value)):
            raise ValueError(f"expected a number of at least 1, column or arrival:N, got {value!r:.60}")
        return value

    @property
    def data_spec(self) -> Spec:
        """Return the spec of the dataset, which is known before it is loaded."""
        return entry(self.data).spec if isinstance(self.data, str) else self.data.spec

    @property
    def spec(self) -> Spec:
        """Return the spec of the samples that methods receive: those of the dataset, or their features."""
        return adapted(self.net, self.data_spec)

    @property
    def label(self) -> str:
        """Return the name of the method with these components, or `NAME-custom` if there is none."""
        # joint and finetune have the same components, and differ only in the stream.
        methods = {n: m for n, m in METHODS.items() if "joint" not in (n, self.method)}
        suffixed = {f"{n}+{s}": with_suffix(m, n, s) for n, m in methods.items() for s in SUFFIXES}
        own = {} if self.method == CUSTOM else {self.method: find_method(self.method)}
        made = self.to_method()
        for name, known in (own | methods | suffixed | methods | own).items():  # a registered name wins
            if known is not None and is_same_method(made, fitted_to(known, self.spec)):
                return name.rpartition(".py:")[2]
        name = self.method.rpartition(".py:")[2]
        return name if name == CUSTOM else f"{name}-custom"

    def to_method(self) -> Algorithm:
        """Return the method with its components."""
        own = {name: getattr(self, name) for name in components_of(self.algorithm)}
        made: Algorithm = replace(self.algorithm, **own) if own else self.algorithm
        return made

    def setup(self) -> Setup:
        """Return the settings that every method receives."""
        training = Training(self.epochs, self.batch, self.lr, self.lr_drops, self.momentum, self.weight_decay)
        return Setup(self.spec, training, self.buffer_size)

    def class_counts(self) -> list[int]:
        """Return the number of classes of each task; empty if tasks follow from the rows of a table."""
        if isinstance(self.tasks, str):
            return []
        return list(self.split) or split_evenly(len(self.spec.classes), self.tasks)

    def table(self) -> dict[str, Any]:
        """Return the whole config as plain values for TOML or JSON, without unused components.

        Newer settings are left out if they change nothing, so that earlier runs keep their folders.
        """
        method = find_method(self.method)
        values = {name: getattr(self, name) for name in type(self).model_fields}
        unused = [name for name, value in values.items() if value is None]
        return {
            name: self._plain(name, value, None if method is None else getattr(method, name, method))
            for name, value in values.items()
            if name not in (*unused, *self.algorithm.unused) and (name, value) not in NEWER.items()
        }

    def _plain(self, name: str, value: Any, own: object) -> Any:  # noqa: ANN401
        if name == "algorithm":
            return describe_algorithm(value, own)
        if name in REGISTRIES:
            return describe(REGISTRIES[name], value, own)
        if isinstance(value, OwnData):
            return describe(OWN_DATA, value)
        if isinstance(value, Dataset):
            return {**describe_object(value.spec), "name": value.spec.name}
        return list(value) if isinstance(value, tuple) else value

    def values(self) -> dict[str, Any]:
        """Return settings that `resolve` converts to this config: the table, including Python objects."""
        values = self.table() | {name: getattr(self, name) for name in self.objects()}
        if "algorithm" in self.objects():
            values["method"] = values.pop("algorithm")
        return values

    def objects(self) -> list[str]:
        """Return the settings whose values are Python objects, which a config file cannot contain."""
        return [key for key, value in self.table().items() if isinstance(value, Mapping) and PYTHON in value]

    def toml(self) -> str:
        """Return the whole config as a recipe that reproduces the run."""
        return tomli_w.dumps(self.table())

    def digest(self) -> str:
        """Return a hash of the config and of extension sources, which is known before the data are loaded."""
        content = json.dumps([FORMAT, with_sources(self.table())], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()

    def run_name(self) -> str:
        """Return the name of the run folder without the hash at its end."""
        noise = re.sub(r"(^|:)[^:]*/", r"\1", short(REGISTRIES["noise"], self.noise))  # without folders
        noise = re.sub(r"[^\w.=-]+", "-", noise)[:60]
        return f"{self.name}-{self.label}-{noise}-s{self.seed}"

    def run_id(self, fingerprint: str) -> str:
        """Return the name of the run folder, which depends on config, data and extension sources."""
        table = self.table()
        if isinstance(self.data, OwnData):  # it may be moved: what it contains counts, not where it is
            table["data"] = {**table["data"], "path": "", "classes": self.data_spec.classes}
        parts = [FORMAT, fingerprint, with_sources(table), *pretrained_weights(self.net)]
        content = json.dumps(parts, sort_keys=True)
        return f"{self.run_name()}-{hashlib.sha256(content.encode()).hexdigest()[:8]}"
