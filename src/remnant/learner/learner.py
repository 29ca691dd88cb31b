"""`Learner`: learns from images and labels that arrive again and again, some of them with new classes.

It trains a method of the registry. A call of `learn` is a task. n samples, C classes.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from remnant.config import Config
from remnant.data import Spec
from remnant.data.dataset import Indices
from remnant.engine.threads import compute_threads
from remnant.errors import RemnantError, memory_errors
from remnant.experiment.build import build_backend, net_builder
from remnant.learner.growth import grown
from remnant.learner.inputs import Samples, to_images, to_labels, to_samples, with_channels
from remnant.learner.saved import SavedLearner, read_learner, write_learner
from remnant.methods.protocol import Algorithm, StepDone, TaskLearner
from remnant.models.description import config_for, names_of
from remnant.models.model import Label, Model
from remnant.nets.module import GivenModule
from remnant.rng import Generators
from remnant.stream import Task
from remnant.suspects.collected import evidence_of
from remnant.suspects.scores import Evidence
from remnant.suspects.table import Suspect, rows, scored
from remnant.transforms.image import ImageTransform

NET = "resnet18:16"


@dataclass(frozen=True, eq=False)
class Arrived:
    """The images of one call, as a source: the ids of samples are counted over all calls."""

    x: Tensor
    first: int  # id of the first image

    def __len__(self) -> int:
        return len(self.x)

    def take(self, index: Tensor) -> Tensor:
        """Return the raw images with these ids."""
        return self.x[index - self.first]

    def select(self, index: Indices) -> "Arrived":
        """Return these images only."""
        return Arrived(self.x[torch.from_numpy(index)], self.first)


class Learner:
    """Learns images and labels call by call, keeps a small buffer of them, and doubts noisy labels.

    Neither classes nor tasks need be known beforehand: the network's head grows, and the rest of the state
    stays. Labels are strings or integers.
    """

    def __init__(
        self,
        method: str | Algorithm = "aer-abs",
        net: Any = NET,  # noqa: ANN401
        buffer_size: int = 2000,
        classes: Sequence[Label] | None = None,
        *,
        head: int | None = None,
        transform: ImageTransform | None = None,
        image_size: int = 32,
        **settings: Any,  # noqa: ANN401
    ) -> None:
        """Choose method, network and settings, as for `remnant.run`.

        `net` is a name, a function from a `Spec` to a module, or a module: it maps a batch to `head`
        features if this number is given, else to logits, and then it cannot grow. `classes` that are given
        beforehand are known from the start. By default, `transform` normalises with the mean and standard
        deviation of the first images, crops, and flips colour images. Image files are resized to
        `image_size`.
        """
        net = GivenModule(net, head) if isinstance(net, nn.Module) else net
        self._settings = {"method": method, "net": net, "buffer_size": buffer_size, **settings}
        self._labels: list[Label] = [] if classes is None else _distinct(to_labels(classes))
        self._transform, self._side = transform, image_size
        self._spec: Spec | None = None
        self._learner: TaskLearner | None = None
        self._tasks = self._samples = 0
        self._files: list[str] = []  # of every sample so far; empty for samples without a file
        self._evidence: list[Evidence] = []
        config_for(_ANY, self._settings)  # reports mistakes at once

    @property
    def classes_(self) -> NDArray[Any]:
        """Return the labels known so far, in the order of the columns of `predict_proba`."""
        return np.array(self._labels)

    @property
    def samples(self) -> int:
        """Return the number of samples learned so far."""
        return self._samples

    def learn(self, images: Any, labels: Any = None) -> "Learner":  # noqa: ANN401
        """Learn a task: images with labels, a dataset of pairs, or a folder of class folders.

        If it fails or is interrupted, load the saved learner again: its weights may have changed.
        """
        samples = to_samples(images, labels, self._side)
        if len({type(label) for label in [*self._labels, *samples.labels]}) > 1:
            raise RemnantError("expected labels that are all strings or all integers, got both.")
        new = sorted(set(samples.labels) - set(self._labels))
        x = self._prepare(samples.x, [*self._labels, *new])
        with memory_errors(), compute_threads(self._config().threads):
            self._extend(new)
            self._learn(x, samples)
        return self

    def partial_fit(self, images: Any, labels: Any, classes: Any = None) -> "Learner":  # noqa: ANN401
        """Learn a task; `classes` may be given in the first call, as in scikit-learn."""
        if classes is not None and not self._labels:
            self._labels = _distinct(to_labels(classes))
        return self.learn(images, labels)

    def predict_proba(self, images: Any) -> NDArray[np.float32]:  # noqa: ANN401
        """Return the probabilities of the classes, (n, C)."""
        learner, x = self._trained(), self._prepare(to_images(images), self._labels)
        with compute_threads(self._config().threads):
            probabilities: NDArray[np.float32] = learner.predict(x).softmax(1).cpu().numpy()
        return probabilities

    def predict(self, images: Any) -> NDArray[Any]:  # noqa: ANN401
        """Return the most probable label of each image, (n,)."""
        return self.classes_[self.predict_proba(images).argmax(1)]  # type: ignore[no-any-return]

    def suspects(self) -> list[Suspect]:
        """Return all samples learned so far, the most doubtful label first.

        Samples are judged at the end of the call in which they were learned. A method that does not train
        on the stream itself has no suspects.
        """
        if not self._evidence:
            return []
        stored = torch.cat([torch.empty(0), *(b.samples().id for b in self._trained().buffers().values())])
        index, files = torch.arange(self._samples), self._files if any(self._files) else []
        return rows(scored(self._evidence), names_of(self._labels), index, files, stored)

    def model(self) -> Model:
        """Return the network for predictions alone."""
        assert self._spec is not None
        return Model(self._trained().network().eval(), self._spec, tuple(self._labels))

    def save(self, folder: str | Path) -> None:
        """Save the complete state to a folder, atomically: an existing learner in it is replaced or kept."""
        assert self._spec is not None
        config = self._config()
        saved = SavedLearner(
            self._spec, tuple(self._labels), config.table(), self._tasks, self._samples, tuple(self._files),
            self._evidence, self._trained().state_dict(),
        )  # fmt: skip
        write_learner(Path(folder), saved, self._trained().network(), config)

    @classmethod
    def load(cls, folder: str | Path, net: Any = None, head: int | None = None) -> "Learner":  # noqa: ANN401
        """Load a saved learner, or a finished run, to learn further; `net` is needed if it was an object."""
        saved = read_learner(Path(folder))
        settings = {k: v for k, v in saved.settings.items() if k not in ("data", "tasks", "name")}
        settings |= {} if net is None else {"net": net, "head": head}
        learner = cls(**settings, classes=saved.labels)
        learner._spec, learner._transform = saved.spec, saved.spec.transform  # type: ignore[assignment]
        learner._side = saved.spec.shape[-1]
        learner._tasks, learner._samples = saved.tasks, saved.samples
        learner._files, learner._evidence = list(saved.files), list(saved.evidence)
        learner._learner = learner._build()
        learner._learner.load_state_dict(saved.state)
        return learner

    def _prepare(self, x: Tensor, labels: Sequence[Label]) -> Tensor:
        """Return images that fit the spec, which the first images determine."""
        if self._spec is None:
            if len(labels) < 2:
                raise RemnantError(
                    f"expected samples of at least two classes in the first call, got {labels}. Give the "
                    "classes beforehand: classes=[...]."
                )
            if not self._labels:
                self._labels = list(labels)
            transform = self._transform or transform_of(x)
            self._spec = Spec("learner", tuple(x.shape[1:]), names_of(self._labels), transform)
        x = with_channels(x, self._spec.shape[0])
        if tuple(x.shape[1:]) != self._spec.shape:
            raise RemnantError(
                f"expected images of shape {self._spec.shape}, got {tuple(x.shape[1:])}. Resize them."
            )
        return x

    def _extend(self, new: Sequence[Label]) -> None:
        """Build the learner, or let it grow if there are new classes."""
        assert self._spec is not None
        added = [label for label in new if label not in self._labels]
        if self._learner is None:
            self._labels += added
            self._spec = replace(self._spec, classes=names_of(self._labels))
            self._learner = self._build()
        elif added:
            net, state, before = self._settings["net"], self._learner.state_dict(), len(self._labels)
            if isinstance(net, GivenModule):
                net.check_grows()
            self._labels += added
            self._spec = replace(self._spec, classes=names_of(self._labels))
            self._learner = self._build()
            self._learner.load_state_dict(grown(self._learner.state_dict(), state, before, len(self._labels)))

    def _config(self) -> Config:
        return config_for(self._spec or _ANY, self._settings)

    def _build(self) -> TaskLearner:
        config = self._config()
        backend = build_backend(config)
        setup = replace(config.setup(), device=backend.device)
        new_net = net_builder(config, setup.spec, backend)
        return config.to_method().build(setup, new_net, Generators.from_seed(config.seed), None)

    def _learn(self, x: Tensor, samples: Samples) -> None:
        learner, number = self._trained(), {label: i for i, label in enumerate(self._labels)}
        y = torch.tensor([number[label] for label in samples.labels])
        device, id = build_backend(self._config()).device, torch.arange(len(y)) + self._samples
        source = Arrived(x.to(device), self._samples)
        task = Task(self._tasks, tuple(sorted(set(y.tolist()))), id, y, source, device)
        for event in learner.learn(task):
            if isinstance(event, StepDone) and event.loss is not None and not math.isfinite(event.loss):
                raise RemnantError(f"the loss became {event.loss}. Try a smaller learning rate: lr=...")
        self._tasks += 1
        self._samples += len(y)
        self._files += samples.files or [""] * len(y)
        if (statistics := learner.statistics(task)) is not None:
            self._evidence.append(evidence_of(task, statistics, learner.predict))

    def _trained(self) -> TaskLearner:
        if self._learner is None:
            raise RemnantError(
                "expected a learner that has learned something, got a new one. Call learn first."
            )
        return self._learner


_ANY = Spec("learner", (3, 32, 32), ("a", "b"), ImageTransform((0.5,) * 3, (0.25,) * 3))  # before the first


def transform_of(x: Tensor) -> ImageTransform:
    """Return the transform that normalises images like these; colour images are flipped."""
    pixels = x.double() / 255
    mean, std = pixels.mean((0, 2, 3)), pixels.std((0, 2, 3)).clamp(min=1e-3)
    return ImageTransform(tuple(mean.tolist()), tuple(std.tolist()), x.shape[-1] // 8, len(mean) == 3)


def _distinct(labels: list[Label]) -> list[Label]:
    if len(set(labels)) != len(labels):
        raise RemnantError(f"expected each class once, got {labels}.")
    return labels
