from report_runs import measured

from remnant.report.figures.groups import benchmarks, common_settings, seeds_sentence


def test_runs_that_differ_in_the_seed_only_are_one_variant() -> None:
    (found,) = benchmarks([measured("er", 1), measured("aer-abs", 0), measured("er", 0)])
    assert found.title == "digits, symmetric:0.4"
    assert [(variant.label, variant.seeds) for variant in found.variants] == [
        ("er", [0, 1]),
        ("aer-abs", [0]),
    ]
    assert [run.seed for run in found.variants[0].runs] == [0, 1]
    assert len(found.runs) == 3


def test_settings_are_named_only_where_runs_of_one_method_differ() -> None:
    runs = [
        measured("er", settings={"epochs": 5, "buffer_size": 100}),
        measured("er", settings={"epochs": 5, "buffer_size": 500}),
        measured("aer-abs", settings={"epochs": 5, "buffer_size": 100}),
    ]
    (found,) = benchmarks(runs)
    assert [v.label for v in found.variants] == ["er buffer_size=100", "er buffer_size=500", "aer-abs"]


def test_a_run_with_another_component_setting_is_a_variant_of_its_method() -> None:
    runs = [
        measured("aer-abs", settings={"insertion": {"alpha": 0.75}}),
        measured("aer-abs-custom", settings={"insertion": {"alpha": 0.5}}),
    ]
    (found,) = benchmarks(runs)
    assert [v.label for v in found.variants] == [
        "aer-abs",
        "aer-abs insertion.alpha=0.5",
    ]
    (alone,) = benchmarks(runs[1:])
    assert [v.label for v in alone.variants] == ["aer-abs insertion.alpha=0.5"]


def test_a_method_has_the_same_style_on_every_benchmark() -> None:
    other = {"data": "fashion", "noise": "none"}
    runs = [measured("er"), measured("aer-abs"), measured("aer-abs", settings={"name": "fashion"}, **other)]
    first, second = benchmarks(runs)
    assert first.variants[1].style == second.variants[0].style
    assert first.variants[0].style != second.variants[0].style


def test_captions_name_the_seeds() -> None:
    (both,) = benchmarks([measured("er", 0), measured("er", 1), measured("aer", 0), measured("aer", 1)])
    assert seeds_sentence(both.variants) == "Mean and standard error over seeds 0-1."
    (uneven,) = benchmarks([measured("er", 0), measured("er", 1), measured("aer", 3)])
    assert seeds_sentence(uneven.variants) == "Mean and standard error over seeds 0-1 (er); 3 (aer)."
    (single,) = benchmarks([measured("er", 4)])
    assert seeds_sentence(single.variants) == "One run, seed 4."


def test_common_settings_are_those_that_all_runs_share() -> None:
    shared = common_settings(
        [measured("er", 0, {"epochs": 5}), measured("aer", 1, {"epochs": 5, "batch": 2})]
    )
    assert shared["epochs"] == "5"
    assert shared["noise.rate"] == "0.4"
    assert not {"seed", "method", "batch"} & shared.keys()
