from pathlib import Path

import pytest
from own_files import table_of_images, write_folder

from remnant.config import Config, resolve
from remnant.config.own_data import default_lr, default_net, default_tasks, own_defaults
from remnant.config.recipe import read, to_config
from remnant.data.own import OwnData, parse_own_data
from remnant.data.pretrained import WeightsFile
from remnant.errors import RemnantError
from remnant.nets import Features


def config_of(name: str, **settings: object) -> Config:
    return to_config(name, {key.replace("__", "."): value for key, value in settings.items()})


@pytest.fixture
def photos(tmp_path: Path) -> str:
    return f"folder:{write_folder(tmp_path / 'photos', {'cat': 6, 'dog': 6, 'eel': 6, 'fox': 6})}"


def test_own_data_in_the_place_of_a_recipe_are_the_setting_data(photos: str) -> None:
    config = config_of(photos)
    assert config.table() == to_config(None, {"data": photos}).table()
    assert config.table()["data"]["name"] == "folder"
    assert (config.name, config.tasks, config.batch, config.epochs) == ("folder", 2, 4, 40)
    assert config.table()["noise"] == {"name": "none"}


def test_the_name_of_a_dataset_in_the_place_of_a_recipe_is_the_setting_data() -> None:
    assert config_of("fashion-mnist").table() == to_config(None, {"data": "fashion-mnist"}).table()
    assert to_config("digits", {}).epochs == read("digits")["epochs"]  # a recipe has the same name


@pytest.mark.parametrize("order", [1, -1])
def test_own_data_have_settings(photos: str, order: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WeightsFile, "is_installed", lambda self: False)
    settings = {"data": photos, "data.image_size": 16, "data.flip": False}
    config = to_config(None, dict(list(settings.items())[::order]))
    assert config.spec.shape == (3, 16, 16)
    assert config.data.flip is False
    assert config.table()["net"]["name"] == "small"


def test_a_config_of_own_data_can_be_read_again(photos: str, tmp_path: Path) -> None:
    config = config_of(photos, data__test_share=0.5)
    (tmp_path / "config.toml").write_text(config.toml())
    assert to_config(str(tmp_path / "config.toml"), {}).toml() == config.toml()
    assert resolve(config.values()).toml() == config.toml()


def test_paths_are_absolute_and_may_look_like_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_folder(tmp_path / "2024", {"cat": 2, "dog": 2})
    monkeypatch.chdir(tmp_path)
    assert config_of("folder:2024").data.path == str(tmp_path / "2024")


def test_mistakes_in_settings_of_data_are_reported(photos: str) -> None:
    with pytest.raises(
        RemnantError, match=r"folder has no setting 'image_sise'; did you mean 'image_size'\?"
    ):
        config_of(photos, data__image_sise=32)
    with pytest.raises(RemnantError, match="only own data has the setting image_size: folder:DIR"):
        to_config("digits", {"data.image_size": 32})
    with pytest.raises(RemnantError, match="expected image_size 0 or from 8 to 1024, got 2"):
        config_of(photos, data__image_size=2)
    with pytest.raises(RemnantError, match="no-such-folder: expected a folder"):
        config_of("folder:no-such-folder")


@pytest.mark.parametrize(
    ("classes", "tasks"),
    [(2, {"tasks": 1}), (3, {"tasks": 1}), (4, {"tasks": 2}), (7, {"split": [2, 2, 3]}), (10, {"tasks": 5}),
     (13, {"split": [2, 2, 3, 3, 3]}), (100, {"tasks": 5})],
)  # fmt: skip
def test_by_default_tasks_have_at_least_two_classes(tmp_path: Path, classes: int, tasks: object) -> None:
    write_folder(tmp_path, {f"{c}": 1 for c in range(classes)})
    assert default_tasks(parse_own_data(f"folder:{tmp_path}")) == tasks


def test_a_column_of_tasks_is_used_by_default(tmp_path: Path) -> None:
    path = table_of_images(tmp_path, ["a", "b"] * 4, task=[1, 2] * 4)
    assert config_of(f"table:{path}").tasks == "column"
    assert config_of(f"table:{path}", tasks=1).tasks == 1


class Many:
    """Own data of so many samples in ten classes."""

    def __init__(self, samples: int, home: Path) -> None:
        import numpy as np

        self.own = parse_own_data(f"folder:{write_folder(home, {f'{c}': 1 for c in range(10)})}")
        vars(self.own)["is_test"] = np.zeros(samples, bool)


@pytest.mark.parametrize(
    ("samples", "batch", "epochs", "buffer_size"),
    [(10, 4, 40, 10), (200, 10, 40, 20), (2400, 32, 40, 240), (50_000, 32, 10, 2000), (10**6, 32, 10, 2000)],
)
def test_defaults_fit_any_number_of_samples(
    tmp_path: Path, samples: int, batch: int, epochs: int, buffer_size: int
) -> None:
    own: OwnData = Many(samples, tmp_path).own
    found = own_defaults(own, {})
    assert (found["batch"], found["epochs"], found["buffer_size"]) == (batch, epochs, buffer_size)


def test_frozen_features_are_the_default_if_they_are_installed(photos: str) -> None:
    config = config_of(photos)
    assert config.net == Features()
    assert (config.data_spec.shape, config.spec.shape) == ((3, 128, 128), (1280,))
    assert config.lr == 0.003
    assert config_of(photos, data__image_size=16).data_spec.shape == (3, 16, 16)
    assert config_of(photos, net="features", net__image_size=48).data_spec.shape == (3, 48, 48)


@pytest.mark.parametrize(
    ("net", "lr"),
    [("features", 0.003), ({"name": "features", "train_backbone": True}, 0.1), ("small", 0.1), ("no", 0.1)],
)
def test_the_learning_rate_fits_the_network(net: object, lr: float) -> None:
    assert default_lr(net) == lr


def test_without_features_the_network_fits_the_size_of_images(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WeightsFile, "is_installed", lambda self: False)
    assert [default_net(side) for side in (8, 23, 24, 64)] == ["small", "small", "resnet18:8", "resnet18:8"]


@pytest.mark.parametrize("tasks", [0, -1, True, 2.5, "arrival", "arrival:0", "columns", [2]])
def test_tasks_are_a_number_a_column_or_an_order_of_arrival(tmp_path: Path, tasks: object) -> None:
    path = table_of_images(tmp_path, ["a", "b"] * 4)
    with pytest.raises(
        RemnantError, match="tasks: expected a number of at least 1, column or arrival:N, got"
    ):
        config_of(f"table:{path}", tasks=tasks)


def test_tasks_by_rows_need_rows(photos: str, tmp_path: Path) -> None:
    with pytest.raises(
        RemnantError, match="tasks=arrival:2 needs a table, whose rows have an order, and photos"
    ):
        config_of(photos, tasks="arrival:2")
    with pytest.raises(RemnantError, match="tasks=column needs a table with a column `task`, and digits has"):
        to_config("digits", {"tasks": "column"})
    path = table_of_images(tmp_path, ["a", "b"] * 4)
    with pytest.raises(RemnantError, match="tasks=column needs a table with a column"):
        config_of(f"table:{path}", tasks="column")
    with pytest.raises(RemnantError, match="split: expected none with tasks=arrival:2"):
        config_of(f"table:{path}", tasks="arrival:2", split=[1, 1])


def test_a_name_that_is_not_a_text_is_an_error() -> None:
    with pytest.raises(RemnantError, match="expected the name of a dataset"):
        to_config("digits", {"data.name": [1]})
