import re
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
from test_noise import dataset_like, rng
from typer.testing import CliRunner

from remnant.cli_data import app
from remnant.config import resolve
from remnant.errors import RemnantError
from remnant.experiment import make_the_data
from remnant.noise import Symmetric
from remnant.transition import headline, picture, rates, table, transitions

COUNTS = np.array([[6, 3, 1], [0, 10, 0], [2, 0, 2]])
NAMES = ("cat", "dog", "ship")
SVG = "{http://www.w3.org/2000/svg}"


def test_rows_are_counted_by_true_and_observed_class() -> None:
    y, observed = np.array([0, 0, 0, 1, 2, 2]), np.array([0, 1, 1, 1, 2, 0])
    assert transitions(y, observed, 3).tolist() == [[1, 2, 0], [0, 1, 0], [1, 0, 1]]


def test_rates_of_each_class_add_up_to_one() -> None:
    assert rates(COUNTS).tolist() == [[0.6, 0.3, 0.1], [0, 1, 0], [0.5, 0, 0.5]]


def test_the_headline_counts_wrong_labels() -> None:
    assert headline(COUNTS) == "6 of 24 labels are wrong, 25.00 %"


def test_a_matrix_of_few_classes_is_a_table() -> None:
    assert table(COUNTS, NAMES).splitlines() == [
        "                               observed as, in % of the class",
        "  true class    rows    wrong     0    1    2",
        "  0 cat           10   40.0 %  60.0 30.0 10.0",
        "  1 dog           10    0.0 %     .  100    .",
        "  2 ship           4   50.0 %  50.0    . 50.0",
        "  rows observed                   8   13    3",
    ]


def test_classes_called_by_their_number_are_called_once() -> None:
    assert table(COUNTS, ("0", "1", "2")).splitlines()[2].split()[:2] == ["0", "10"]


def test_of_many_classes_the_commonest_mistakes_are_listed() -> None:
    data = dataset_like("cifar100", rows=20)
    observed = data.y.copy()
    observed[:6] = [1, 1, 1, 2, 2, 3]
    text = table(transitions(data.y, observed, 100), data.spec.classes).splitlines()
    assert len(text) == 102
    assert re.fullmatch(
        r"  0 apple +20 +30\.0 % +14  aquarium_fish 15\.0, baby 10\.0, bear 5\.0", text[2]
    )
    assert re.fullmatch(r"  1 aquarium_fish +20 +0\.0 % +23", text[3])
    assert not any(line.startswith("  rows observed") for line in text)


@pytest.mark.parametrize("name", ["cifar10", "cifar100-coarse"])
def test_lines_of_a_table_are_of_one_width(name: str) -> None:
    data = dataset_like(name, rows=5_000 if name == "cifar10" else 20)
    observed = Symmetric(0.4)(data, rng())
    lines = table(transitions(data.y, observed, len(data.spec.classes)), data.spec.classes).splitlines()
    if name == "cifar10":
        assert {len(line) for line in lines[1:]} == {80}
    assert {line.index("%") for line in lines[2:12]} == {lines[2].index("%")}


def cells(drawing: str, colour: str) -> list[float]:
    found = ET.fromstring(drawing).iter(f"{SVG}rect")
    return [float(r.attrib["fill-opacity"]) for r in found if r.attrib["fill"] == colour]


def test_a_picture_has_a_cell_for_each_rate_and_darker_ones_for_more() -> None:
    drawing = picture(COUNTS, NAMES, "noise")
    assert cells(drawing, "#1d4ed8") == [0.6, 1.0, 0.5]
    assert cells(drawing, "#c2410c") == [0.6, 0.2, 1.0]  # 0.3, 0.1 and 0.5, of which 0.5 is darkest
    words = [text.text for text in ET.fromstring(drawing).iter(f"{SVG}text")]
    assert words[0] == "noise"
    assert [words.count(name) for name in NAMES] == [2, 2, 2]
    for number in ("60.0", "30.0", "10.0", "100", "40.0 %", "0.0 %", "50.0 %"):
        assert number in words


