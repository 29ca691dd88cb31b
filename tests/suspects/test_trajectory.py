"""Running statistics of samples: hand-computed values, and that rollbacks and interruptions keep them."""

import math

import pytest
import torch
from conftest import same, tiny_learner, tiny_stream

from remnant.experiment.checkpoint import pack, unpack
from remnant.methods.protocol import EpochDone, StepDone
from remnant.methods.registry import AER_ABS, ER, GDUMB, trains_on_stream
from remnant.stream import InMemory, Task
from remnant.suspects.trajectory import FORGETTING, LEARNING, Trajectory, agreements

CPU = torch.device("cpu")


def two_samples(classes: tuple[int, ...] = (0, 1)) -> Task:
    return Task(0, classes, torch.tensor([7, 9]), torch.tensor([0, classes[-1]]), InMemory(torch.zeros(2)))


def test_agreements_are_cross_entropy_margin_and_probability_of_the_label() -> None:
    loss, margin, confidence = agreements(torch.tensor([[1.0, 3.0, 0.0]]), torch.tensor([0]))[0].tolist()
    probability = math.e / (math.e + math.e**3 + 1)
    assert margin == -2
    assert confidence == pytest.approx(probability)
    assert loss == pytest.approx(-math.log(probability))


def test_samples_are_compared_with_the_classes_of_their_task_only() -> None:
    task, trajectory = two_samples(), Trajectory(3, CPU)
    trajectory.start(task)
    trajectory.store(torch.tensor([1, 0]), torch.tensor([[0.0, 2.0, 9.0], [5.0, 1.0, 9.0]]))
    trajectory.end_epoch(task, LEARNING)
    found = trajectory.statistics(task)
    assert found.sums[:, LEARNING, 1].tolist() == [4, 2]


def test_a_task_of_a_single_class_is_compared_with_all_classes() -> None:
    task, trajectory = two_samples((0,)), Trajectory(3, CPU)
    trajectory.start(task)
    trajectory.store(torch.tensor([0, 1]), torch.tensor([[5.0, 1.0, 2.0], [0.0, 1.0, 2.0]]))
    trajectory.end_epoch(task, LEARNING)
    assert trajectory.statistics(task).sums[:, LEARNING, 1].tolist() == [3, -2]


def test_learning_and_forgetting_epochs_are_counted_apart() -> None:
    task, trajectory = two_samples(), Trajectory(2, CPU)
    trajectory.start(task)
    for kind, margins in ((FORGETTING, (1.0, 2.0)), (LEARNING, (3.0, 4.0)), (LEARNING, (5.0, 9.0))):
        logits = torch.tensor([[margins[0], 0.0], [0.0, margins[1]]])
        trajectory.store(torch.arange(2), logits)
        trajectory.end_epoch(task, kind)
    found = trajectory.statistics(task)
    assert found.epochs.tolist() == [2, 1]
    assert found.sums[:, LEARNING, 1].tolist() == [8, 13]
    assert found.sums[:, FORGETTING, 1].tolist() == [1, 2]
    assert found.last[:, LEARNING, 1].tolist() == [5, 9]


def test_every_epoch_counts_every_sample_once_and_a_rollback_keeps_the_statistics() -> None:
    stream = tiny_stream()
    learner, task = tiny_learner(AER_ABS, stream, epochs=3), stream.tasks[0]
    for event in learner.learn(task):
        if isinstance(event, EpochDone):
            assert learner.trajectory.logits.abs().sum(1).gt(0).all()
    found = learner.statistics(task)
    assert found is not None
    assert found.epochs.tolist() == [2, 1]
    assert found.sums[:, FORGETTING].ne(0).all()
    assert found.id.tolist() == task.id.tolist()


def test_statistics_of_a_resumed_task_are_identical_wherever_it_was_interrupted() -> None:
    stream = tiny_stream()
    task = stream.tasks[0]
    whole = tiny_learner(AER_ABS, stream, epochs=2)
    states = [pack(whole.state_dict()) for event in whole.learn(task) if isinstance(event, StepDone)]
    for state in states[::3] + states[-1:]:
        resumed = tiny_learner(AER_ABS, stream, epochs=2)
        resumed.load_state_dict(unpack(state))
        list(resumed.learn(task))
        assert same(vars(resumed.trajectory), vars(whole.trajectory))


def test_a_method_that_does_not_train_on_the_stream_has_no_statistics() -> None:
    stream = tiny_stream()
    for method, expected in ((ER, True), (GDUMB, False)):
        learner = tiny_learner(method, stream, epochs=1)
        for event in learner.learn(stream.tasks[0]):
            if isinstance(event, EpochDone):
                break
        assert (learner.statistics(stream.tasks[0]) is not None) == expected
        assert trains_on_stream(method, 1) == expected
