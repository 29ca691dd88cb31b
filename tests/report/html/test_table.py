from config_helpers import config_of
from conftest import tiny_config
from report_runs import measured, variants

from remnant.report.html.table import caption, label_notes, result_table, run_table, sentence


def test_each_method_has_mean_and_error_and_the_paired_difference_to_the_best() -> None:
    runs = variants(
        measured("er", 0, faa=40.0), measured("er", 1, faa=44.0),
        measured("aer-abs", 0, faa=60.0), measured("aer-abs", 1, faa=70.0),
    )  # fmt: skip
    table, notes = result_table(runs)
    assert notes == []
    assert table.best == 1
    cells = [dict(zip(table.header, row, strict=True)) for row in table.rows]
    assert cells[0]["final average accuracy"] == "42.0 ± 2.0"
    assert cells[0]["to the best"] == "-23.0 ± 3.0"  # differences -20 and -26
    assert cells[1]["to the best"] == ""
    assert cells[1]["seeds"] == "0-1"
    assert "in the paper" not in table.header
    assert caption(table) == (
        "Accuracy, forgetting and purity in percent: mean ± standard error over seeds. To the best: "
        "difference of the accuracy, paired by the seeds that both have."
    )
    assert label_notes(runs) == []
    assert sentence(runs) == (
        "aer-abs has the highest final average accuracy: 65.0 ± 5.0 %, 23.0 ± 3.0 points above er, "
        "paired over seeds 0-1."
    )


def test_a_difference_over_some_of_the_seeds_names_them() -> None:
    three = [measured("aer-abs", seed, faa=faa) for seed, faa in enumerate((60.0, 50.0, 61.0))]
    one, two = measured("er", 0, faa=49.0), measured("er", 2, faa=52.0)
    highest = "aer-abs has the highest final average accuracy: 57.0 ± 3.5 %"
    assert (
        sentence(variants(*three, one))
        == f"{highest}, 11.0 points above er, paired over seed 0, which both have."
    )
    assert sentence(variants(*three, one, two)) == (
        f"{highest}, 10.0 ± 1.0 points above er, paired over seeds 0, 2, which both have."
    )
    assert sentence(variants(*three, measured("er", 1, faa=54.0))) == (
        f"{highest}, 4.0 points below er, paired over seed 1, which both have."
    )
    other = measured("er", 7, faa=40.0)
    assert sentence(variants(*three, other)) == f"{highest}; er has no seed in common with it."


def test_a_difference_of_one_seed_each_is_that_of_the_table() -> None:
    runs = variants(measured("er", 0, faa=40.0), measured("aer-abs", 0, faa=60.0))
    assert sentence(runs).endswith("60.0 %, 20.0 points above er.")


def test_one_run_has_no_best_method() -> None:
    runs = variants(measured("er", faa=40.0))
    assert result_table(runs)[0].best is None
    assert sentence(runs) == "er has a final average accuracy of 40.0 %."


def test_labels_of_unknown_quality_have_the_number_of_suspects_and_a_warning() -> None:
    found = {"suspect": 1696, "samples": 2399, "noise_rate": 30.8}
    run = measured(
        "er", noise_rate=None, tested_on="held-out share, against the given labels", suspects=found
    )
    first, second = label_notes(variants(run))
    assert first.startswith("er, seed 0: 1,696 of 2,399 labels are suspect, and 31 % are estimated")
    assert second == (
        "The accuracy is measured against the given labels of held-out samples: those that are wrong count "
        "as mistakes of the network."
    )


def test_a_note_says_that_the_accuracy_is_measured_on_training_samples() -> None:
    given, known = (
        label_notes(variants(measured("er", tested_on=f"training samples{against}", suspects=None)))
        for against in (", against the given labels", "")
    )
    assert [
        note.partition(" the training samples, as nothing is held out")[0] for note in (*given, *known)
    ] == [
        "The accuracy is measured against the given labels of",
        "The accuracy is measured on",
    ]
    assert label_notes(variants(measured("er", tested_on="test split"))) == []


def test_there_is_no_forgetting_with_one_task() -> None:
    run = measured("er", accuracy=[[70.0]], classes=[["zero", "one"]])
    table, _ = result_table(variants(run))
    assert "forgetting" not in table.header
    assert caption(table) == "Accuracy and purity in percent."
    assert dict(zip((listed := run_table([run])).header, listed.rows[0], strict=True))["forgetting"] == "-"


def test_the_numbers_of_the_paper_are_beside_those_of_its_benchmarks() -> None:
    config = config_of("paper/cifar100", "noise=block:0.2", "epochs=5")
    table, notes = result_table(variants(measured("aer-abs", 0, config.table())))
    published = dict(zip(table.header, table.rows[0], strict=True))["in the paper"]
    assert published.startswith("41.2")
    assert notes == ["The paper's number for aer-abs is for other settings: epochs = 50."]


def test_every_run_has_a_line() -> None:
    table = run_table([measured("er"), measured("finetune", buffer=None)])
    assert [row[0] for row in table.rows] == ["digits-er-s0", "digits-finetune-s0"]
    assert table.rows[1][3] == "-"


def test_a_config_that_cannot_be_resolved_has_no_published_numbers() -> None:
    run = measured("er", 0, tiny_config().table() | {"net": {"python": "my_module:net"}})
    assert "in the paper" not in result_table(variants(run))[0].header
