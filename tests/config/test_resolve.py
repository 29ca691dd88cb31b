import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from config_helpers import config_of
from conftest import tiny_data

from remnant.buffer import LowestLoss, Reservoir, loss_aware_victim
from remnant.cli.listing import rows
from remnant.config import Config, recipe, resolve
from remnant.config.resolve import unknown_key
from remnant.errors import RemnantError
from remnant.methods.consolidation import MixMatch
from remnant.methods.epoch_schedule import Alternate, Always
from remnant.methods.registry import AER_ABS, METHODS
from remnant.methods.replay import Replay
from remnant.methods.spr import Spr
from remnant.nets import Small
from remnant.noise import Symmetric


def problems(**given: Any) -> str:  # noqa: ANN401
    with pytest.raises(RemnantError) as caught:
        resolve(given)
    return str(caught.value)


def changed(*changes: str) -> Config:
    return config_of("digits", *changes)


def test_a_method_by_name_is_that_value() -> None:
    for name in METHODS:
        assert resolve({"method": name}).to_method() == METHODS[name]


def test_any_component_of_a_method_can_be_replaced() -> None:
    config = changed("replacement=lass", "schedule=always")
    assert config.replacement == Reservoir(loss_aware_victim)
    assert config.schedule == Always()
    assert config.insertion == AER_ABS.insertion


def test_a_dotted_key_changes_one_setting_of_a_component_of_the_method() -> None:
    config = changed("insertion.alpha=0.5", "schedule.period=4", "scoring.refresh_every=1")
    assert config.insertion == LowestLoss(0.5)
    assert config.schedule == Alternate(4)
    assert config.scoring.refresh_every == 1


def test_a_dotted_key_after_a_name_belongs_to_that_name() -> None:
    assert changed("schedule=alternate", "schedule.period=3").schedule == Alternate(3)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"insertion": {"alpha": 75}}, "for 75 % write 0.75"),
        ({"noise": "symmetric:1.2"}, "expected a noise rate in [0, 1], got 1.2"),
        ({"noise": "symmetric:40"}, "for 40 % write 0.4"),
        ({"epoch": 3}, "unknown key 'epoch'; did you mean 'epochs'?"),
        ({"alpha": 0.5}, "did you mean objective.alpha or insertion.alpha or replacement.alpha?"),
        ({"refresh_every": 1}, "did you mean scoring.refresh_every?"),
        ({"method": "aer_abs"}, "did you mean 'aer-abs'?"),
        ({"method": "spr+fit"}, "+fit can only follow a replay method without consolidation, got spr"),
        ({"method": 3}, "method: expected a method, such as Replay(...), or an object with build, plan"),
        ({"method": None}, "got None without build, plan"),
        ({"data": "cifar"}, "did you mean 'cifar10'?"),
        ({"data": 3}, "expected the name of a dataset or a remnant.Dataset, got 3"),
        ({"net": "resnet81"}, "did you mean 'resnet18'?"),
        ({"replacement": "ABS"}, "Known: reservoir, lass, abs"),
        ({"lr": -1.0}, "greater than 0"),
        ({"lr": "fast"}, "lr: "),
        ({"buffer_size": 10**12}, "buffer_size: "),
        ({"epochs": 2.5}, "epochs: "),
        ({"epochs": True}, "epochs: "),
        ({"seed": -1}, "seed: "),
        ({"batch": 1}, "batch: "),
        ({"validation": 1.5}, "validation: "),
        ({"noise": 0.4}, "noise: expected a name, got 0.4; write symmetric:0.4"),
        ({"noise": [1, 2]}, "noise: expected a name, a table of settings, or an object with __call__"),
        ({"noise": {"rate": 0.2, "name": 3}}, "unknown noise 3"),
        ({"net": [1]}, "net: expected a name"),
        (
            {"insertion": [3]},
            "an object with needs_loss, count, choose, got [3] without needs_loss",
        ),
        ({"name": "a/b"}, "name: "),
        ({"lr": float("inf")}, "lr: "),
        ({"weight_decay": float("inf")}, "weight_decay: "),
        ({"method": "der++", "objective": {"alpha": float("nan")}}, "objective: expected"),
        ({"consolidation": "mixmach"}, "did you mean 'mixmatch'"),
        ({"consolidation": {"name": "mixmatch", "lr": -1.0}}, "expected lr > 0"),
        ({"consolidation": {"name": "buffer-fit", "views": 3}}, "buffer-fit has no setting 'views'"),
        ({"method": "spr", "schedule": "always"}, "schedule: spr does not use this component; remove it"),
        ({"method": "er", "algorithm": "spr"}, "algorithm: it is determined by the method; set method=spr"),
        ({"method": "spr", "algorithm": {"steps": 3}}, "algorithm: spr has no setting 'steps'"),
    ],
)
def test_a_mistake_is_reported_with_what_to_do(given: dict[str, Any], words: str) -> None:
    assert words in problems(**given)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"buffer": 20}, "'buffer' has been renamed: use 'buffer_size'"),
        ({"learner": {"expert_steps": 3}}, "'learner' has been renamed: use 'algorithm'"),
        (recipe.apply({}, {"learner.expert_steps": 3}), "'learner' has been renamed: use 'algorithm'"),
    ],
)
def test_an_old_name_of_a_setting_is_reported_with_the_new_one(given: dict[str, Any], words: str) -> None:
    assert words in problems(**given)


