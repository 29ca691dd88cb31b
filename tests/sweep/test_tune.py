import tomllib
from pathlib import Path
from typing import Any

import pytest
from own_files import table_of_images
from sweep_helpers import TINY_GRID, inline

from remnant.config.recipe import to_config
from remnant.errors import RemnantError
from remnant.experiment.result import read_result
from remnant.sweep import scheduler
from remnant.sweep.scheduler import SweepOptions
from remnant.sweep.tune import PAPER_SPACE, LogRange, Search, TunedChoice, parse_space, tune, tuned_recipe

pytest.importorskip("optuna")

TINY = {**TINY_GRID, "split": [5, 5], "epochs": 1}
SEARCH = Search(None, ["finetune", "er"], [0], TINY, {"lr": [0.001, 0.1]})


def nothing(cells: object) -> None:
    return


def test_every_value_is_tried_on_the_validation_split_once_and_the_best_is_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler, "start_workers", inline())
    options = SweepOptions(tmp_path / "runs")
    choices = tune(SEARCH, tmp_path / "journal", options, nothing)
    results = [read_result(folder) for folder in (tmp_path / "runs").iterdir() if folder.name != ".sweep"]
    assert len(results) == 4
    assert {result["tested_on"] for result in results} == {"noisy validation split"}
    for method, choice in choices.items():
        accuracies = [result["faa"] for result in results if result["method"] == method]
        assert choice.accuracy == max(accuracies)
        assert sorted(chosen["lr"] for chosen, _ in choice.trials) == [0.001, 0.1]
    monkeypatch.setattr(scheduler, "start_workers", None)  # nothing is run again
    assert tune(SEARCH, tmp_path / "journal", options, nothing) == choices


def test_a_range_is_searched_with_a_number_of_trials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler, "start_workers", inline())
    search = Search(None, ["finetune"], [0], TINY, {"lr": LogRange(0.01, 0.1)}, trials=2)
    (choice,) = tune(search, tmp_path / "journal", SweepOptions(tmp_path), nothing).values()
    assert len(choice.trials) == 2
    assert all(0.01 <= chosen["lr"] <= 0.1 for chosen, _ in choice.trials)


def test_a_recipe_can_be_written_for_settings_that_the_default_method_cannot_use() -> None:
    search = Search(None, ["finetune"], [0], {"epochs": 1}, {"lr": [0.1]})
    assert 'method = "finetune"' in tuned_recipe(search, {"finetune": TunedChoice({"lr": 0.1}, 50.0, [])})


def test_a_method_has_the_part_of_the_space_that_it_uses() -> None:
    search = Search(None, [], [0], {}, PAPER_SPACE)
    assert list(search.space_of("er")) == ["lr"]
    assert list(search.space_of("gdumb")) == ["consolidation.lr"]
    assert list(search.space_of("aer-abs+fit")) == ["lr", "consolidation.lr"]


def test_the_batchnorm_statistics_of_methods_with_a_buffer_can_be_chosen() -> None:
    search = Search(None, [], [0], {}, {"batchnorm": ["stream", "buffer"]})
    assert list(search.space_of("er")) == ["batchnorm"]
    assert list(search.space_of("finetune")) == []


def test_the_best_settings_are_a_recipe_for_the_noise_they_were_chosen_with(tmp_path: Path) -> None:
    search = Search("digits", ["er", "er+fit"], [0, 1], {"epochs": 4}, PAPER_SPACE)
    choices = {
        "er": TunedChoice({"lr": 0.3}, 50.0, [({"lr": 0.3}, 50.0)]),
        "er+fit": TunedChoice({"lr": 0.03, "consolidation.lr": 0.01}, 60.0, []),
    }
    (tmp_path / "tuned.toml").write_text(tuned_recipe(search, choices))
    assert tomllib.loads((tmp_path / "tuned.toml").read_text())["name"] == "digits-tuned"
    er, fit = (to_config(tmp_path / "tuned.toml", {"method": method}) for method in choices)
    assert (er.lr, er.epochs, fit.lr, fit.consolidation.lr) == (0.3, 4, 0.03, 0.01)
    assert to_config(tmp_path / "tuned.toml", {"method": "er", "noise": "symmetric:0.6"}).lr == 0.1


@pytest.mark.parametrize(
    ("recipe", "settings"),
    [
        ("cifar100", {}),  # a packaged recipe without its folder
        ("fashion-mnist", {"net": "small:4"}),  # a dataset without a recipe
        (None, {"data": "fashion-mnist", "epochs": 3}),
        (None, {"consolidation": "mixmatch", "consolidation.epochs": 3}),
    ],
)
def test_a_tuned_recipe_has_all_other_settings_of_the_search(
    recipe: str | None, settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = Search(recipe, ["er"], [0], settings, PAPER_SPACE)
    text = tuned_recipe(search, {"er": TunedChoice({"lr": 0.3}, 50.0, [])})
    (tmp_path / "tuned.toml").write_text(text)
    monkeypatch.chdir(tmp_path)
    expected = to_config(recipe, {**settings, "method": "er", "lr": 0.3}).table()
    found = to_config("tuned.toml", {"method": "er"}).table()
    assert found == expected | {"name": f"{expected['name']}-tuned"}


def test_a_tuned_recipe_of_own_data_has_the_defaults_of_the_data(tmp_path: Path) -> None:
    data = f"table:{table_of_images(tmp_path, ['a', 'b'] * 8)}"
    search = Search(data, ["finetune", "er"], [0], {"data.flip": False}, PAPER_SPACE)
    (tmp_path / "tuned.toml").write_text(tuned_recipe(search, {"er": TunedChoice({"lr": 0.3}, 50.0, [])}))
    expected = to_config(data, {"data.flip": False, "method": "er", "lr": 0.3}).table()
    found = to_config(tmp_path / "tuned.toml", {"method": "er"}).table()
    assert found == expected | {"name": "table-tuned"}


@pytest.mark.parametrize("text", ["lr", "lr=", "lr=0.3:0.1", "lr=0:1"])
def test_a_space_that_is_not_a_list_or_a_range_is_an_error(text: str) -> None:
    with pytest.raises(RemnantError, match="--space: expected KEY="):
        parse_space([text])


def test_a_space_without_settings_of_the_method_is_an_error(tmp_path: Path) -> None:
    search = Search(None, ["er"], [0], {}, {"consolidation.lr": [0.1]})
    with pytest.raises(RemnantError, match="expected settings that er has"):
        tune(search, tmp_path / "journal", SweepOptions(tmp_path), nothing)
