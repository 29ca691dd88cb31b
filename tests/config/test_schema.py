import tomllib
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from config_helpers import config_of
from conftest import tiny_data
from pydantic import ValidationError

from remnant.buffer import Reservoir
from remnant.config import Config, resolve
from remnant.config.registries import COMPONENTS
from remnant.data import Spec
from remnant.methods.epoch_schedule import Alternate
from remnant.methods.protocol import Setup, Training
from remnant.methods.registry import AER_ABS, METHODS
from remnant.methods.replay import Replay
from remnant.methods.spr import Spr
from remnant.noise import Clean
from remnant.transforms.image import ImageTransform


def changed(*changes: str) -> Config:
    return config_of("digits", *changes)


def noise(dataset: Any, rng: Any) -> Any:  # noqa: ANN401
    return dataset.y


def test_the_default_is_the_method_of_the_paper_on_digits_without_noise() -> None:
    config = resolve({})
    assert config.to_method() == AER_ABS
    assert config.noise == Clean()
    assert (config.data, config.buffer_size, config.class_counts()) == ("digits", 100, [2, 2, 2, 2, 2])


def test_a_config_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        resolve({}).lr = 0.5


def test_the_setup_has_the_optimizer_settings_and_the_buffer_size() -> None:
    config = resolve({"lr": 0.5, "lr_drops": [0.5], "momentum": 0.9, "weight_decay": 1e-4, "batch": 16})
    training = Training(20, 16, 0.5, (0.5,), 0.9, 1e-4)
    assert config.setup() == Setup(config.spec, training, 100)


def test_tasks_of_unequal_size_are_given_by_split() -> None:
    assert resolve({"split": [4, 3, 3]}).class_counts() == [4, 3, 3]


def test_a_method_with_other_components_has_another_label() -> None:
    assert resolve({"method": "er"}).label == "er"
    changed_er = resolve({"method": "er", "schedule": "alternate"})
    assert changed_er.label == "er-custom"
    assert "-er-custom-" in changed_er.run_id("x")


@pytest.mark.parametrize(
    ("given", "label"),
    [
        ({"method": "er", "consolidation": "dividemix"}, "er+dividemix"),
        ({"method": "aer-abs", "replacement": "reservoir"}, "aer"),
        ({"method": "er+dividemix", "consolidation": {"lambda_u": 5.0}}, "er+dividemix"),
        ({"method": "er+dividemix", "consolidation": {"lambda_u": 0.0}}, "er+dividemix-custom"),
        ({"method": "er+dividemix", "consolidation": {"confidence_penalty": True}}, "er+dividemix"),
        ({"method": "er+coteaching", "consolidation": {"forget_rate": 0.0}}, "er+coteaching-custom"),
        ({"method": "joint", "schedule": "always"}, "joint-custom"),
        ({"method": "finetune"}, "finetune"),
        ({"method": "er", "consolidation": "mixmatch"}, "er+consolidation"),
        ({"method": METHODS["er"]}, "er"),
        ({"method": METHODS["finetune"]}, "finetune"),
        ({"method": replace(AER_ABS, schedule=METHODS["er"].schedule)}, "abs"),
    ],
)
def test_the_label_is_the_name_of_the_method_that_the_components_make(
    given: dict[str, Any], label: str
) -> None:
    assert resolve(given).label == label


def test_learning_rate_and_epochs_of_a_consolidation_do_not_make_another_method() -> None:
    method = "method=aer-abs+consolidation"
    tuned = changed(method, "consolidation.lr=0.01", "consolidation.epochs=63", "consolidation.lambda_u=1.0")
    assert tuned.label == "aer-abs+consolidation"
    assert tuned.run_id("x") != changed(method).run_id("x")
    assert changed(method, "consolidation.views=2").label == "aer-abs+consolidation-custom"


def test_aer_abs_with_mixmatch_is_the_method_of_that_name() -> None:
    combined, named = changed("consolidation=mixmatch"), changed("method=aer-abs+consolidation")
    assert combined.to_method() == named.to_method()
    assert combined.label == named.label == "aer-abs+consolidation"


@pytest.mark.parametrize("name", METHODS)
def test_a_config_written_as_toml_is_the_same_config(name: str) -> None:
    config = resolve({"method": name, "lr": 0.05, "split": [4, 6], "class_order": "random"})
    again = resolve(tomllib.loads(config.toml()))
    assert again == config
    assert again.run_id("x") == config.run_id("x")


