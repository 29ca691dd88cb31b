"""`Learner`: learns from images and labels that arrive again and again, some of them with new classes.

It trains a method of the registry. A call of `learn` is a task. n samples, C classes.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from remnant.config import Config
from remnant.config.own_data import default_lr, default_net
from remnant.config.recipe import nested
from remnant.data import Spec
from remnant.data.dataset import InMemory, Source
from remnant.engine.threads import compute_threads
from remnant.errors import RemnantError, memory_errors
from remnant.experiment.build import build_backend, embeds, net_builder
from remnant.experiment.checkpoint import content_errors
from remnant.features import embed, embed_filled, load_frozen
from remnant.learner.growth import check_classes, grown
from remnant.learner.inputs import to_classes, to_images, to_samples
from remnant.learner.received import SIDE, UNKNOWN, Embed, check_side, first_spec, received, side_of
from remnant.learner.saved import (
    OF_STREAM,
    SavedLearner,
    read_learner,
    settings_of_learner,
    used_ids,
    with_settings,
    write_learner,
)
from remnant.learner.sources import Arrived, Samples
from remnant.methods.protocol import Algorithm, StepDone, TaskLearner
from remnant.models.description import config_for, names_of
from remnant.models.model import Label, Model, check_pretrained, to_model
from remnant.models.recalibrated import Recalibrated
from remnant.nets import Backbone
from remnant.nets.module import GivenModule
from remnant.rng import Generators
from remnant.stream import Task
from remnant.suspects.collected import evidence_of
from remnant.suspects.scores import Evidence
from remnant.suspects.table import Suspect, rows, scored
from remnant.transforms.image import ImageTransform


class Learner:
    """Learns images and labels call by call, keeps a small buffer of them, and doubts noisy labels.

    Neither classes nor tasks need be known beforehand: the network's head grows, and the rest of the state
    stays. Labels are strings or integers.
    """

    def __init__(
        self,
        method: str | Algorithm = "aer-abs",
        net: Any = None,  # noqa: ANN401
        buffer_size: int = 2000,
        classes: Sequence[Label] | None = None,
        *,
        head: int | None = None,
        transform: ImageTransform | None = None,
        image_size: int = 0,
        **settings: Any,  # noqa: ANN401
    ) -> None:
        """Choose method, network and settings, as for `remnant.run`.

        `net` is a name, a function from a `Spec` to a module, or a module: it maps a batch to `head`
        features if this number is given, else to logits, and then it cannot grow. `classes` that are given
        beforehand are known from the start. By default, the network is that of own data: a head on frozen
        features if they are installed. `transform` normalises with the mean and standard deviation of the
        first images, crops, and flips colour images; features need none. Image files are resized to
        `image_size`, by default that of a pretrained network, else 32.
        """
        check_side(image_size)
        net = default_net(image_size or SIDE) if net is None else net
        net = GivenModule(net, head) if isinstance(net, nn.Module) else net
        own = {"method": method, "net": net, "buffer_size": buffer_size, "lr": default_lr(net)}
        self._settings = nested(own | settings_of_learner(settings))
        self._labels: list[Label] = [] if classes is None else to_classes(classes)
        self._transform, self._image_size = transform, image_size
        self._spec: Spec | None = None
        self._learner: TaskLearner | None = None
        self._tasks = self._samples = 0
        self._files: list[str] = []  # of every sample so far; empty for samples without a file
        self._evidence: list[Evidence] = []
        self._backbone: Backbone | None = None  # loaded when it is needed
        self._left_out: dict[str, str] = {}
        self._is_learning = False  # true after a call of `learn` that did not finish
        self._config()  # reports mistakes at once

    @property
    def classes_(self) -> NDArray[Any]:
        """Return the labels known so far, in the order of the columns of `predict_proba`."""
        return np.array(self._labels)

    @property
    def samples(self) -> int:
        """Return the number of samples learned so far."""
        return self._samples

    @property
    def image_size(self) -> int:
        """Return the side length to which image files are resized."""
        return side_of(self._config().net, self._spec.shape[-1] if self._spec else self._image_size)

    @property
    def left_out(self) -> Mapping[str, str]:
        """Return the files that the last call of `learn` could not use, with the reasons."""
        return self._left_out

    def learn(self, images: Any, labels: Any = None) -> "Learner":  # noqa: ANN401
        """Learn a task: images with labels, a dataset of pairs, a folder of class folders, or a name of data.

        Names are those of `remnant run`: `folder:DIR`, `table:FILE.csv`, `hf:NAME` or a dataset; `left_out`
        lists the files that cannot be used. Samples that do not fit leave the learner unchanged. If training
        itself fails or is interrupted, the learner cannot be used any more: load the saved one again.
        """
        self._check_finished()
        samples = to_samples(images, labels, self.image_size)
        if len({type(label) for label in [*self._labels, *samples.labels]}) > 1:
            raise RemnantError("expected labels that are all strings or all integers, got both.")
        known = [*self._labels, *sorted(set(samples.labels) - set(self._labels))]
        config, seen = self._config(), getattr(self._learner, "seen", None)
        check_classes(set(samples.labels), self._labels, seen, config)
        with memory_errors(), compute_threads(config.threads):
            spec = self._spec_with(known, samples.images)
            x = self._received(samples.images, spec, embed_filled)
            self._grow(spec, known)
            self._is_learning = True
            self._learn(x, samples)
            self._is_learning = False
        self._left_out = dict(samples.left_out)
        return self

    def partial_fit(self, images: Any, labels: Any, classes: Any = None) -> "Learner":  # noqa: ANN401
        """Learn a task; `classes` may be given in the first call, as in scikit-learn."""
        if classes is not None and not self._labels:
            self._labels = to_classes(classes)
        return self.learn(images, labels)

    def predict_proba(self, images: Any) -> NDArray[np.float32]:  # noqa: ANN401
        """Return the probabilities of the classes, (n, C)."""
        learner, images = self._trained(), InMemory(to_images(images))
        with compute_threads(self._config().threads):
            assert self._spec is not None
            logits = learner.predict(self._received(images, self._spec, embed))
            probabilities: NDArray[np.float32] = logits.softmax(1).cpu().numpy()
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
        buffers = self._trained().buffers().values()
        stored = torch.cat([torch.empty(0, dtype=torch.long), *(buffer.samples().id for buffer in buffers)])
        index, files = torch.arange(self._samples), self._files if any(self._files) else []
        return rows(scored(self._evidence), names_of(self._labels), index, files, stored)

    def model(self) -> Model:
        """Return the network for predictions alone."""
        return to_model(self._config(), self._trained().network(), self._labels)

    def save(self, folder: str | Path) -> None:
        """Save the complete state to a folder, atomically: an existing learner in it is replaced or kept."""
        learner, config = self._trained(), self._config()
        assert self._spec is not None
        saved = SavedLearner(
            self._spec, tuple(self._labels), config.table(), self._tasks, self._samples, tuple(self._files),
            self._evidence, learner.state_dict(),
        )  # fmt: skip
        write_learner(Path(folder), saved, learner.network(), config)

    @classmethod
    def load(
        cls,
        folder: str | Path,
        net: Any = None,  # noqa: ANN401
        head: int | None = None,
        **settings: Any,  # noqa: ANN401
    ) -> "Learner":
        """Load a saved learner, or a finished run, to learn further; `net` is needed if it was an object.

        `settings` that may differ between tasks, such as `epochs` and `lr`, hold from now on.
        """
        saved = read_learner(Path(folder))
        what = f"{folder}: expected a saved learner or a finished run, but its content does not fit"
        with content_errors(what, advice="Learn the tasks again."):
            return cls._restored(with_settings(saved, settings), Path(folder), net, head)

    @classmethod
    def _restored(cls, saved: SavedLearner, folder: Path, net: Any, head: int | None) -> "Learner":  # noqa: ANN401
        settings = {k: v for k, v in saved.settings.items() if k not in OF_STREAM}
        settings |= {} if net is None else {"net": net, "head": head}
        learner = cls(**settings, classes=saved.labels)
        learner._spec, learner._transform = saved.spec, saved.spec.transform  # type: ignore[assignment]
        learner._tasks, learner._samples = saved.tasks, saved.samples
        learner._files, learner._evidence = list(saved.files), list(saved.evidence)
        if saved.pretrained is not None:
            check_pretrained(learner._config(), saved.pretrained, folder)
        learner._learner = learner._build(saved.spec)
        learner._learner.load_state_dict(saved.state)
        learner._skip_stored_ids()
        return learner

    def _skip_stored_ids(self) -> None:
        """Continue after the ids in the buffers; a run without statistics does not store how many it used."""
        buffers = [buffer.samples().id for buffer in self._trained().buffers().values()]
        used = used_ids(buffers, self._samples)
        self._files += [""] * (used - self._samples)
        self._samples = max(self._samples, used)

    def _spec_with(self, labels: Sequence[Label], images: Source) -> Spec:
        """Return the spec with these classes; that of the first call is determined by its images."""
        if self._spec is not None:
            return replace(self._spec, classes=names_of(labels))
        if len(labels) < 2:
            raise RemnantError(
                f"expected samples of at least two classes in the first call, got {labels}. Give the "
                "classes beforehand: classes=[...]."
            )
        return first_spec(images, names_of(labels), self._config(), self._transform, self.image_size)

    def _received(self, images: Source, spec: Spec, embed: Embed) -> Tensor:
        """Return what the method receives: images that fit the spec, or their features."""
        config = self._config()
        if embeds(config) and self._backbone is None:
            self._backbone = load_frozen(config.net, build_backend(config))
        return received(images, spec, self._backbone, embed)

    def _grow(self, spec: Spec, labels: list[Label]) -> None:
        """Build the learner, or another one with more classes and the same state."""
        learner = self._learner
        if learner is None or len(labels) > len(self._labels):
            net = self._settings["net"]
            if learner is not None and isinstance(net, GivenModule):
                net.check_grows()
            larger = self._build(spec)
            if learner is not None:
                before, after = learner.state_dict(), larger.state_dict()
                larger.load_state_dict(grown(after, before, len(self._labels), len(labels)))
            learner = larger
        self._spec, self._labels, self._learner = spec, labels, learner

    def _config(self, spec: Spec | None = None) -> Config:
        return config_for(spec or self._spec or UNKNOWN, self._settings)

    def _build(self, spec: Spec) -> TaskLearner:
        config = self._config(spec)
        backend = build_backend(config)
        setup = replace(config.setup(), device=backend.device)
        new_net = net_builder(config, setup.spec, backend)
        learner = config.to_method().build(setup, new_net, Generators.from_seed(config.seed), None)
        return Recalibrated(learner, setup.spec.transform) if config.batchnorm == "buffer" else learner

    def _learn(self, x: Tensor, samples: Samples) -> None:
        learner, number = self._learner, {label: i for i, label in enumerate(self._labels)}
        assert learner is not None
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

    def _check_finished(self) -> None:
        if self._is_learning:
            raise RemnantError(
                "expected a learner whose last call of learn has finished, got one that was interrupted or "
                "failed in training. Load the saved learner again: Learner.load(FOLDER)."
            )

    def _trained(self) -> TaskLearner:
        self._check_finished()
        if self._learner is None:
            raise RemnantError(
                "expected a learner that has learned something, got a new one. Call learn first."
            )
        return self._learner
