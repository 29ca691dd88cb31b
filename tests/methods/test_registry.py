"""Each name stands for the method that the tables of the papers mean by it."""

import ast
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from conftest import tiny_config, tiny_learner, tiny_stream

import remnant
from remnant.buffer import Everything, LowestLoss, Reservoir, asymmetric_victim
from remnant.config import resolve
from remnant.config.components import describe, name_of
from remnant.config.registries import REGISTRIES, find_method
from remnant.errors import RemnantError
from remnant.experiment.build import build_learner, build_stream
from remnant.methods.consolidation import BufferFit, MixMatch
from remnant.methods.epoch_schedule import Alternate, Always, Phase, phases
from remnant.methods.objective import AsymmetricCrossEntropy, CrossEntropy, DarkReplay
from remnant.methods.protocol import StepDone
from remnant.methods.registry import GDUMB, METHODS, SUFFIX_ABOUT, SUFFIXES, trains_on_stream, with_suffix
from remnant.methods.replay import Replay

CONSOLIDATIONS, REPLACEMENTS = REGISTRIES["consolidation"], REGISTRIES["replacement"]
PLAIN_SGD = {"momentum": 0.0, "nesterov": False, "weight_decay": 0.0, "clip": 0.0}
GDUMB_SGD = {"momentum": 0.9, "nesterov": False, "weight_decay": 1e-6, "clip": 10.0}


def replay(name: str) -> Replay:
    method = find_method(name)
    assert isinstance(method, Replay)
    return method


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
def test_a_name_with_a_plus_is_its_base_with_another_consolidation(name: str, base: str, how: str) -> None:
    method = replay(name)
    assert name_of(CONSOLIDATIONS, method.consolidation) == how
    assert replace(method, consolidation=replay(base).consolidation) == replay(base)
    assert method.about != replay(base).about


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
def test_consolidation_after_a_stream_continues_with_its_network_and_plain_sgd(
    name: str, settings: dict[str, object]
) -> None:
    found = describe(CONSOLIDATIONS, replay(name).consolidation)
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
def test_gdumb_trains_from_scratch_with_the_settings_of_its_authors(
    name: str, settings: dict[str, object]
) -> None:
    found = describe(CONSOLIDATIONS, replay(name).consolidation)
    expected = {"lr": 0.05, "epochs": 255, "from_scratch": True, **GDUMB_SGD, **settings}
    assert {key: found[key] for key in expected} == expected


@pytest.mark.parametrize("name", ["gdumb", "gdumb+coteaching", "gdumb+dividemix"])
def test_gdumb_stores_greedily_in_one_pass_and_does_not_train_on_the_stream(name: str) -> None:
    method = replay(name)
    assert name_of(REPLACEMENTS, method.replacement) == "greedy-balanced"
    assert phases(method.schedule, 3) == [Phase.WRITE, Phase.IDLE, Phase.IDLE]


