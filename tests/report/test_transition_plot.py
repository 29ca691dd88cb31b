import xml.etree.ElementTree as ET

import numpy as np
import pytest
from noise_helpers import dataset_like

from remnant.report.transition_plot import draw_transitions

COUNTS = np.array([[6, 3, 1], [0, 10, 0], [2, 0, 2]])
NAMES = ("cat", "dog", "ship")
SVG = "{http://www.w3.org/2000/svg}"


def opacities(svg: str, colour: str) -> list[float]:
    found = ET.fromstring(svg).iter(f"{SVG}rect")
    return [float(r.attrib["fill-opacity"]) for r in found if r.attrib["fill"] == colour]


def test_every_rate_has_a_cell_that_is_darker_for_higher_rates() -> None:
    svg = draw_transitions(COUNTS, NAMES, "noise")
    assert opacities(svg, "#1d4ed8") == [0.6, 1.0, 0.5]
    assert opacities(svg, "#c2410c") == [0.6, 0.2, 1.0]  # 0.3, 0.1 and 0.5, of which 0.5 is darkest
    words = [text.text for text in ET.fromstring(svg).iter(f"{SVG}text")]
    assert words[0] == "noise"
    assert [words.count(name) for name in NAMES] == [2, 2, 2]
    for number in ("60.0", "30.0", "10.0", "100", "40.0 %", "0.0 %", "50.0 %"):
        assert number in words


def test_a_plot_without_noise_is_blue() -> None:
    svg = draw_transitions(np.diag([5, 5, 5]), NAMES, "clean")
    assert opacities(svg, "#1d4ed8") == [1, 1, 1]
    assert opacities(svg, "#c2410c") == []


def test_class_names_and_titles_are_escaped() -> None:
    svg = draw_transitions(COUNTS, ("<a>", "b&c", '"'), "file:<x>&y")
    words = [text.text for text in ET.fromstring(svg).iter(f"{SVG}text")]
    assert words[0] == "file:<x>&y"
    assert {"<a>", "b&c", '"'} <= set(words)


@pytest.mark.parametrize("name", ["cifar10", "cifar100", "cifar100-coarse"])
def test_all_elements_are_inside_the_plot(name: str) -> None:
    data = dataset_like(name)
    size = len(data.spec.classes)
    drawing = ET.fromstring(draw_transitions(np.ones((size, size), dtype=int), data.spec.classes, "t" * 90))
    width, height = (float(n) for n in drawing.attrib["viewBox"].split()[2:])
    assert width >= 90 * 7
    for shape in drawing.iter(f"{SVG}rect"):
        x, y = float(shape.attrib.get("x", 0)), float(shape.attrib.get("y", 0))
        assert x + float(shape.attrib["width"]) <= width
        assert y + float(shape.attrib["height"]) <= height
    # A title, two lines of legend, three texts per class, and numbers where they fit into the cells.
    numbers = size**2 if size <= 30 else 0
    assert len(list(drawing.iter(f"{SVG}text"))) == 3 + 3 * size + numbers
