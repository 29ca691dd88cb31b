"""The page in a browser: nothing fails, every figure is drawn, links and the theme switch work."""

import io
from typing import Any

import pytest
from report_runs import measured, on_disk

from remnant.report.html.page import write_report

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("report")
    runs = [measured(method, seed) for method in ("finetune", "er", "aer-abs") for seed in (0, 1)]
    write_report(folder / "report.html", on_disk(folder / "runs", runs), {})
    return (folder / "report.html").as_uri()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_the_page_opens_without_errors_and_every_figure_is_drawn(
    browser: Any,  # noqa: ANN401
    address: str,
    width: int,
    scheme: str,
) -> None:
    page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True)
    problems: list[str] = []
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on(
        "request",
        lambda request: None if request.url[:5] in ("file:", "data:") else problems.append(request.url),
    )
    page.goto(address)
    sizes = page.eval_on_selector_all(
        "figure svg[role=img]", "all => all.map(e => [e.getBoundingClientRect().width, e.getBBox().height])"
    )
    assert len(sizes) == 14
    assert all(wide > 200 and high > 20 for wide, high in sizes)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("[...document.images].every(image => image.naturalWidth > 0)")
    assert problems == []
    page.close()


def test_links_lead_to_figures(browser: Any, address: str) -> None:  # noqa: ANN401
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(address)
    page.get_by_role("link", name="Time and memory").click()
    assert page.url.endswith("-cost")
    assert page.locator("figure[id$=-cost]").bounding_box()["y"] < 900
    page.close()


def test_the_theme_switch_changes_colours_of_text_and_figures_and_is_kept(browser: Any, address: str) -> None:  # noqa: ANN401
    context = browser.new_context(color_scheme="light")
    page = context.new_page()
    page.goto(address)
    colours = """() => [document.body, document.querySelector("figure svg[role=img] text")]
        .map(element => getComputedStyle(element))
        .map(style => style.color + style.backgroundColor + style.fill)"""
    before = page.evaluate(colours)
    page.get_by_role("button", name="Dark theme").click()
    after = page.evaluate(colours)
    assert all(a != b for a, b in zip(before, after, strict=True))
    page.reload()
    assert page.evaluate(colours) == after
    page.get_by_role("button", name="Light theme").click()
    assert page.evaluate(colours) == before
    context.close()


def edge_colours(page: Any, table: Any) -> tuple[Any, Any]:  # noqa: ANN401
    """Return the colours at the right edge of a table and of the page, below the last line of text."""
    from PIL import Image

    box = table.bounding_box()
    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    return picture.getpixel((int(box["x"] + box["width"] - 2), int(box["y"] + 4))), picture.getpixel((2, 2))


def test_a_table_that_goes_on_is_shaded_at_its_right_edge(browser: Any, address: str) -> None:  # noqa: ANN401
    page = browser.new_page(viewport={"width": 400, "height": 900})
    page.goto(address)
    table = page.locator(".scroll").first
    table.scroll_into_view_if_needed()
    wide, visible = page.evaluate("(e => [e.scrollWidth, e.clientWidth])(document.querySelector('.scroll'))")
    assert wide > visible
    assert table.locator("th").first.bounding_box()["width"] < visible / 2  # room for numbers
    edge, background = edge_colours(page, table)
    assert edge != background
    page.evaluate("document.querySelector('.scroll').scrollLeft = 9999")
    edge, background = edge_colours(page, table)
    assert edge == background
    page.close()
