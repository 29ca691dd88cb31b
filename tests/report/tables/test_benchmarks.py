from dataclasses import replace

from run_folders import finished, own

from remnant.report.runs import FinishedRun
from remnant.report.tables.benchmarks import benchmark_titles, by_benchmark, data_titles, is_same_data
from remnant.report.tables.grouping import METRICS, make_table


def with_rate(run: FinishedRun, rate: float | None) -> FinishedRun:
    return replace(run, result={**run.result, "noise_rate": rate})


def test_own_data_are_benchmarks_of_their_own_named_by_their_folder() -> None:
    found = by_benchmark([own("/me/photos", "er"), own("/me/birds", "er"), own("/me/photos", "aer")])
    assert {title: [run.method for run in runs] for title, runs in found.items()} == {
        "folder:photos, given labels": ["er", "aer"],
        "folder:birds, given labels": ["er"],
    }


def test_folders_of_the_same_name_have_as_many_folders_above_as_tell_them_apart() -> None:
    paths = ("/me/a/x/photos", "/me/b/x/photos", "/me/a/y/photos", "/me/birds")
    assert data_titles([own(path) for path in paths]) == [
        "folder:a/x/photos", "folder:b/x/photos", "folder:y/photos", "folder:birds",
    ]  # fmt: skip
    assert data_titles([own("/photos"), own("/me/photos")]) == ["folder:/photos", "folder:me/photos"]


def test_tables_and_datasets_of_the_hub_are_named_with_their_kind() -> None:
    table = own("/me/labels.csv", name="table")
    hub = replace(table, config={**table.config, "data": {"name": "hf", "path": "user/birds"}})
    assert data_titles([table, hub, finished()]) == ["table:labels.csv", "hf:user/birds", "digits"]


def test_a_recipe_of_own_data_keeps_its_name() -> None:
    run = own("/me/photos")
    run = replace(run, config={**run.config, "name": "garden"})
    assert benchmark_titles([run]) == ["garden (folder:photos), given labels"]


def test_no_noise_is_given_labels_unless_they_are_known_to_be_clean() -> None:
    run = own("/me/photos")
    rates = (None, 12.5, 0.0)
    assert [benchmark_titles([with_rate(run, rate)])[0].partition(", ")[2] for rate in rates] == [
        "given labels", "given labels", "none",
    ]  # fmt: skip
    assert benchmark_titles([finished()]) == ["digits, symmetric:0.4"]


def test_runs_on_different_folders_are_not_compared() -> None:
    table = make_table([own("/a/photos", faa=50.0), own("/b/photos", "aer", faa=64.0)], [METRICS["faa"]])
    assert table.references == {
        "folder:a/photos, given labels": "er",
        "folder:b/photos, given labels": "aer",
    }
    assert all(row.difference is None for rows in table.rows.values() for row in rows)
    assert [row.group.benchmark for rows in table.rows.values() for row in rows] == list(table.rows)


def test_data_are_the_same_if_their_paths_are() -> None:
    assert is_same_data(own("/a/photos"), own("/a/photos", "aer"))
    assert not is_same_data(own("/a/photos"), own("/b/photos"))
    assert is_same_data(finished("er"), finished("aer"))
