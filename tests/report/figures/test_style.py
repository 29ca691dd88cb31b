import re
from pathlib import Path

import remnant.report.html.page as page
from remnant.report.figures.style import CSS, SERIES, line_styles


def test_no_two_of_twenty_lines_look_the_same() -> None:
    styles = line_styles([f"method-{number}" for number in range(20)])
    assert len({(style.colour, style.dash, style.marker) for style in styles.values()}) == 20


def test_neighbouring_lines_differ_in_colour_dash_and_marker() -> None:
    first, second, *_ = line_styles(["a", "b", "c"]).values()
    assert first.colour != second.colour
    assert first.dash != second.dash
    assert first.marker != second.marker


def test_every_colour_is_a_variable_that_each_theme_of_the_page_defines() -> None:
    css = Path(page.TEMPLATES, "report.css").read_text()
    for variable in [re.sub(r"var\((.*)\)", r"\1", name) for name in CSS.values()]:
        assert css.count(f"{variable}: #") == 3, variable  # light, dark by the system, dark by choice
    assert all(colour in CSS for colour in SERIES)
