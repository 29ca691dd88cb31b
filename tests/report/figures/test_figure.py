import itertools
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from report_runs import measured, variants

from remnant.errors import RemnantError
from remnant.report.figures.band import band
from remnant.report.figures.comparison import cost
from remnant.report.figures.figure import (
    LETTER,
    WIDTH,
    Figure,
    Panel,
    _draw,
    _place,
    draw_band,
    fitted,
    save,
    svg,
)
from remnant.report.figures.style import MATPLOTLIB, line_styles

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


LONG = "aer-abs-noace+consolidation schedule=always replacement=loss-aware-victim insertion.alpha=0.5 lr=0.25"


def boxes(panel: Panel) -> tuple[list[Any], Any]:
    """Return the extents of the title and of the labels of a drawn panel, and of the whole panel."""
    import matplotlib
    from matplotlib.figure import Figure as Canvas

    with matplotlib.rc_context(MATPLOTLIB):
        canvas = Canvas(figsize=(WIDTH, panel.whole_height))
        axes = canvas.add_axes(_place(panel))
        _draw(panel, axes)
        canvas.draw_without_rendering()
        texts = [axes.title, axes._left_title, axes.xaxis.label, *axes.get_yticklabels()]
        return [text.get_window_extent() for text in texts if text.get_text()], canvas.bbox


@pytest.mark.parametrize("count", [1, 7])
def test_long_names_stay_on_the_panel_and_do_not_overlap(count: int) -> None:
    names = [{"insertion": {"name": "lowest-loss", "alpha": n / 10}, "lr": 0.1} for n in range(count + 1)]
    runs = variants(*(measured("aer-abs-noace+consolidation-custom", 0, own) for own in names))
    figure = cost(runs)
    assert figure is not None
    for panel in (*figure.panels, Panel(lambda axes: None, LONG, "epoch", "loss")):
        found, whole = boxes(panel)
        assert all(box.x0 >= 0 and box.x1 <= whole.x1 and box.y1 <= whole.y1 for box in found)
        overlaps = [(a, b) for a, b in itertools.combinations(found, 2) if a.overlaps(b)]
        assert overlaps == []


def test_a_title_of_several_lines_leaves_the_axes_as_large_as_they_are() -> None:
    short, long = Panel(lambda axes: None, "er"), Panel(lambda axes: None, LONG)
    assert long.heading.count("\n") == 2
    assert long.whole_height > short.whole_height
    heights = [_place(panel)[3] * panel.whole_height for panel in (short, long)]
    assert heights[0] == pytest.approx(heights[1])


def test_a_text_that_is_cut_ends_with_dots() -> None:
    assert fitted("er", 1.0, lines=1) == "er"
    assert fitted(LONG, 2.0, lines=2).endswith(" ...")
    assert max(map(len, fitted(LONG, 2.0, lines=9).split("\n"))) <= round(2.0 / LETTER)