def test_a_picture_of_no_noise_is_blue() -> None:
    drawing = picture(np.diag([5, 5, 5]), NAMES, "clean")
    assert cells(drawing, "#1d4ed8") == [1, 1, 1]
    assert cells(drawing, "#c2410c") == []


def test_names_and_titles_are_escaped() -> None:
    drawing = picture(COUNTS, ("<a>", "b&c", '"'), "file:<x>&y")
    words = [text.text for text in ET.fromstring(drawing).iter(f"{SVG}text")]
    assert words[0] == "file:<x>&y"
    assert {"<a>", "b&c", '"'} <= set(words)


@pytest.mark.parametrize("name", ["cifar10", "cifar100", "cifar100-coarse"])
def test_everything_drawn_is_inside_the_picture(name: str) -> None:
    data = dataset_like(name)
    size = len(data.spec.classes)
    drawing = ET.fromstring(picture(np.ones((size, size), dtype=int), data.spec.classes, "t" * 90))
    width, height = (float(n) for n in drawing.attrib["viewBox"].split()[2:])
    assert width >= 90 * 7
    for shape in drawing.iter(f"{SVG}rect"):
        x, y = float(shape.attrib.get("x", 0)), float(shape.attrib.get("y", 0))
        assert x + float(shape.attrib["width"]) <= width
        assert y + float(shape.attrib["height"]) <= height
    # Title, legend of two lines, three words for each class; numbers where they fit into the cells.
    numbers = size**2 if size <= 30 else 0
    assert len(list(drawing.iter(f"{SVG}text"))) == 3 + 3 * size + numbers


def test_the_command_shows_what_a_run_would_see(tmp_path: Path) -> None:
    plot = tmp_path / "noise.svg"
    words = ["noise", "digits", "--noise", "instance:0.3", "--seed", "2", "--set", "noise.shared=true"]
    done = CliRunner().invoke(app, [*words, "--plot", str(plot)])
    assert done.exit_code == 0, done.output
    noise = {"name": "instance", "rate": 0.3, "shared": True}
    data, observed = make_the_data(resolve({"noise": noise, "seed": 2}), None)
    counts = transitions(data.y, observed, 10)
    title = f"digits, noise instance:0.3,shared=True, seed 2: {headline(counts)}"
    assert done.output == f"{title}\n\n{table(counts, data.spec.classes)}\n\n{plot}\n"
    assert plot.read_text() == picture(counts, data.spec.classes, title)


def test_the_command_takes_a_subset_as_a_run_does() -> None:
    words = ["noise", "digits", "--noise", "symmetric:0.4", "--per-class", "20"]
    done = CliRunner().invoke(app, words)
    assert "80 of 200 labels are wrong, 40.00 %" in done.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["digit", "--noise", "none"], "unknown data set 'digit'; did you mean 'digits'"),
        (["digits", "--noise", "symetric:0.4"], "unknown noise 'symetric'; did you mean 'symmetric'"),
        (["digits", "--noise", "human:worse"], "no human labels 'worse' of digits"),
        (["digits", "--noise", "none", "--plot", "no/such/folder.svg"], "No such file or directory"),
        (["digits", "--noise", "none", "--plot", "noise.png"], "noise.png: expected a file that ends"),
        (["digits", "--noise", "none", "--set", "data=cifar10"], "each setting once, got data"),
        (["nw-ucla", "--noise", "symmetric:0.4", "--data-dir", "nowhere"], "nw_ucla.npz: expected a"),
    ],
)
def test_the_command_says_what_is_wrong(words: list[str], message: str) -> None:
    error = CliRunner().invoke(app, ["noise", *words]).exception
    assert isinstance(error, RemnantError)
    assert message in str(error)
