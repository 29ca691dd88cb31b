"""The statistics of the tasks learned so far, from which the suspect labels of a stream are computed."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from remnant.engine.inference import CHUNK
from remnant.stream import Task
from remnant.suspects.scores import Evidence
from remnant.suspects.trajectory import Statistics


class Collected:
    """Statistics by task; tasks that were not trained on have none."""

    def __init__(self) -> None:
        self.tasks: dict[int, Statistics] = {}

    def add(self, task: int, statistics: Statistics | None) -> None:
        """Add the statistics of a task that has been learned."""
        if statistics is not None:
            self.tasks[task] = statistics

    def evidence(self, tasks: Sequence[Task], predict: Callable[[Tensor], Tensor]) -> list[Evidence]:
        """Return the evidence about all tasks, with the predictions of the current network."""
        return [
            evidence_of(task, self.tasks[task.number], predict) for task in tasks if task.number in self.tasks
        ]

    def state_dict(self) -> dict[str, Any]:
        """Return the complete state."""
        return {str(number): dict(vars(found)) for number, found in self.tasks.items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a saved state."""
        self.tasks = {int(number): Statistics(**found) for number, found in state.items()}


def evidence_of(task: Task, statistics: Statistics, predict: Callable[[Tensor], Tensor]) -> Evidence:
    """Return the evidence about the samples of a task, whose logits are predicted now."""
    parts = torch.arange(len(task)).split(CHUNK)  # the samples of a task need not fit in RAM
    logits = torch.cat([predict(task.take(part).x).cpu() for part in parts])
    return Evidence.of(statistics, task.number, logits)
