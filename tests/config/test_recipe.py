"""Tests of recipes: how they are read and combined, their agreement with the paper, and that they run."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from config_helpers import config_of
from conftest import tiny_data
from rich.console import Console

from remnant.config import Config, recipe, resolve
from remnant.config.components import short
from remnant.config.registries import REGISTRIES
from remnant.data import DATA, Dataset, arrays
from remnant.errors import RemnantError
from remnant.experiment.loggers.console import Quiet
from remnant.experiment.run import execute
from remnant.experiment.runner import Options
from remnant.methods.epoch_schedule import Alternate
from remnant.methods.registry import AER_ABS, METHODS
from remnant.noise import NOISES, Symmetric


def write(folder: Path, **texts: str) -> Path:
    for name, text in texts.items():
        (folder / f"{name}.toml").write_text(text)
    return folder


# --- reading -----------------------------------------------------------------------------------------


def test_a_file_that_is_not_text_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_bytes(b"\xff\xfe lr")
    with pytest.raises(RemnantError, match=r"mine\.toml: expected TOML"):
        recipe.read(str(tmp_path / "mine.toml"))


def test_a_file_that_is_not_toml_is_an_error_with_its_position(tmp_path: Path) -> None:
    mine = write(tmp_path, mine="lr = = 3") / "mine.toml"
    with pytest.raises(RemnantError, match=r"mine\.toml: expected TOML.*line 1"):
        recipe.read(str(mine))


@pytest.mark.parametrize("name", ["x" * 300, "x\0"])
def test_a_name_that_cannot_be_a_file_is_an_unknown_recipe(name: str) -> None:
    with pytest.raises(RemnantError, match="unknown recipe"):
        recipe.read(name)


def test_an_unknown_recipe_suggests_the_nearest() -> None:
    with pytest.raises(RemnantError, match="did you mean 'digits'"):
        recipe.read("digit")


def test_a_run_folder_stands_for_the_config_in_it(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(resolve({"lr": 0.7}).toml())
    assert recipe.read(str(tmp_path)) == recipe.read(str(tmp_path / "config.toml"))


def test_the_recipe_of_a_user_is_named_after_its_file(tmp_path: Path) -> None:
    mine = write(tmp_path, mine="lr = 0.3") / "mine.toml"
    assert resolve(recipe.read(str(mine))).name == "mine"


def test_a_packaged_recipe_takes_precedence_over_a_file_of_the_same_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("digits").write_text("something else")
    assert recipe.read("digits")["data"] == "digits"


def test_the_folder_of_a_packaged_recipe_may_be_left_out() -> None:
    assert recipe.read("cifar100") == recipe.read("paper/cifar100")


# --- changes -----------------------------------------------------------------------------------------


def test_changes_may_be_python_objects() -> None:
    data = tiny_data()
    table = recipe.apply(
        {"noise": "symmetric:0.2"}, {"noise": Symmetric(0.5), "data": data, "method": AER_ABS}
    )
    assert (table["noise"], table["data"], table["method"]) == (Symmetric(0.5), data, AER_ABS)
    part = recipe.apply({"noise": Symmetric(0.5)}, {"noise.rate": 0.25})
    assert part["noise"] == {"name": "symmetric", "rate": 0.25}


def test_a_config_can_be_changed_like_a_recipe() -> None:
    config = config_of("digits", "method=aer-abs", "schedule.period=4", "lr=0.7")
    assert recipe.to_config(config, {}) is config
    changed = recipe.to_config(config, {"net.width": 8, "noise": Symmetric(0.2)})
    assert (changed.net.width, changed.noise, changed.schedule) == (8, Symmetric(0.2), Alternate(4))
    other = recipe.to_config(config, {"method": "er"})
    assert (other.to_method(), other.lr) == (METHODS["er"], 0.7)
    with_object = recipe.to_config(config, {"data": tiny_data(), "tasks": 3})
    again = recipe.to_config(with_object, {"epochs": 2})
    assert (again.data, again.epochs) == (with_object.data, 2)


def test_without_a_recipe_a_run_is_named_after_its_dataset() -> None:
    skeletons = {"data": "nw-ucla", "net": "efficientgcn-b0"}
    assert recipe.to_config(None, skeletons).name == "nw-ucla"
    assert recipe.to_config(None, skeletons | {"name": "mine"}).name == "mine"
    assert recipe.to_config("digits", skeletons).name == "digits"


def test_a_dataset_without_a_recipe_has_default_settings_and_no_noise() -> None:
    settings = {"data": tiny_data(), "tasks": 3}
    config = recipe.to_config(None, settings)
    assert config == resolve(settings | {"name": "tiny"})
    assert config.noise == NOISES["none"]
    assert recipe.to_config(None, {}) == resolve(recipe.read("digits"))  # without a dataset: digits
    assert recipe.to_config(None, {}).noise == Symmetric(0.4)


def test_a_run_without_a_recipe_is_named_after_its_data() -> None:
    assert recipe.to_config(None, {}).name == "digits"
    data = tiny_data()
    data = dataclasses.replace(data, spec=dataclasses.replace(data.spec, name="my data/1"))
    assert recipe.to_config(None, {"data": data, "tasks": 3}).name == "my-data-1"
    with pytest.raises(RemnantError, match="unknown dataset 'cifar'; did you mean 'cifar10'"):
        recipe.to_config(None, {"data": "cifar"})


def test_a_dotted_key_of_a_setting_that_is_not_a_component_is_an_error() -> None:
    with pytest.raises(RemnantError, match="lr: "):
        config_of("digits", "lr.fast=3")
    with pytest.raises(RemnantError, match="unknown key 'colour'"):
        config_of("digits", "colour.red=3")


def test_another_method_replaces_the_components_that_a_recipe_names(tmp_path: Path) -> None:
    mine = str(write(tmp_path, mine='method = "aer"\nreplacement = "abs"\nobjective.x = 1') / "mine.toml")
    assert recipe.apply(recipe.read(mine), {"method": "er"}).keys() == {"method", "objective", "name"}
    assert recipe.apply(recipe.read(mine), {})["replacement"] == "abs"


@pytest.mark.parametrize("data", ["3", "[1]"])
def test_a_dataset_that_is_not_a_name_is_an_error(data: str) -> None:
    with pytest.raises(RemnantError, match="expected the name of a dataset"):
        config_of("digits", f"data={data}")


# --- bases and cases ---------------------------------------------------------------------------------


def test_the_recipe_of_a_user_may_be_based_on_another(tmp_path: Path) -> None:
    text = """
        base = "paper/cifar100"
        epochs = 3
        [[for]]
        noise = ["symmetric", "none"]
        lr = 0.5
    """
    mine = str(write(tmp_path, mine=text) / "mine.toml")
    config = config_of(mine, "method=puridiver")
    assert (config.name, config.epochs, config.buffer_size, config.lr) == ("mine", 3, 2000, 0.5)
    assert config_of(mine, "noise=block:0.4", "method=puridiver").lr == 0.001


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ('method = "err"', r"expected a known method.*got \['err'\]"),
        ('noise = ["symmetric", "loud:0.4"]', r"got \['loud:0.4'\]"),
        ("lr = 0.1", "recipe mine: .*got neither"),
        (
            'method = "spr"\nbufer_size = 3',
            r"mine\.toml: .*unknown key 'bufer_size'; did you mean 'buffer_size'",
        ),
        ('method = "spr"\nbuffer = 3', r"mine\.toml: .*'buffer' has been renamed: use 'buffer_size'"),
    ],
)
def test_a_case_for_something_unknown_is_an_error(tmp_path: Path, case: str, words: str) -> None:
    mine = write(tmp_path, mine=f"[[for]]\n{case}") / "mine.toml"
    with pytest.raises(RemnantError, match=words):
        config_of(str(mine))


@pytest.mark.parametrize(
    "text",
    [
        'for = "x"',
        "for = 3",
        "for = [1]",
        '[for]\nmethod = "er"',
        '[[for]]\nmethod = [["er"]]',
        "[[for]]\nmethod = {a = 1}",
        "[[for]]\nnoise = 3",
        '[[for]]\nnoise = {name = ["a"]}',
    ],
)
def test_a_case_of_the_wrong_form_is_an_error(tmp_path: Path, text: str) -> None:
    mine = write(tmp_path, mine=text) / "mine.toml"
    with pytest.raises(RemnantError, match=r"mine\.toml: .*\[\[for\]\]"):
        config_of(str(mine))


def test_settings_of_a_recipe_take_precedence_over_the_cases_of_its_base(tmp_path: Path) -> None:
    text = 'base = "paper/cifar10"\nmethod = "er+fit"\nlr = 0.5\nconsolidation.epochs = 3'
    mine = str(write(tmp_path, mine=text) / "mine.toml")
    table = config_of(mine, "noise=symmetric:0.6").table()
    assert (table["lr"], table["consolidation"]["lr"], table["consolidation"]["epochs"]) == (0.5, 0.1, 3)


def test_a_recipe_that_is_based_on_itself_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(write(tmp_path, a='base = "b.toml"', b='base = "a.toml"'))
    with pytest.raises(RemnantError, match="that is based on itself"):
        recipe.read("a.toml")
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "c.toml").write_text('base = "../x/c.toml"')
    with pytest.raises(RemnantError, match="that is based on itself"):
        recipe.read("x/c.toml")


def test_a_recipe_that_is_based_on_itself_by_another_path_is_an_error(tmp_path: Path) -> None:
    write(tmp_path, a=f'base = "{tmp_path}/./b.toml"', b='base = "link.toml"')
    (tmp_path / "link.toml").symlink_to("a.toml")
    (tmp_path / "here").symlink_to(".")
    write(tmp_path, c='base = "here/c.toml"')
    for name in ("a", "c"):
        with pytest.raises(RemnantError, match="that is based on itself"):
            recipe.read(str(tmp_path / f"{name}.toml"))


def test_a_very_long_chain_of_recipes_is_an_error(tmp_path: Path) -> None:
    write(tmp_path, **{f"r{n}": f'base = "r{n + 1}.toml"' for n in range(1000)}, r1000='base = "digits"')
    with pytest.raises(RemnantError, match="expected at most 50 recipes that are based on each other"):
        recipe.read(str(tmp_path / "r0.toml"))
    assert recipe.read(str(tmp_path / "r960.toml"))["data"] == "digits"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("noise = " + "[" * 2000 + "]" * 2000, id="nested lists"),
        pytest.param("noise." + ".".join("a" * 2000) + " = 1", id="nested tables"),
        pytest.param("seed = " + "1" * 5000, id="5,000 digits"),
        pytest.param("lr = 1e" + "1" * 5000, id="a huge exponent"),
    ],
)
def test_extreme_values_in_a_recipe_are_an_error(tmp_path: Path, text: str) -> None:
    mine = write(tmp_path, mine=text) / "mine.toml"
    with pytest.raises(RemnantError, match=r"expected TOML|deeply nested|lr: "):
        recipe.to_config(mine, {})


def test_a_folder_without_a_config_is_an_error_that_says_so(tmp_path: Path) -> None:
    with pytest.raises(RemnantError, match=r"expected a run folder with a file config\.toml, found none"):
        recipe.read(str(tmp_path))


# --- the packaged recipes and the paper --------------------------------------------------------------


def test_packaged_recipes_resolve_and_have_a_name_and_a_description() -> None:
    for name, text in recipe.recipes().items():
        assert config_of(name).name == name.removeprefix("paper/")
        assert text.startswith("# ")


@pytest.mark.parametrize("name", [name for name in recipe.recipes() if name.startswith("paper/")])
def test_a_recipe_of_the_paper_works_with_every_method(name: str) -> None:
    for method, value in METHODS.items():
        if method == "spr" and "ntu60" in name:
            with pytest.raises(RemnantError, match="skeletons"):
                config_of(name, f"method={method}")
        elif name.endswith("-once") and Alternate() == getattr(value, "schedule", None):
            with pytest.raises(RemnantError, match="use at least 2"):
                config_of(name, f"method={method}")
        else:
            assert config_of(name, f"method={method}").label == method


def test_changes_take_precedence_over_what_a_recipe_has_for_the_method() -> None:
    config = config_of("paper/cifar10", "method=er+fit", "consolidation.lr=0.7", "lr=0.2")
    table = config.table()
    assert (config.lr, table["consolidation"]["lr"], table["consolidation"]["epochs"]) == (0.2, 0.7, 255)


def test_the_buffers_of_all_methods_hold_equally_many_samples() -> None:
    budgets = []
    for method, buffer_size in (("spr", 500), ("aer-abs", 1000)):
        config = config_of("paper/cifar10-spr", f"method={method}", f"buffer_size={buffer_size}")
        budgets.append(config.to_method().plan(config.setup(), [100]).buffer_budget)
    assert budgets == [1000, 1000]


# Sums of the columns of the paper's tables, added up from the paper and not from the recipes.
@pytest.mark.parametrize(
    ("name", "kind", "sums"),
    [
        ("paper/cifar100", "faa", [360.13, 279.05, 292.88, 368.2, 262.16]),
        ("paper/cifar100", "error", [7.08, 6.16, 7.05, 9.86, 9.15]),
        ("paper/cifar100", "forgetting", [301.71, 285.18, 235.62, 284.86, 197.95]),
        ("paper/ntu60", "faa", [415.84, 341.95]),
        ("paper/ntu60", "error", [13.31, 12.31]),
        ("paper/ntu60", "forgetting", [280.9, 249.52]),
    ],
)
def test_the_figures_of_the_paper_have_not_changed(name: str, kind: str, sums: list[float]) -> None:
    rows = np.array(list(recipe.papers()[name][kind].values()), dtype=float)
    assert np.nansum(rows, axis=0).tolist() == pytest.approx(sums, abs=1e-6)


# --- every recipe runs -------------------------------------------------------------------------------

SHORT = {
    "spr": ["algorithm.expert_steps=2", "algorithm.base_steps=2", "algorithm.finetune_epochs=1"],
    "cnll": ["algorithm.warmup_epochs=1", "algorithm.finetune_epochs=1"],
}


def random_data(config: Config) -> Dataset:
    """Random inputs of a benchmark's shape: three training samples and one test sample per task."""
    spec, rng = DATA[config.data].spec, np.random.default_rng(0)
    firsts = np.cumsum([0, *config.class_counts()])[:-1]
    order = config.class_order if isinstance(config.class_order, str) else "native"
    if order == "superclass":
        firsts = np.array([spec.superclass.index(2 * task) for task in range(len(firsts))])
    y = np.repeat(firsts, 3)
    dtype = np.dtype(str(spec.dtype).removeprefix("torch."))
    x = (rng.random((len(y), *spec.shape), np.float32) * (255 if spec.are_images else 1)).astype(dtype)
    return arrays(spec, x, y, x[::3], y[::3], truth=y)


