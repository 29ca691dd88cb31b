import os
from pathlib import Path

import pytest

from remnant.config.recipe import recipes
from remnant.errors import RemnantError
from remnant.sweep.grid import comparison, expand, grids, parse_seeds, read_grid


def titles(grid: dict[str, object]) -> list[str]:
    return [config.run_name() for config in expand(grid)]


def test_the_runs_of_a_grid_are_all_combinations_of_its_lists() -> None:
    assert titles({"recipe": "digits", "method": ["er", "aer"], "seed": "0-1"}) == [
        "digits-er-symmetric-0.4-s0", "digits-er-symmetric-0.4-s1",
        "digits-aer-symmetric-0.4-s0", "digits-aer-symmetric-0.4-s1",
    ]  # fmt: skip


def test_blocks_have_combinations_of_their_own_and_repeated_runs_are_removed() -> None:
    grid = {
        "method": "er",
        "seed": 0,
        "grid": [{"lr": [0.1, 0.3]}, {"lr": 0.3}, {"lr": 0.3, "method": "aer"}],
    }
    assert [(config.method, config.lr) for config in expand(grid)] == [("er", 0.1), ("er", 0.3), ("aer", 0.3)]


def test_settings_of_components_may_have_lists_and_settings_that_are_lists_are_lists_of_lists() -> None:
    alphas = expand({"method": "aer-abs", "insertion": {"alpha": [0.5, 0.75]}})
    assert [config.insertion.alpha for config in alphas] == [0.5, 0.75]
    (config,) = expand({"split": [[5, 5]]})
    assert config.split == (5, 5)


def test_changes_override_the_keys_of_all_blocks() -> None:
    grid = {"method": ["er", "aer"], "grid": [{"lr": 0.1}, {"lr": 0.3}]}
    assert [config.lr for config in expand(grid, {"lr": 0.5, "method": "er"})] == [0.5]


def test_chosen_methods_keep_the_settings_that_the_grid_gives_them() -> None:
    fit = {"method": "er+fit", "consolidation": {"epochs": 7}}
    grid = {"recipe": "digits", "seed": "0-1", "grid": [{"method": ["er", "aer"], "lr": 0.5}, fit]}
    chosen = expand(grid, methods=["aer", "er+fit"])
    assert [(config.method, config.lr == 0.5, config.seed) for config in chosen] == [
        ("aer", True, 0), ("aer", True, 1), ("er+fit", False, 0), ("er+fit", False, 1),
    ]  # fmt: skip
    with pytest.raises(RemnantError, match=r"unknown method 'joint'.* of the grid: er, aer, er\+fit"):
        expand(grid, methods=["joint"])


def test_a_grid_without_methods_gets_the_chosen_ones() -> None:
    assert [config.method for config in expand({"lr": 0.1}, methods=["er", "aer"])] == ["er", "aer"]


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ({"method": []}, "method: expected a value or a list"),
        ({"grid": {"lr": 1}}, "double brackets"),
        ({"method": "nothing"}, "unknown method"),
        ({"seed": "0-x"}, "seeds: expected numbers or ranges"),
        ({"colour": 1}, "unknown key 'colour'"),
    ],
)
def test_a_mistake_in_a_grid_is_an_error(grid: dict[str, object], message: str) -> None:
    with pytest.raises(RemnantError, match=message):
        expand(grid)


@pytest.mark.parametrize("text", ["4-2", "-1", "a", "1.5", "0-999999999", ""])
def test_seeds_that_are_not_numbers_or_ranges_are_an_error(text: str) -> None:
    with pytest.raises(RemnantError, match="expected numbers or ranges"):
        parse_seeds(text)


def test_a_grid_is_a_file_or_a_packaged_one(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('method = "er"')
    assert read_grid(str(tmp_path / "mine.toml")) == {"method": "er"}
    assert read_grid("paper/table-3")["recipe"] == "paper/cifar100"
    with pytest.raises(RemnantError, match=r"unknown grid 'paper/table-9'; did you mean"):
        read_grid("paper/table-9")
    (tmp_path / "broken.toml").write_text("method =")
    with pytest.raises(RemnantError, match="expected a grid in TOML"):
        read_grid(str(tmp_path / "broken.toml"))


@pytest.mark.parametrize("name", grids())
def test_every_packaged_grid_expands(name: str) -> None:
    grid = read_grid(name)
    if grid.get("recipe") == "cifar10-features" and "cifar10-features" not in recipes():
        pytest.skip("its recipe is not packaged")
    runs = expand(grid, {"seed": 0})
    assert runs
    assert grid["about"]


def test_the_grids_of_the_paper_have_as_many_runs_as_its_tables_have_cells() -> None:
    cells = {"table-1": 12 * 7, "table-2": 8, "table-3": 6, "table-4": 4, "table-a": 18, "table-c": 9 * 7}
    for name, count in cells.items():
        assert len(expand(read_grid(f"paper/{name}"))) == 5 * count


def test_a_comparison_leaves_out_settings_of_components_that_a_method_does_not_have() -> None:
    fit, finetune = comparison(
        None, ["er+fit", "finetune"], [3], {"consolidation.epochs": 7, "buffer_size": 50}
    )
    assert (fit.consolidation.epochs, fit.buffer_size, fit.seed) == (7, 50, 3)
    assert finetune.buffer_size == 100


def test_a_grid_that_is_not_a_regular_file_is_an_error(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "grid.toml")
    for name in (str(tmp_path / "grid.toml"), "/dev/zero", str(tmp_path)):
        with pytest.raises(RemnantError, match="it is not a regular file"):
            read_grid(name)
