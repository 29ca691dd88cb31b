from typing import Any

from conftest import tiny_config
from run_folders import finished

from remnant.methods.registry import METHODS
from remnant.report.runs import FinishedRun
from remnant.report.tables.grouping import group_runs
from remnant.report.tables.variants import named_settings


def run(method: str = "aer-abs", **changes: Any) -> FinishedRun:  # noqa: ANN401
    """A run that is not on disk, with the config of a real one."""
    config = tiny_config(method=method, **changes)
    return finished(config.label, **{k: v for k, v in config.table().items() if k not in ("method", "seed")})


OTHER = {"replacement": "lass", "schedule": "always", "insertion": {"alpha": 0.5}}


def titles(*runs: FinishedRun) -> list[str]:
    return [group.title for group in group_runs(runs)]


def test_a_variant_is_named_by_its_difference_from_the_registered_method() -> None:
    long = "aer-abs schedule=always replacement=lass insertion.alpha=0.5"
    assert titles(run(), run(**OTHER), run("er")) == ["aer-abs", long, "er"]
    assert titles(run(**OTHER)) == [long]  # without runs of the registered method as well


def test_settings_of_another_component_are_named_unless_they_follow_from_its_name() -> None:
    lass = {"name": "lass", "allow_duplicates": True}
    assert named_settings([run(replacement=lass)]) == [
        {"replacement": "lass", "replacement.allow_duplicates": True}
    ]


def test_registered_methods_have_no_settings_in_their_names() -> None:
    runs = [run(name) for name in METHODS if name not in ("spr", "cnll", "cnll.unlimited")]
    assert titles(*runs) == [run.method for run in runs]


def test_a_setting_that_a_recipe_tunes_is_not_named() -> None:
    tuned = {"method": "aer-abs+consolidation", "consolidation": {"epochs": 3}}
    assert run(**tuned).method == "aer-abs+consolidation"
    assert titles(run(**tuned), run(**tuned, insertion={"alpha": 0.5})) == [
        "aer-abs+consolidation", "aer-abs+consolidation insertion.alpha=0.5",
    ]  # fmt: skip


def test_runs_of_a_registered_method_are_named_by_the_tuned_settings_in_which_they_differ() -> None:
    method = "aer-abs+consolidation"
    assert titles(run(method), run(method, consolidation={"epochs": 3})) == [
        method, f"{method} consolidation.epochs=3",
    ]  # fmt: skip


def test_two_python_objects_of_one_name_are_told_apart() -> None:
    objects = [{"python": "mine:Evict", "source": digest} for digest in ("1a", "2b")]
    runs = [finished("aer-abs-custom", replacement=table) for table in objects]
    assert [own["replacement"] for own in named_settings(runs)] == ["Evict", "Evict"]
    assert [own["replacement.source"] for own in named_settings(runs)] == ["1a", "2b"]


def test_an_unknown_method_has_all_settings_in_which_its_runs_differ() -> None:
    runs = [
        finished("mine-custom", insertion={"name": "lowest-loss", "alpha": alpha}) for alpha in (0.5, 0.75)
    ]
    assert titles(*runs) == ["mine insertion.alpha=0.5", "mine insertion.alpha=0.75"]
    assert titles(runs[0]) == ["mine-custom"]
