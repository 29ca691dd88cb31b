"""Properties of the whole package that hold for all inputs, checked on random ones."""

import copy
import tomllib
from dataclasses import replace

import numpy as np
import pytest
import torch
from conftest import same, tiny_data, tiny_learner, tiny_stream, weights
from hypothesis import given, settings, strategies as st

from remnant.buffer import INSERTIONS, REPLACEMENTS
from remnant.config import resolve
from remnant.experiment import metrics
from remnant.methods.protocol import StepDone
from remnant.methods.registry import AER_ABS, METHODS
from remnant.methods.replay import Replay
from remnant.noise import symmetric
from remnant.stream import make_stream

SEEDS = st.integers(0, 2**16)
PERCENT = st.floats(0, 100)
MASKS = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=30)
REPLAY = {name: method for name, method in METHODS.items() if isinstance(method, Replay)}


@pytest.mark.parametrize("replacement", REPLACEMENTS)
@settings(max_examples=8)
@given(capacity=st.integers(1, 30), batch=st.integers(2, 20), insertion=st.sampled_from(sorted(INSERTIONS)))
def test_a_buffer_never_exceeds_its_capacity_nor_holds_a_sample_twice(
    replacement: str, capacity: int, batch: int, insertion: str
) -> None:
    method = replace(AER_ABS, replacement=REPLACEMENTS[replacement], insertion=INSERTIONS[insertion])
    stream = tiny_stream(tasks=2)
    learner = tiny_learner(method, stream, buffer_size=capacity, epochs=2, batch=batch)
    for task in stream.tasks:
        for _ in learner.learn(task):
            id = learner.buffer.samples().id
            assert len(id) <= capacity
            assert metrics.duplicates(id) == 0
            assert torch.equal(stream.observed[id], learner.buffer.samples().y)


@given(
    sizes=st.lists(st.integers(1, 3), min_size=2, max_size=5),
    rate=st.floats(0, 0.5),
    validation=st.sampled_from([0.0, 0.2, 0.5]),
    seed=SEEDS,
)
def test_a_stream_partitions_the_data(sizes: list[int], rate: float, validation: float, seed: int) -> None:
    rng, classes = np.random.default_rng(seed), sum(sizes)
    data = tiny_data(classes, rows=20, seed=seed)
    observed = symmetric(data.y, rate, classes, rng)
    stream = make_stream(data, observed, rng.permutation(classes).tolist(), sizes, validation, rng)
    parts = [task.id for task in stream.tasks] + ([test.id for test in stream.tests] if validation else [])
    assert sorted(torch.cat(parts).tolist()) == list(range(len(data.y)))
    assert [label for task in stream.tasks for label in task.classes] == list(range(classes))


@given(
    method=st.sampled_from(sorted(METHODS)),
    seed=st.integers(0, 2**31 - 1),
    lr=st.floats(1e-6, 10),
    buffer_size=st.integers(50, 5000),
    noise=st.sampled_from(["none", "symmetric:0.4", "block:0.2", "instance:0.3"]),
    momentum=st.floats(0, 0.99),
)
def test_a_config_file_gives_the_same_config(**values: object) -> None:
    config = resolve(values)
    again = resolve(tomllib.loads(config.toml()))
    assert again == config
    assert again.toml() == config.toml()
    assert again.digest() == config.digest()


@given(st.integers(1, 6).flatmap(lambda n: st.tuples(*(st.lists(PERCENT, min_size=i, max_size=i)
                                                       for i in range(1, n + 1)))))  # fmt: skip
def test_metrics_of_accuracies_stay_between_their_bounds(a: tuple[list[float], ...]) -> None:
    for mean in (metrics.final_average_accuracy(a), metrics.average_incremental_accuracy(a)):
        assert 0 <= mean <= 100 + 1e-9
    for difference in (metrics.final_forgetting(a), metrics.backward_transfer(a)):
        assert -100 - 1e-9 <= difference <= 100 + 1e-9
    assert metrics.final_forgetting(a) >= -metrics.backward_transfer(a) - 1e-9


@given(MASKS, SEEDS)
def test_metrics_of_labels_stay_between_their_bounds(pairs: list[tuple[bool, bool]], seed: int) -> None:
    first, second = torch.tensor(pairs).T
    rng = torch.Generator().manual_seed(seed)
    doubt, y = torch.rand(len(first), generator=rng), torch.randint(4, (len(first),), generator=rng)
    found = [metrics.purity(first), *metrics.detection(first, second).values()]
    found += metrics.purity_by(y, first).values()
    assert all(value is None or 0 <= value <= 100 for value in found)
    shares = [metrics.auroc(doubt[first], doubt[~first]), metrics.balance(y, 4)]
    shares += [metrics.average_precision(doubt, first), metrics.precision_at_errors(doubt, first)]
    assert all(value is None or 0 <= value <= 1 + 1e-9 for value in shares)


@pytest.mark.slow
@pytest.mark.parametrize("name", REPLAY)
def test_a_replay_method_that_is_resumed_at_every_step_equals_one_that_is_not(name: str) -> None:
    """SPR, CNLL and consolidations are resumed at every step in their own tests."""
    stream, method = tiny_stream(), REPLAY[name]
    if method.consolidation.epochs:
        short = {"epochs": 2} | ({"warmup": 1} if hasattr(method.consolidation, "warmup") else {})
        method = replace(method, consolidation=replace(method.consolidation, **short))
    whole, resumed = (tiny_learner(method, stream, epochs=2) for _ in range(2))
    for task in stream.tasks[:2]:
        steps = sum(isinstance(event, StepDone) for event in whole.learn(task))
        for _ in range(steps + 1):
            next((event for event in resumed.learn(task) if isinstance(event, StepDone)), None)
            state = copy.deepcopy(resumed.state_dict())
            resumed = tiny_learner(method, stream, epochs=2)
            resumed.load_state_dict(state)
    assert same(weights(whole), weights(resumed))
    assert same(whole.rng.state_dict(), resumed.rng.state_dict())
    assert torch.equal(whole.buffer.id, resumed.buffer.id)
