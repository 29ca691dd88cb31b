from dataclasses import replace

import pytest
from conftest import tiny_setup, tiny_stream

from remnant.buffer import GreedyBalanced, LowestLoss, PurityDiversity, Reservoir, asymmetric_victim
from remnant.methods.consolidation import BufferFit
from remnant.methods.epoch_schedule import Alternate, Collect, Phase, StreamOnly
from remnant.methods.protocol import Setup
from remnant.methods.registry import METHODS
from remnant.methods.replay import Replay
from remnant.methods.replay_checks import buffer_problems, replay_problems


def setup(buffer_size: int = 10, **changes: int) -> Setup:
    return tiny_setup(tiny_stream(), buffer_size, **changes)


def texts(method: Replay, given: Setup | None = None) -> list[str]:
    return [problem.text for problem in replay_problems(method, given or setup(), "mine")]


def scratch() -> BufferFit:
    return BufferFit(from_scratch=True)


def test_every_replay_method_of_the_registry_can_be_used() -> None:
    for name, method in METHODS.items():
        if isinstance(method, Replay):
            assert list(replay_problems(method, setup(), name)) == [], name


@pytest.mark.parametrize("buffer_size", [0, 1, 2])
def test_a_buffer_needs_two_samples(buffer_size: int) -> None:
    expected = [f"buffer_size: mine needs a buffer of at least 2 samples, got {buffer_size}"]
    found = list(buffer_problems(setup(buffer_size), "mine", 1000, None))
    assert [problem.text for problem in found] == expected[: buffer_size < 2]
    assert all(problem.keys == {"buffer_size", "method"} for problem in found)
    assert texts(Replay(), setup(buffer_size)) == expected[: buffer_size < 2]


def test_buffers_larger_than_their_budget_are_a_problem() -> None:
    assert list(buffer_problems(setup(10), "mine", 20, 20)) == []
    (problem,) = buffer_problems(setup(10), "mine", 21, 20)
    assert problem.text == (
        "algorithm: expected at most 20 samples in all buffers of mine with buffer_size = 10, got 21; "
        "reduce one of them, or increase buffer_size"
    )
    assert problem.keys == {"buffer_size", "algorithm"}


def test_a_method_without_a_buffer_needs_no_buffer_size() -> None:
    assert texts(Replay(schedule=StreamOnly()), setup(buffer_size=0)) == []


def test_consolidation_without_a_buffer_is_a_problem() -> None:
    assert texts(Replay(schedule=StreamOnly(), consolidation=BufferFit())) == [
        "consolidation: it trains on the buffer, but mine has none; set consolidation=none"
    ]


def test_an_insertion_that_never_inserts_is_a_problem() -> None:
    method = Replay(insertion=LowestLoss(alpha=0.95))
    assert texts(method, setup(batch=8)) == [
        "insertion: no sample of a batch of 8 is inserted into the buffer; use a smaller alpha or larger "
        "batches"
    ]
    assert texts(method, setup(batch=64)) == []


def test_a_schedule_that_never_writes_is_a_problem() -> None:
    method = Replay(schedule=Alternate())
    assert texts(method, setup(epochs=1)) == [
        "epochs: the schedule 'alternate' with 1 epoch(s) never writes to the buffer, because the last "
        "epoch is a learning epoch; use at least 2"
    ]
    assert texts(method, setup(epochs=2)) == []


def test_a_schedule_without_a_name_is_called_by_its_class() -> None:
    class OnlyLearn:
        def __call__(self, epoch: int, epochs: int) -> Phase:
            return Phase.LEARN

    (text,) = texts(Replay(schedule=OnlyLearn()))
    assert "the schedule 'OnlyLearn'" in text


def test_a_network_that_is_never_trained_on_the_stream_needs_a_consolidation_from_scratch() -> None:
    gdumb = Replay(schedule=Collect(), replacement=GreedyBalanced(), consolidation=scratch())
    assert texts(gdumb) == []
    (text,) = texts(replace(gdumb, consolidation=BufferFit()))
    assert text.startswith(
        "consolidation: with the schedule 'collect' there is no trained network to continue from; set "
        "consolidation.from_scratch=true"
    )
    (text,) = texts(replace(gdumb, consolidation=Replay().consolidation))
    assert text == (
        "schedule: with 'collect' no network is trained before the end of a task; choose a consolidation: "
        "buffer-fit, mixmatch, coteaching, dividemix, puridiver"
    )


@pytest.mark.parametrize(
    ("method", "users"),
    [
        (Replay(insertion=LowestLoss()), "insertion"),
        (Replay(replacement=Reservoir(asymmetric_victim)), "replacement"),
        (Replay(replacement=PurityDiversity()), "replacement"),
        (Replay(insertion=LowestLoss(), replacement=PurityDiversity()), "insertion and replacement"),
    ],
)
def test_an_untrained_network_cannot_score_samples(method: Replay, users: str) -> None:
    untrained = replace(method, schedule=Collect(), consolidation=scratch())
    (problem,) = replay_problems(untrained, setup(), "mine")
    assert problem.text == (
        f"{users}: samples are scored by the network, which the schedule 'collect' never trains; use "
        "insertion = everything and replacement = greedy-balanced"
    )
    assert problem.keys == {"consolidation", "schedule", "method", *users.split(" and ")}
