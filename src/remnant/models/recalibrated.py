"""A learner that predicts with the BatchNorm statistics of its buffer."""

from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn

from remnant.buffer import Buffer
from remnant.data.dataset import Transform
from remnant.engine.batchnorm import recalibrated
from remnant.engine.inference import predict
from remnant.methods.protocol import Event, TaskLearner
from remnant.stream import Task
from remnant.suspects.trajectory import Statistics


class Recalibrated:
    """Trains as another learner does, and predicts with a copy of its network.

    At the end of a task, the moving averages of BatchNorm are those of the latest task. The buffer holds
    samples of all tasks, so the copy has the statistics of its replayed samples without augmentation.
    """

    def __init__(self, learner: TaskLearner, transform: Transform) -> None:
        self.learner, self.transform = learner, transform
        self._net: nn.Module | None = None  # computed when it is needed, after each event of training

    @property
    def seen(self) -> Tensor | None:
        """Return which classes have occurred in the stream; None if the learner does not store it."""
        return getattr(self.learner, "seen", None)

    def learn(self, task: Task) -> Iterator[Event]:
        """Learn a task, or resume it."""
        for event in self.learner.learn(task):
            self._net = None
            yield event
        self._net = None

    def network(self) -> nn.Module:
        """Return the copy that predicts; the network itself if there is no buffer."""
        if self._net is None:
            net, buffer = self.learner.network(), next(iter(self.buffers().values()), None)
            self._net = net if buffer is None else recalibrated(net, buffer.samples().x, self.transform.plain)
        return self._net

    def predict(self, x: Tensor) -> Tensor:
        """Return logits (B, C) of raw inputs, un-augmented, in eval mode."""
        return predict(self.network(), x, self.transform.plain)

    def statistics(self, task: Task) -> Statistics | None:
        """Return what training has computed about the samples of the current task."""
        return self.learner.statistics(task)

    def buffers(self) -> dict[str, Buffer]:
        """Return the buffers by name; the first one is replayed."""
        return self.learner.buffers()

    def state_dict(self) -> dict[str, Any]:
        """Return the complete state, which is that of the other learner."""
        return self.learner.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a saved state."""
        self._net = None
        self.learner.load_state_dict(state)