def test_the_buffer_of_gdumb_is_balanced() -> None:
    stream = tiny_stream()
    short = replace(GDUMB, consolidation=BufferFit(epochs=1))
    learner = tiny_learner(short, stream, buffer_size=12)
    for number, task in enumerate(stream.tasks):
        for _ in learner.learn(task):
            pass
        classes = 2 * (number + 1)
        assert torch.bincount(learner.buffer.samples().y).tolist() == [12 // classes] * classes


@pytest.mark.parametrize("name", ["puridiver", "puridiver.me"])
def test_puridiver_consolidates_with_the_settings_of_its_authors(name: str) -> None:
    method = replay(name)
    found = describe(CONSOLIDATIONS, method.consolidation)
    expected = {
        "name": "puridiver", "lr": 0.05, "epochs": 255, "batch": 16, "from_scratch": False, "warmup": 10,
        "cutmix": 0.5, "momentum": 0.9, "nesterov": True, "weight_decay": 1e-4, "clip": 0.0,
    }  # fmt: skip
    assert found == expected
    assert describe(REPLACEMENTS, method.replacement) == {"name": "purity-diversity", "alpha": 0.1}
    later = Phase.STANDARD if name == "puridiver" else Phase.LEARN
    assert phases(method.schedule, 3) == [Phase.STANDARD, later, later]


def test_er_is_plain_replay() -> None:
    method = replay("er")
    assert method.objective == CrossEntropy()
    assert name_of(REPLACEMENTS, method.replacement) == "reservoir"
    assert phases(method.schedule, 2) == [Phase.STANDARD] * 2
    assert name_of(CONSOLIDATIONS, method.consolidation) == "none"


def test_the_methods_of_the_paper_differ_in_the_named_components_only() -> None:
    balanced = Reservoir(asymmetric_victim)
    assert replay("er-ace") == Replay(objective=AsymmetricCrossEntropy())
    assert replay("er-ace+alpha") == replace(replay("er-ace"), insertion=LowestLoss())
    assert replay("aer") == replace(replay("er-ace+alpha"), schedule=Alternate())
    assert replay("abs") == replace(replay("er-ace+alpha"), replacement=balanced)
    assert replay("aer-abs") == replace(replay("aer"), replacement=balanced)
    assert replay("aer-abs-noace") == replace(replay("aer-abs"), objective=CrossEntropy())
    assert replay("der++") == Replay(objective=DarkReplay())
    assert replay("der++-aer-abs") == replace(replay("aer-abs"), objective=DarkReplay())
    assert (replay("er-ace").insertion, replay("er-ace").schedule) == (Everything(), Always())


def test_every_method_has_a_description_of_its_own() -> None:
    assert all(method.about for method in METHODS.values())
    assert len({method.about for method in METHODS.values()}) == len(METHODS)
    assert SUFFIX_ABOUT.keys() == SUFFIXES.keys()


SUFFIXED = {
    "abs+fit": ("abs", BufferFit()),
    "er-ace+fit": ("er-ace", BufferFit()),
    "er-ace+alpha+fit": ("er-ace+alpha", BufferFit()),
    "der++-aer-abs+fit": ("der++-aer-abs", BufferFit()),
    "aer+consolidation": ("aer", MixMatch()),
}


@pytest.mark.parametrize("name", SUFFIXED)
def test_a_suffix_adds_a_consolidation_to_any_replay_method(name: str) -> None:
    base, how = SUFFIXED[name]
    assert name not in METHODS
    assert replay(name) == replace(replay(base), consolidation=how)
    assert replay(name).about.startswith(f"{base}, then ")
    config = tiny_config(method=name, tasks=2, epochs=2, consolidation={"epochs": 2})
    assert config.label == name
    assert resolve(config.table()) == config
    stream = build_stream(config, None)
    learner, works = build_learner(config, stream), set()
    for task in stream.tasks:
        works |= {event.work for event in learner.learn(task) if isinstance(event, StepDone)}
    assert "consolidate" in works
    x = stream.tests[0].source.take(stream.tests[0].id)
    assert learner.predict(x).isfinite().all()


def test_a_name_in_the_registry_is_the_same_as_its_base_with_the_suffix() -> None:
    for name, method in METHODS.items():
        base, _, suffix = name.rpartition("+")
        if suffix in SUFFIXES and not base.startswith("gdumb"):
            assert method == with_suffix(METHODS[base], base, suffix), name


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("spr+fit", r"\+fit can only follow a replay method without consolidation, got spr"),
        ("finetune+fit", "it trains on the buffer, but finetune\\+fit has none; set consolidation=none"),
        ("aer-abss+fit", "unknown method 'aer-abss\\+fit'; did you mean 'aer-abs\\+fit'"),
        ("er+fitt", "unknown method 'er\\+fitt'; did you mean 'er\\+fit'"),
    ],
)
def test_a_suffix_that_cannot_be_used_is_explained(name: str, words: str) -> None:
    with pytest.raises(RemnantError, match=words):
        resolve({"method": name})


def test_no_two_classes_of_the_package_have_the_same_name() -> None:
    places = defaultdict(list)
    root = Path(remnant.__file__).parent
    for path in sorted(root.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(str(path.relative_to(root)))
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def test_all_methods_but_gdumb_spr_and_cnll_train_on_the_stream() -> None:
    others = [name for name, method in METHODS.items() if not trains_on_stream(method, 2)]
    assert {name.partition("+")[0].partition(".")[0] for name in others} == {"gdumb", "spr", "cnll"}
    assert trains_on_stream(replay("er+fit"), 1)
