from dataclasses import replace

from run_folders import finished

from remnant.report.runs import FinishedRun
from remnant.report.tables.grouping import METRICS
from remnant.report.verify.comparisons import Results, higher, lower

FAA, FF = METRICS["faa"], METRICS["ff"]


def runs(method: str, *accuracies: float, **settings: object) -> list[FinishedRun]:
    return [finished(method, seed, faa, **settings) for seed, faa in enumerate(accuracies)]


def with_budget(found: list[FinishedRun], budget: int | None) -> list[FinishedRun]:
    return [replace(run, result={**run.result, "buffer_samples": {"budget": budget}}) for run in found]


def test_a_difference_counts_if_it_is_greater_than_twice_its_error() -> None:
    clear = Results([*runs("aer", 50.0, 61.0), *runs("er", 40.0, 50.0)])  # 10 and 11
    (finding,) = higher(FAA, "aer", "er")(clear)
    assert finding.holds
    assert finding.text == "aer - er +10.5 ± 0.5"
    unclear = Results([*runs("aer", 50.0, 52.0), *runs("er", 40.0, 50.0)])  # 10 and 2, error 4
    (finding,) = higher(FAA, "aer", "er")(unclear)
    assert not finding.holds


def test_a_lower_value_has_a_negative_difference() -> None:
    a, b = (
        [
            replace(run, result={**run.result, "ff": ff})
            for run, ff in zip(runs(method, 50.0, 50.0), values, strict=True)
        ]
        for method, values in (("aer", (5.0, 6.0)), ("er", (20.0, 20.0)))
    )
    (finding,) = lower(FF, "aer", "er")(Results([*a, *b]))
    assert finding.holds
    assert finding.text == "aer - er -14.5 ± 0.5"


def test_methods_are_compared_on_the_same_benchmark_with_learning_rates_of_their_own() -> None:
    results = Results([*runs("aer", 50.0, 61.0, lr=0.03), *runs("er", 40.0, 50.0, lr=0.3)])
    assert len(list(higher(FAA, "aer", "er")(results))) == 1
    other = Results([*runs("aer", 50.0, 61.0, epochs=5), *runs("er", 40.0, 50.0, epochs=20)])
    assert list(higher(FAA, "aer", "er")(other)) == []


def test_a_method_that_stores_more_samples_is_not_compared() -> None:
    larger = with_budget(runs("aer", 50.0, 61.0), 200)
    smaller = with_budget(runs("spr", 40.0, 50.0), 100)
    assert list(higher(FAA, "aer", "spr")(Results([*larger, *smaller]))) == []
    assert len(list(higher(FAA, "spr", "aer")(Results([*larger, *smaller])))) == 1
    unlimited = with_budget(runs("cnll.unlimited", 40.0, 50.0), None)
    assert len(list(higher(FAA, "aer", "cnll.unlimited")(Results([*larger, *unlimited])))) == 1
