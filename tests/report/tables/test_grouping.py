import pytest
from run_folders import finished

from remnant.errors import RemnantError
from remnant.report.tables.grouping import (
    METRICS,
    Summary,
    find_metrics,
    group_runs,
    make_table,
    paired_difference,
)

FAA, FF = METRICS["faa"], METRICS["ff"]


def test_runs_that_differ_in_the_seed_only_are_one_group() -> None:
    runs = [finished("er", seed) for seed in (0, 1)] + [finished("er", 0, lr=0.3)]
    first, second = group_runs(runs)
    assert (sorted(first.runs), sorted(second.runs)) == ([0, 1], [0])
    assert (first.title, second.title) == ("er lr=0.1", "er lr=0.3")


def test_the_first_of_two_runs_with_one_config_is_used() -> None:
    (group,) = group_runs([finished(faa=10.0), finished(faa=20.0)])
    assert group.runs[0].result["faa"] == 10.0


def test_a_row_has_the_mean_and_the_standard_error_over_seeds() -> None:
    runs = [finished("er", seed, faa) for seed, faa in enumerate((40.0, 50.0, 60.0))]
    (row,) = make_table(runs, [FAA, METRICS["purity"]]).rows["digits, symmetric:0.4"]
    assert row.values["faa"] is not None
    assert row.values["faa"].mean == 50.0
    assert row.values["faa"].error == pytest.approx(10 / 3**0.5)
    assert row.values["purity"] == Summary(80.0, 0.0, 3)
    assert row.difference is None


def test_differences_are_paired_by_seed() -> None:
    # Seed 0 is easy for both methods, seed 1 is hard: the differences are -10 and -12, their error is 1.
    runs = [finished("er", 0, 80.0), finished("er", 1, 30.0)]
    runs += [finished("aer", 0, 90.0), finished("aer", 1, 42.0), finished("aer", 2, 99.0)]
    best, other = make_table(runs, [FAA]).rows["digits, symmetric:0.4"]
    assert (best.group.method, best.difference) == ("aer", None)
    assert other.difference == Summary(-11.0, pytest.approx(1.0), 2)  # seed 2 has no pair


def test_groups_without_a_common_seed_have_no_difference() -> None:
    a, b = group_runs([finished("er", 0), finished("aer", 1)])
    assert paired_difference(a, b, FAA) is None


def test_the_best_of_a_benchmark_is_first_and_forgetting_is_better_if_low() -> None:
    runs = [finished("er", faa=30.0), finished("aer", faa=50.0), finished("abs", faa=40.0)]
    assert [row.group.method for row in make_table(runs, [FAA]).rows["digits, symmetric:0.4"]] == [
        "aer", "abs", "er",
    ]  # fmt: skip
    forgetting = [dict(run.result, ff=run.result["faa"]) for run in runs]
    changed = [type(run)(run.folder, run.config, r) for run, r in zip(runs, forgetting, strict=True)]
    assert make_table(changed, [FF]).references == {"digits, symmetric:0.4": "er"}


def test_each_benchmark_has_its_own_best() -> None:
    easy, hard = finished("er", faa=90.0), finished("aer", faa=40.0)
    hard = type(hard)(hard.folder, hard.config | {"noise": {"name": "none"}}, hard.result | {"noise": "none"})
    table = make_table([easy, hard], [FAA])
    assert list(table.rows) == ["digits, symmetric:0.4", "digits, none"]
    assert all(rows[0].difference is None for rows in table.rows.values())


def test_settings_are_shown_only_if_they_differ_within_a_benchmark() -> None:
    easy, hard = finished("er"), finished("er")
    hard = type(hard)(
        hard.folder, hard.config | {"noise": {"name": "none"}, "epochs": 3}, hard.result | {"noise": "none"}
    )
    assert [group.title for group in group_runs([easy, hard])] == ["er", "er"]


def test_a_value_that_was_not_measured_is_left_out() -> None:
    run = finished("finetune")
    run = type(run)(run.folder, run.config, run.result | {"buffer": None})
    (row,) = make_table([run], [FAA, METRICS["purity"]]).rows["digits, symmetric:0.4"]
    assert row.values["purity"] is None


def test_an_unknown_metric_is_an_error_with_the_known_ones() -> None:
    with pytest.raises(RemnantError, match=r"did you mean 'purity'.*faa, ff"):
        find_metrics(["purty"])


def test_groups_may_be_compared_with_a_method_instead_of_the_best() -> None:
    runs = [finished("er", faa=30.0), finished("aer", faa=50.0)]
    best, er = make_table(runs, [FAA], reference="er").rows["digits, symmetric:0.4"]
    assert (best.difference, er.difference) == (Summary(20.0, None, 1), None)


def test_the_detection_by_any_score_is_a_metric_in_percent() -> None:
    suspects = {"auroc": 0.5, "scores": {"mean-margin": {"auroc": 0.75, "precision_at_errors": 0.25}}}
    run = finished("er")
    run = type(run)(run.folder, run.config, run.result | {"suspects": suspects})
    metrics = find_metrics(["auroc", "auroc:mean-margin", "hits:mean-margin", "auroc:end-margin"])
    assert [metric.of(run) for metric in metrics] == [50, 75, 25, None]


@pytest.mark.parametrize("name", ["auroc:margin", "faa:mean-margin", ":mean-margin"])
def test_an_unknown_score_or_metric_is_refused(name: str) -> None:
    with pytest.raises(RemnantError, match="unknown"):
        find_metrics([name])
