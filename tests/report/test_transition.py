import re
from pathlib import Path

import numpy as np
import pytest
from noise_helpers import dataset_like, rng
from typer.testing import CliRunner

from remnant.cli.data import app
from remnant.config import resolve
from remnant.errors import RemnantError
from remnant.experiment.build import build_dataset
from remnant.noise import Symmetric
from remnant.report.transition import headline, noise_rates, rates, table, transitions
from remnant.report.transition_plot import draw_transitions

COUNTS = np.array([[6, 3, 1], [0, 10, 0], [2, 0, 2]])
NAMES = ("cat", "dog", "ship")


def test_samples_are_counted_by_true_and_observed_class() -> None:
    y, observed = np.array([0, 0, 0, 1, 2, 2]), np.array([0, 1, 1, 1, 2, 0])
    assert transitions(y, observed, 3).tolist() == [[1, 2, 0], [0, 1, 0], [1, 0, 1]]


def test_the_rates_of_each_class_sum_to_one() -> None:
    assert rates(COUNTS).tolist() == [[0.6, 0.3, 0.1], [0, 1, 0], [0.5, 0, 0.5]]
    assert noise_rates(COUNTS) == pytest.approx([0.4, 0, 0.5])


def test_the_headline_counts_noisy_labels() -> None:
    assert headline(COUNTS) == "6 of 24 labels are noisy, 25.00 %"


def test_few_classes_are_shown_as_a_matrix() -> None:
    assert table(COUNTS, NAMES).splitlines() == [
        "                               observed as, in % of the class",
        "  true class samples    noisy     0    1    2",
        "  0 cat           10   40.0 %  60.0 30.0 10.0",
        "  1 dog           10    0.0 %     .  100    .",
        "  2 ship           4   50.0 %  50.0    . 50.0",
        "  samples observed                8   13    3",
    ]


def test_a_class_named_by_its_number_is_not_numbered_again() -> None:
    assert table(COUNTS, ("0", "1", "2")).splitlines()[2].split()[:2] == ["0", "10"]


def test_many_classes_are_listed_with_their_most_frequent_confusions() -> None:
    data = dataset_like("cifar100", per_class=20)
    observed = data.y.copy()
    observed[:6] = [1, 1, 1, 2, 2, 3]
    text = table(transitions(data.y, observed, 100), data.spec.classes).splitlines()
    assert len(text) == 102
    assert re.fullmatch(r"  0 apple +20 +30\.0 % +14  aquarium_fish 15\.0, baby 10\.0, bear 5\.0", text[2])
    assert re.fullmatch(r"  1 aquarium_fish +20 +0\.0 % +23", text[3])
    assert not any(line.startswith("  samples observed") for line in text)


@pytest.mark.parametrize("name", ["cifar10", "cifar100-coarse"])
def test_all_lines_of_a_table_have_the_same_width(name: str) -> None:
    data = dataset_like(name, per_class=5_000 if name == "cifar10" else 20)
    observed = Symmetric(0.4)(data, rng())
    lines = table(transitions(data.y, observed, len(data.spec.classes)), data.spec.classes).splitlines()
    if name == "cifar10":
        assert {len(line) for line in lines[1:]} == {80}
    assert {line.index("%") for line in lines[2:12]} == {lines[2].index("%")}


def test_the_command_shows_the_labels_of_a_run(tmp_path: Path) -> None:
    plot = tmp_path / "noise.svg"
    arguments = [
        "noise",
        "digits",
        "--noise",
        "instance:0.3",
        "--seed",
        "2",
        "--set",
        "noise.shared=true",
    ]
    done = CliRunner().invoke(app, [*arguments, "--plot", str(plot)])
    assert done.exit_code == 0, done.output
    noise = {"name": "instance", "rate": 0.3, "shared": True}
    data, observed = build_dataset(resolve({"noise": noise, "seed": 2}), None)
    counts = transitions(data.y, observed, 10)
    title = f"digits, noise instance:0.3,shared=True, seed 2: {headline(counts)}"
    assert done.output == f"{title}\n\n{table(counts, data.spec.classes)}\n\n{plot}\n"
    assert plot.read_text() == draw_transitions(counts, data.spec.classes, title)


def test_the_command_uses_a_subset_as_a_run_does() -> None:
    arguments = ["noise", "digits", "--noise", "symmetric:0.4", "--per-class", "20"]
    done = CliRunner().invoke(app, arguments)
    assert "80 of 200 labels are noisy, 40.00 %" in done.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["digit", "--noise", "none"], "unknown dataset 'digit'; did you mean 'digits'"),
        (["digits", "--noise", "symetric:0.4"], "unknown noise 'symetric'; did you mean 'symmetric'"),
        (["digits", "--noise", "human:worse"], "no human labels 'worse' for digits"),
        (["digits", "--noise", "none", "--plot", "no/such/folder.svg"], "No such file or directory"),
        (["digits", "--noise", "none", "--plot", "noise.png"], "noise.png: expected a file name that ends"),
        (["digits", "--noise", "none", "--set", "data=cifar10"], "each setting once, got data"),
        (["nw-ucla", "--noise", "symmetric:0.4", "--data-dir", "nowhere"], "nw_ucla.npz: expected a"),
    ],
)
def test_invalid_arguments_of_the_command_raise(arguments: list[str], message: str) -> None:
    error = CliRunner().invoke(app, ["noise", *arguments]).exception
    assert isinstance(error, RemnantError)
    assert message in str(error)
