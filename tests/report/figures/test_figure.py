import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from remnant.errors import RemnantError
from remnant.report.figures.band import band
from remnant.report.figures.figure import Figure, Panel, draw_band, save, svg
from remnant.report.figures.style import line_styles

if TYPE_CHECKING:
    from matplotlib.axes import Axes

pytest.importorskip("matplotlib")

STYLES = line_styles(["er", "aer"])


def draw(axes: "Axes") -> None:
    draw_band(axes, STYLES["er"], band([{1: 1.0, 2: 2.0}, {1: 2.0, 2: 4.0}]))
    axes.text(1, 1, "50 $ & <script>alert(1)</script>")
    axes.text(1, 1, "alpha=0.2525 of #0072b2")


PANEL = Panel(draw, 'a "title" & more', "epoch", "loss")


def test_an_svg_has_no_colours_fonts_or_styles_of_its_own() -> None:
    text = svg(PANEL, "a")
    assert "var(--series-0)" in text
    tags = "".join(re.findall(r"<[^>]*>", text))
    assert not re.search(r"#[0-9a-f]{6}|DejaVu|<style|<metadata|\?xml", tags)
    assert not re.search(r"<svg[^>]* (width|height)=", text)


def test_names_are_escaped() -> None:
    text = svg(PANEL, "a")
    assert "<script" not in text
    assert "50 $ &amp; &lt;script&gt;" in text
    assert 'aria-label="a &quot;title&quot; &amp; more loss by epoch"' in text


def test_numbers_and_names_in_texts_are_not_changed() -> None:
    assert ">alpha=0.2525 of #0072b2<" in svg(PANEL, "a")


def test_ids_of_two_figures_differ_and_every_reference_has_a_target() -> None:
    first, second = svg(PANEL, "a"), svg(PANEL, "b")
    ids = [re.findall(r' id="([^"]+)"', text) for text in (first, second)]
    assert ids[0]
    assert not set(ids[0]) & set(ids[1])
    assert set(re.findall(r'(?:url\(|href=")#([^)"]+)', first)) == set(ids[0])


def test_the_same_panel_is_drawn_the_same_each_time() -> None:
    assert svg(PANEL, "a") == svg(PANEL, "a")


def test_a_figure_is_saved_as_pdf_and_png_with_all_panels(tmp_path: Path) -> None:
    figure = Figure("name", "Title", "Caption", (PANEL,) * 2, tuple(STYLES.values()))
    paths = save(figure, tmp_path / "new", "file")
    assert [path.name for path in paths] == ["file.pdf", "file.png"]
    assert paths[0].read_bytes().startswith(b"%PDF")
    assert paths[1].read_bytes().startswith(b"\x89PNG")


def test_a_folder_that_cannot_be_written_is_an_error_without_a_traceback(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(RemnantError, match="--figures"):
        save(Figure("name", "Title", "Caption", (PANEL,)), tmp_path / "file", "name")
