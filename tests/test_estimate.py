import pytest
import torch
from conftest import tiny_config

from remnant.estimate import estimate, fill
from remnant.experiment import make_the_replay_learner, make_the_stream


def seconds(**changes: object) -> float:
    config = tiny_config(**changes)
    return estimate(config, make_the_stream(config, None)).seconds


def test_consolidation_is_part_of_the_time() -> None:
    # 5 tasks of 4 epochs, 3 steps each; then 5 x 1000 epochs of 3 steps on the memory: 250 times that.
    fit = {"name": "buffer-fit", "epochs": 1000, "batch": 8}
    assert seconds(consolidation=fit) > 20 * seconds(consolidation="none") > 0


@pytest.mark.parametrize(
    ("method", "short", "long"),
    [
        ("spr", {"base_steps": 4}, {"base_steps": 4000}),
        ("spr", {"expert_steps": 4}, {"expert_steps": 4000}),
        ("spr", {"finetune_epochs": 1}, {"finetune_epochs": 1000}),
        ("cnll", {"warmup_epochs": 1}, {"warmup_epochs": 1000}),
        ("cnll", {"finetune_epochs": 1}, {"finetune_epochs": 1000}),
    ],
)
def test_every_kind_of_work_is_part_of_the_time(
    method: str, short: dict[str, int], long: dict[str, int]
) -> None:
    few = {"expert_steps": 4, "base_steps": 4} if method == "spr" else {}
    assert seconds(method=method, learner=few | long) > 10 * seconds(method=method, learner=few | short)


def test_a_memory_larger_than_the_task_does_not_make_puridiver_cheap() -> None:
    fit = {"epochs": 2, "warmup": 1}
    config = tiny_config(method="puridiver", buffer=30, consolidation=fit)
    stream = make_the_stream(config, None)
    learner = make_the_replay_learner(config, stream)
    fill(learner.memory, stream.tasks[0], 10)
    assert not torch.isin(stream.tasks[0].id, learner.memory.id).any()  # so that rows are offered