def test_all_problems_are_listed_at_once() -> None:
    text = problems(epoch=3, lr=-1.0, method="aerabs", noise="symmetric:1.2", net="small:0")
    for words in ("'epoch'", "lr:", "'aer-abs'", "noise:", "net:"):
        assert words in text
    assert text.count("  - ") == 5


def test_contradictions_are_listed_together_with_single_mistakes() -> None:
    text = problems(buffer_size=0, epochs=1, tasks=3, lr=-1.0, class_order=[1, 2])
    for key in ("buffer_size:", "epochs:", "tasks:", "lr:", "class_order:"):
        assert key in text
    assert text.count("  - ") == 5


def test_a_contradiction_with_a_setting_that_is_wrong_itself_is_not_reported() -> None:
    assert problems(data="cifar1000", tasks=3).count("  - ") == 1


def test_another_method_on_top_of_a_written_config_has_its_own_components(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(resolve({"method": "aer-abs", "lr": 0.7}).toml())
    table = recipe.read(str(tmp_path / "config.toml"))
    config = resolve(recipe.apply(table, {"method": "er"}))
    assert config.to_method() == METHODS["er"]
    assert config.lr == 0.7


def test_a_consolidation_can_be_added_to_any_replay_method() -> None:
    config = changed("method=er", "consolidation=mixmatch:0.05", "consolidation.views=2")
    assert config.consolidation == MixMatch(lr=0.05, views=2)
    assert config.label == "er-custom"
    by_suffix = changed("method=er+consolidation", "consolidation.lr=0.05")
    assert by_suffix.consolidation == MixMatch(lr=0.05)
    assert by_suffix.label == "er+consolidation"


def test_python_objects_can_take_the_place_of_names() -> None:
    def noise(dataset: Any, rng: np.random.Generator) -> Any:  # noqa: ANN401
        return dataset.y

    data, net = tiny_data(), Small(4)
    config = resolve({"data": data, "net": net, "noise": noise, "method": AER_ABS, "tasks": 3})
    assert (config.data, config.net, config.noise, config.method) == (data, net, noise, "aer-abs")
    assert resolve({"noise": Symmetric(0.2)}) == resolve({"noise": "symmetric:0.2"})
    custom = resolve({"method": Replay(schedule=Alternate(3)), "schedule": {"period": 4}})
    assert custom.method == "custom"
    assert custom.to_method() == Replay(schedule=Alternate(4))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"method": Replay}, "got the class Replay: write Replay(...)"),
        ({"method": Always()}, "method: expected a method, such as Replay(...), or an object with build"),
        ({"schedule": Always}, "schedule: expected a name, a table of settings, or an object with __call__"),
        ({"insertion": LowestLoss}, "got the class LowestLoss: write LowestLoss(...)"),
        ({"algorithm": Spr()}, "algorithm: it is determined by the method; set method=spr"),
    ],
)
def test_an_object_that_cannot_be_used_is_an_error(given: dict[str, Any], words: str) -> None:
    assert words in problems(**given)


@pytest.mark.parametrize(
    ("given", "lists"),
    [
        ({"method": "err"}, ["methods"]),
        ({"data": "digit"}, ["data"]),
        ({"noise": "symetric:0.4"}, ["noises"]),
        ({"net": "smal"}, ["nets"]),
        ({"replacement": "abss"}, ["replacements"]),
        ({"scoring": "eager"}, ["settings"]),
        ({"noise": "symmetric:3"}, ["settings"]),
        ({"epoch": 3}, ["settings"]),
        ({"method": "err", "net": "smal", "lr": -1}, ["methods", "nets", "settings"]),
    ],
)
def test_a_mistake_is_answered_with_the_command_that_lists_what_is_known(
    given: dict[str, Any], lists: list[str]
) -> None:
    with pytest.raises(RemnantError) as caught:
        resolve(given)
    assert re.findall("`remnant list (.*?)`", str(caught.value).splitlines()[-1]) == lists
    for name in lists:
        assert list(rows(name))


def test_a_setting_of_own_data_is_suggested_for_its_name() -> None:
    assert unknown_key("test_share").endswith("did you mean data.test_share?")
