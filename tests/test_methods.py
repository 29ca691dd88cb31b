"""Each name stands for what the tables of the papers mean by it."""

from dataclasses import replace

import pytest
import torch
from conftest import tiny_learner, tiny_stream

from remnant.component import describe, name_of
from remnant.consolidate import CONSOLIDATIONS, BufferFit
from remnant.methods import GDUMB, METHODS
from remnant.objective import CrossEntropy
from remnant.replacement import REPLACEMENTS
from remnant.schedule import Phase, phases

PLAIN_SGD = {"momentum": 0.0, "nesterov": False, "weight_decay": 0.0, "clip": 0.0}
GDUMB_SGD = {"momentum": 0.9, "nesterov": False, "weight_decay": 1e-6, "clip": 10.0}


@pytest.mark.parametrize(
    ("name", "base", "how"),
    [
        ("er+fit", "er", "buffer-fit"),
        ("er+coteaching", "er", "coteaching"),
        ("er+dividemix", "er", "dividemix"),
        ("aer-abs+fit", "aer-abs", "buffer-fit"),
        ("aer-abs+consolidation", "aer-abs", "mixmatch"),
        ("gdumb+coteaching", "gdumb", "coteaching"),
        ("gdumb+dividemix", "gdumb", "dividemix"),
    ],
)
def test_a_name_with_a_plus_is_its_base_with_another_consolidation(
    name: str, base: str, how: str
) -> None:
    method = METHODS[name]
    assert name_of(CONSOLIDATIONS, method.consolidation) == how
    assert replace(method, consolidation=METHODS[base].consolidation) == METHODS[base]
    assert method.about != METHODS[base].about


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("er+fit", {"lr": 0.05, "batch": 64, "cutmix": 0.0}),
        ("er+coteaching", {"lr": 0.05, "batch": 64, "cutmix": 0.0}),
        ("er+dividemix", {"lr": 0.05, "batch": 64}),
        ("aer-abs+fit", {"lr": 0.05, "batch": 64, "cutmix": 0.0}),
        ("aer-abs+consolidation", {"lr": 0.1, "batch": 64}),
    ],
)
def test_after_a_stream_its_network_goes_on_with_plain_sgd(
    name: str, settings: dict[str, object]
) -> None:
    found = describe(CONSOLIDATIONS, METHODS[name].consolidation)
    expected = {"epochs": 255, "from_scratch": False, **PLAIN_SGD, **settings}
    assert {key: found[key] for key in expected} == expected


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("gdumb", {"batch": 16, "cutmix": 0.5}),
        ("gdumb+coteaching", {"batch": 16, "cutmix": 0.5}),
        ("gdumb+dividemix", {"batch": 64}),
    ],
)
def test_gdumb_learns_anew_as_its_authors_do(name: str, settings: dict[str, object]) -> None:
    found = describe(CONSOLIDATIONS, METHODS[name].consolidation)
    expected = {"lr": 0.05, "epochs": 255, "from_scratch": True, **GDUMB_SGD, **settings}
    assert {key: found[key] for key in expected} == expected


@pytest.mark.parametrize("name", ["gdumb", "gdumb+coteaching", "gdumb+dividemix"])
def test_gdumb_stores_greedily_in_one_pass_and_trains_on_no_stream(name: str) -> None:
    method = METHODS[name]
    assert name_of(REPLACEMENTS, method.replacement) == "greedy-balanced"
    assert phases(method.schedule, 3) == [Phase.WRITE, Phase.IDLE, Phase.IDLE]


def test_the_memory_of_gdumb_is_balanced() -> None:
    stream = tiny_stream()
    short = replace(GDUMB, consolidation=BufferFit(epochs=1))
    learner = tiny_learner(short, stream, capacity=12)
    for number, task in enumerate(stream.tasks):
        for _ in learner.learn(task):
            pass
        classes = 2 * (number + 1)
        assert torch.bincount(learner.memory.rows().y).tolist() == [12 // classes] * classes


@pytest.mark.parametrize("name", ["puridiver", "puridiver.me"])
def test_puridiver_goes_on_as_its_authors_do(name: str) -> None:
    method = METHODS[name]
    found = describe(CONSOLIDATIONS, method.consolidation)
    expected = {
        "name": "puridiver", "lr": 0.05, "epochs": 255, "batch": 16, "from_scratch": False, "warmup": 10,
        "cutmix": 0.5, "momentum": 0.9, "nesterov": True, "weight_decay": 1e-4, "clip": 0.0,
    }  # fmt: skip
    assert found == expected
    assert describe(REPLACEMENTS, method.replacement) == {"name": "purity-diversity", "alpha": 0.1}
    later = Phase.STANDARD if name == "puridiver" else Phase.LEARN
    assert phases(method.schedule, 3) == [Phase.STANDARD, later, later]


def test_plain_replay_is_plain() -> None:
    method = METHODS["er"]
    assert method.objective == CrossEntropy()
    assert name_of(REPLACEMENTS, method.replacement) == "reservoir"
    assert phases(method.schedule, 2) == [Phase.STANDARD] * 2
    assert name_of(CONSOLIDATIONS, method.consolidation) == "none"