def test_the_written_config_has_every_component() -> None:
    table = tomllib.loads(resolve({}).toml())
    assert set(COMPONENTS) <= table.keys()
    assert table["schedule"] == {"name": "alternate", "period": 2}
    assert table["algorithm"] == {"name": "replay"}


def test_the_written_config_leaves_out_settings_that_the_method_does_not_read() -> None:
    table = resolve({"method": "spr"}).table()
    assert not set(COMPONENTS) & table.keys()
    assert not set(METHODS["spr"].unused) & table.keys()
    assert table["algorithm"]["name"] == "spr"


def test_the_run_id_names_the_run_and_depends_on_config_and_data() -> None:
    config = resolve({})
    assert config.run_id("data").startswith("digits-aer-abs-none-s0-")
    others = [
        resolve({"lr": 0.2}).run_id("data"),
        config.run_id("other"),
        resolve({"threads": 2}).run_id("data"),
    ]
    assert len({config.run_id("data"), *others}) == 4


def test_labels_from_two_arrays_of_one_file_have_two_names(tmp_path: Path) -> None:
    (tmp_path / "human.npz").touch()
    path = str(tmp_path / "human.npz")
    noises = [{"name": "file", "path": path, "key": key} for key in ("worse", "aggre")]
    ids = [resolve({"noise": noise}).run_id("x") for noise in noises]
    assert ids[0].startswith("digits-aer-abs-file-human.npz-key=worse-s0-")
    assert ids[0].rpartition("-")[0] != ids[1].rpartition("-")[0]


def test_a_config_names_the_settings_that_are_python_objects() -> None:
    assert resolve({"method": replace(AER_ABS, schedule=METHODS["er"].schedule)}).objects() == []
    config = resolve({"data": tiny_data(), "noise": noise, "tasks": 3})
    assert config.objects() == ["data", "noise"]
    assert config.table()["data"]["name"] == "tiny"
    assert config.table()["noise"]["python"].endswith(":noise")
    assert config.run_id("x").startswith("digits-aer-abs-noise-s0-")


def any_victim(choice: Any) -> Any:  # noqa: ANN401
    return None


@dataclass(frozen=True)
class Own(Spr):
    """An algorithm that is not registered."""


@pytest.mark.parametrize(
    ("given", "objects"),
    [
        ({"method": "aer-abs+fit", "lr": 0.5}, []),
        ({"method": Spr(expert_steps=7)}, []),
        ({"method": Replay(schedule=Alternate(3))}, []),
        ({"method": Replay(replacement=Reservoir(any_victim))}, ["replacement"]),
        ({"replacement": Reservoir(any_victim, allow_duplicates=True)}, ["replacement"]),
        ({"method": Own(expert_steps=7)}, ["algorithm"]),
        ({"noise": noise, "net": lambda spec: None}, ["noise", "net"]),
    ],
)
def test_a_config_can_be_made_from_its_values(given: dict[str, Any], objects: list[str]) -> None:
    config = resolve(given)
    assert config.objects() == objects
    made = [resolve(config.values()), *([] if objects else [resolve(tomllib.loads(config.toml()))])]
    for again in made:
        assert again.to_method() == config.to_method()
        assert again.table() == config.table()
        assert again.run_id("x") == config.run_id("x")


def test_the_run_id_depends_on_the_content_of_python_objects() -> None:
    def net_of(width: int) -> Any:  # noqa: ANN401
        return lambda spec: width

    def other(choice: Any) -> Any:  # noqa: ANN401
        return choice

    changes: list[dict[str, Any]] = [
        {"net": net_of(4)},
        {"net": net_of(8)},
        {"net": partial(net_of, 4)},
        {"net": partial(net_of, 8)},
        {"replacement": Reservoir(any_victim)},
        {"replacement": Reservoir(other)},
        {"data": tiny_data(), "tasks": 3},
        {"data": replace(tiny_data(), spec=flipped(tiny_data().spec)), "tasks": 3},
    ]
    ids = [resolve(change).run_id("x") for change in changes]
    assert len(set(ids)) == len(ids)
    assert resolve({"net": net_of(4)}).run_id("x") == ids[0]
    assert resolve({"data": tiny_data(seed=1), "tasks": 3}).run_id("x") == ids[6]  # has another fingerprint


def flipped(spec: Spec) -> Spec:
    return replace(spec, transform=ImageTransform(mean=(0.5,), std=(0.3,), pad=1, flip=True))