# One step on the long skeleton sequences of NTU takes seconds; nw-ucla has the same network.
SLOW = {"paper/ntu60": [pytest.mark.slow]}


@pytest.mark.parametrize("name", [pytest.param(n, marks=SLOW.get(n, [])) for n in recipe.recipes()])
@pytest.mark.slow
def test_a_recipe_runs_two_steps_per_task_on_data_of_its_shape(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = config_of(name)
    width = ["net.width=4"] if hasattr(usual.net, "width") else []
    shorter = SHORT.get(usual.table()["algorithm"]["name"], [])
    config = config_of(name, "epochs=2", "buffer_size=2", "per_class=0", "threads=1", *width, *shorter)
    small = dataclasses.replace(DATA[config.data], loader=lambda _: random_data(config))
    monkeypatch.setitem(DATA, config.data, small)
    folder = execute(config, Options(tmp_path, save_every=1000), [Quiet(Console())])
    result: dict[str, Any] = json.loads((folder / "result.json").read_text())
    assert len(result["accuracy"]) == len(config.class_counts())
    assert result["noise"] == short(REGISTRIES["noise"], config.noise)
    if shorter == []:
        records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        assert len([r for r in records if "epoch" in r]) == 2 * len(config.class_counts())


def test_random_data_has_the_published_shape() -> None:
    for name, shape in (("ntu60", (3, 288, 25, 2)), ("food101n", (3, 224, 224))):
        config = config_of(f"paper/{name}")
        assert random_data(config).train.take(torch.tensor([0])).shape == (1, *shape)
