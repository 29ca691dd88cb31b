from pathlib import Path

import pytest
from conftest import tiny_data
from own_files import write_folder

from remnant.config.recipe import to_config
from remnant.config.remarks import remarks, without_recipe
from remnant.data.pretrained import WeightsFile


def test_the_defaults_of_a_run_without_a_recipe_are_listed() -> None:
    settings = {"data": tiny_data(), "split": [2, 4], "lr": 0.3, "net.width": 8}
    (line,) = without_recipe(to_config(None, settings), None, settings)
    expected = "noise=none method=aer-abs buffer_size=100 epochs=20 batch=32"
    assert line == f"no recipe, defaults are used: {expected}"
    (line,) = without_recipe(to_config(None, {"data": "digits"}), None, {"data": "digits"})
    assert line.endswith("epochs=20 batch=32 lr=0.1; recipes for digits: digits")
    for name, settings in (("digits", {"data": "digits"}), (None, {"epochs": 2})):
        assert without_recipe(to_config(name, settings), name, settings) == []


def test_the_samples_and_defaults_of_own_data_are_listed(tmp_path: Path) -> None:
    write_folder(tmp_path, {"cat": 5, "dog": 5, "eel": 5, "fox": 5, "gnu": 5})
    name = f"folder:{tmp_path}"
    counts, defaults = remarks(to_config(name, {"lr": 0.3}), name, {"lr": 0.3})
    assert counts == "20 training and 5 test images of 5 classes, 128 x 128 pixels"
    expected = "noise=none split=[2, 3] net=features:efficientnet-lite0 method=aer-abs buffer_size=10"
    chosen = f"{expected} epochs=40 batch=4"
    assert defaults == f"no recipe, defaults are used: {chosen}; tasks=1 learns all classes at once"
    counts, defaults = remarks(to_config(name, {"data.test_share": 0}), name, {"data.test_share": 0})
    assert counts == "25 images, none held out, of 5 classes, 128 x 128 pixels"
    _, defaults = remarks(to_config(name, {"tasks": 1}), name, {"tasks": 1})
    assert "split" not in defaults
    assert "tasks=1" not in defaults


def test_a_network_that_is_chosen_because_a_better_one_is_not_installed_has_a_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_folder(tmp_path, {"cat": 5, "dog": 5})
    name = f"folder:{tmp_path}"
    assert len(remarks(to_config(name, {}), name, {})) == 2
    monkeypatch.setattr(WeightsFile, "is_installed", lambda self: False)
    _, defaults, hint = remarks(to_config(name, {}), name, {})
    assert "net=resnet18:8" in defaults
    assert hint.endswith("better with it: pip install 'remnant[features]'")
    for settings in ({"net": "small:4"}, {"net.width": 4}):
        assert len(remarks(to_config(name, settings), name, settings)) == 2
    assert remarks(to_config("digits", {}), "digits", {}) == []
