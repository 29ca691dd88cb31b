"""The recipes of the package: what they say of the paper, and that they run."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console

from remnant import recipe
from remnant.component import short
from remnant.config import Config, resolve
from remnant.data import DATA, Dataset
from remnant.data.source import arrays
from remnant.errors import RemnantError
from remnant.methods import METHODS
from remnant.noise import NOISES
from remnant.progress import Quiet
from remnant.published import published
from remnant.runner import Options, run
from remnant.schedule import Alternate
from remnant.summary import paper

CELLS = [
    (name, method, noise)
    for name, table in recipe.papers().items()
    for method in table["faa"]
    for noise in table["noise"]
]


def config_of(name: str, *changes: str) -> Config:
    return resolve(recipe.apply(recipe.read(name), changes))


@pytest.mark.parametrize("name", recipe.recipes())
def test_a_recipe_resolves_and_bears_its_name(name: str) -> None:
    assert config_of(name).name == name.removeprefix("paper/")
    assert recipe.recipes()[name].startswith("# ")


@pytest.mark.parametrize(("name", "method", "noise"), CELLS)
def test_every_cell_of_the_paper_resolves_and_knows_its_number(
    name: str, method: str, noise: str
) -> None:
    config = config_of(name, f"method={method}", f"noise={noise}")
    table = recipe.papers()[name]
    expected = table["faa"][method][table["noise"].index(noise)]
    found = published(config)
    if np.isnan(expected):
        assert found is None
    else:
        assert found is not None
        assert (config.label, found.faa, found.other) == (method, expected, ())


@pytest.mark.parametrize("name", [name for name in recipe.recipes() if name.startswith("paper/")])
@pytest.mark.parametrize("method", METHODS)
def test_a_recipe_of_the_paper_serves_every_method(name: str, method: str) -> None:
    if method == "spr" and "ntu60" in name:
        with pytest.raises(RemnantError, match="skeletons"):
            config_of(name, f"method={method}")
    elif name.endswith("-once") and Alternate() == METHODS[method].schedule:
        with pytest.raises(RemnantError, match="take at least 2"):
            config_of(name, f"method={method}")
    else:
        assert config_of(name, f"method={method}").label == method


def test_the_folder_of_a_recipe_may_be_left_out() -> None:
    assert recipe.read("cifar100") == recipe.read("paper/cifar100")


# Rates of the paper's list of best values: of the stream, of the memory, weight of the unlabelled.
@pytest.mark.parametrize(
    ("name", "method", "noise", "expected"),
    [
        ("cifar10", "er", "symmetric:0.2", (0.1, None, None)),
        ("cifar10", "er+fit", "symmetric:0.6", (0.1, 0.1, None)),
        ("cifar10", "er+coteaching", "symmetric:0.4", (0.03, 0.05, None)),
        ("cifar10", "gdumb+dividemix", "symmetric:0.6", (0.03, 0.01, 25.0)),
        ("cifar10", "aer-abs+consolidation", "symmetric:0.6", (0.03, 0.1, 0.01)),
        ("cifar100", "aer-abs+consolidation", "symmetric:0.2", (0.03, 0.05, 0.01)),
        ("cifar100", "aer-abs+consolidation", "symmetric:0.6", (0.03, 0.1, 0.1)),
        ("cifar100", "aer-abs+consolidation", "block:0.2", (0.03, 0.05, 0.005)),
        ("cifar100", "aer-abs+consolidation", "block:0.4", (0.1, 0.05, 0.1)),
        ("cifar100", "er+dividemix", "symmetric:0.2", (0.1, 0.01, 25.0)),
        ("cifar100", "er+dividemix", "symmetric:0.6", (0.03, 0.05, 25.0)),
        ("cifar100", "puridiver", "block:0.4", (0.001, 0.05, None)),
        ("ntu60", "finetune", "symmetric:0.2", (0.1, None, None)),
        ("ntu60", "finetune", "symmetric:0.4", (0.03, None, None)),
        ("ntu60", "puridiver", "symmetric:0.2", (0.3, 0.05, None)),
        ("ntu60", "gdumb+dividemix", "symmetric:0.2", (0.1, 0.3, 25.0)),
    ],
)
def test_the_rates_of_the_paper(
    name: str, method: str, noise: str, expected: tuple[float | None, ...]
) -> None:
    table = config_of(f"paper/{name}", f"method={method}", f"noise={noise}").table()
    at_the_end = table["consolidation"]
    assert (table["lr"], at_the_end.get("lr"), at_the_end.get("lambda_u")) == expected


def test_what_is_asked_for_wins_over_what_the_recipe_has_for_the_method() -> None:
    config = config_of("paper/cifar10", "method=er+fit", "consolidation.lr=0.7", "lr=0.2")
    table = config.table()
    assert (config.lr, table["consolidation"]["lr"], table["consolidation"]["epochs"]) == (0.2, 0.7, 255)


def test_a_memory_of_all_methods_holds_as_many_rows() -> None:
    rows = [
        config_of("paper/cifar10-spr", f"method={m}").learner.budget(b)
        for m, b in (("spr", 500), ("aer-abs", 1000))
    ]
    assert rows == [1000, 1000]


def test_a_run_with_other_settings_is_told_which() -> None:
    found = published(config_of("paper/cifar100", "noise=block:0.2", "epochs=5", "net.width=8"))
    assert found is not None
    assert found.other == ("net.width = 64", "epochs = 50")
    (row,) = paper(found)
    assert row == (
        "in the paper",
        "41.2 %",
        "+- 0.4 over 5 seeds, forgetting 21.2; there net.width = 64, epochs = 50",
    )
    assert published(config_of("cifar10-small")) is None
    same = config_of("paper/cifar100", "noise=block:0.2", "seed=3", "threads=1", "name=mine")
    assert published(same) is not None
    assert published(config_of("paper/cifar100", "noise=block:0.3")) is None


def test_the_closest_experiment_of_the_paper_is_quoted() -> None:
    """Made from one recipe, with all the settings of another."""
    found = published(config_of("paper/cifar10-cnll", "method=aer-abs", "buffer=1000", "epochs=25"))
    assert found is not None
    assert (found.faa, found.other) == (63.65, ())
    other_split = published(config_of("paper/ntu60", "data=ntu60-xview"))
    assert other_split is not None
    assert other_split.other == ("data = ntu60",)


def write(folder: Path, **texts: str) -> Path:
    for name, text in texts.items():
        (folder / f"{name}.toml").write_text(text)
    return folder


def test_a_users_recipe_rests_on_another(tmp_path: Path) -> None:
    text = """
        base = "paper/cifar100"
        epochs = 3
        [[for]]
        noise = ["symmetric", "none"]
        lr = 0.5
    """
    mine = str(write(tmp_path, mine=text) / "mine.toml")
    config = config_of(mine, "method=puridiver")
    assert (config.name, config.epochs, config.buffer, config.lr) == ("mine", 3, 2000, 0.5)
    assert config_of(mine, "noise=block:0.4", "method=puridiver").lr == 0.001


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ('method = "err"', r"expected a known method.*got \['err'\]"),
        ('noise = ["symmetric", "loud:0.4"]', r"got \['loud:0.4'\]"),
        ("lr = 0.1", "recipe mine: .*got neither"),
        ('method = "spr"\nbufer = 3', r"mine\.toml: .* unknown 'bufer'; did you mean 'buffer'"),
    ],
)
def test_a_case_for_nothing_that_is_known_is_refused(tmp_path: Path, case: str, words: str) -> None:
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
def test_a_case_of_another_form_is_refused(tmp_path: Path, text: str) -> None:
    mine = write(tmp_path, mine=text) / "mine.toml"
    with pytest.raises(RemnantError, match=r"mine\.toml: .*\[\[for\]\]"):
        config_of(str(mine))


@pytest.mark.parametrize("data", ["3", "[1]"])
def test_data_that_have_no_name_are_refused(data: str) -> None:
    with pytest.raises(RemnantError, match="unknown data set"):
        config_of("digits", f"data={data}")


def test_a_recipes_own_settings_win_over_the_cases_of_its_base(tmp_path: Path) -> None:
    text = 'base = "paper/cifar10"\nmethod = "er+fit"\nlr = 0.5\nconsolidation.epochs = 3'
    mine = str(write(tmp_path, mine=text) / "mine.toml")
    table = config_of(mine, "noise=symmetric:0.6").table()
    assert (table["lr"], table["consolidation"]["lr"], table["consolidation"]["epochs"]) == (0.5, 0.1, 3)


@pytest.mark.parametrize("method", ["aer-abs+consolidation", "er+dividemix", "gdumb+dividemix"])
@pytest.mark.parametrize("rate", [0.2, 0.4])
def test_rates_within_superclasses_are_those_of_blocks(method: str, rate: float) -> None:
    ours = config_of("paper/cifar100-superclass", f"method={method}", f"noise=asymmetric:{rate}")
    theirs = config_of("paper/cifar100", f"method={method}", f"noise=block:{rate}")
    assert (ours.lr, ours.consolidation) == (theirs.lr, theirs.consolidation)


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
def test_no_digit_of_the_paper_has_changed(name: str, kind: str, sums: list[float]) -> None:
    rows = np.array(list(recipe.papers()[name][kind].values()), dtype=float)
    assert np.nansum(rows, axis=0).tolist() == pytest.approx(sums, abs=1e-6)


def test_a_recipe_that_rests_on_itself_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(write(tmp_path, a='base = "b.toml"', b='base = "a.toml"'))
    with pytest.raises(RemnantError, match="would rest on itself"):
        recipe.read("a.toml")
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "c.toml").write_text('base = "../x/c.toml"')
    with pytest.raises(RemnantError, match="would rest on itself"):
        recipe.read("x/c.toml")


# --- every recipe runs -------------------------------------------------------------------------------

SHORT = {
    "spr": ["learner.expert_steps=2", "learner.base_steps=2", "learner.finetune_epochs=1"],
    "cnll": ["learner.warmup_epochs=1", "learner.finetune_epochs=1"],
}


def made(config: Config) -> Dataset:
    """Random rows of a benchmark's own shape: three of each task to learn from, one to be tested on."""
    spec, rng = DATA[config.data].spec, np.random.default_rng(0)
    firsts = np.cumsum([0, *config.sizes()])[:-1]
    order = config.class_order if isinstance(config.class_order, str) else "native"
    if order == "superclass":
        firsts = np.array([spec.superclass.index(2 * task) for task in range(len(firsts))])
    y = np.repeat(firsts, 3)
    dtype = np.dtype(str(spec.dtype).removeprefix("torch."))
    x = (rng.random((len(y), *spec.shape), np.float32) * (255 if spec.are_images else 1)).astype(dtype)
    data = arrays(spec, x, y, x[::3], y[::3])
    return dataclasses.replace(data, given=data.y) if spec.labels_are_given else data


@pytest.mark.parametrize("name", recipe.recipes())
def test_a_recipe_runs_two_steps_per_task_on_data_of_its_shape(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = config_of(name)
    width = ["net.width=4"] if hasattr(usual.net, "width") else []
    shorter = SHORT.get(usual.table()["learner"]["name"], [])
    config = config_of(name, "epochs=2", "buffer=2", "per_class=0", "threads=1", *width, *shorter)
    entry = DATA[config.data]
    small = dataclasses.replace(entry, loader=lambda _: made(config))
    monkeypatch.setitem(DATA, config.data, small)
    folder = run(config, Options(tmp_path, None, force=False, save_every=1000), Quiet(Console()))
    result: dict[str, Any] = json.loads((folder / "result.json").read_text())
    assert len(result["accuracy"]) == len(config.sizes())
    assert result["noise"] == short(NOISES, config.noise)
    if shorter == []:
        steps = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        assert len([s for s in steps if "epoch" in s]) == 2 * len(config.sizes())


def test_made_data_are_of_the_published_shape() -> None:
    for name, shape in (("ntu60", (3, 288, 25, 2)), ("food101n", (3, 224, 224))):
        assert made(config_of(f"paper/{name}")).train.take(torch.tensor([0])).shape == (1, *shape)
