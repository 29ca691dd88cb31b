"""The documentation site: its pages, and their generated parts."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest
from pages import blocks, page_names

import remnant
from remnant.config.registries import METHOD_NAMES

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "docs" / "site"))
MARKDOWN = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("docs/**/*.md"))


@pytest.mark.parametrize("page", MARKDOWN)
def test_the_generated_parts_of_a_page_are_up_to_date(page: str) -> None:
    from blocks import filled

    text = (ROOT / page).read_text()
    assert filled(text) == text, "run `make tables`"


def words_of(kind: str) -> list[str]:
    texts = [(ROOT / page).read_text() for page in MARKDOWN]
    blocks = [found for text in texts for found in re.findall(rf"<!-- {kind}: (.*?) -->", text)]
    return [word for block in blocks for word in block.split() if not word.endswith(".json")]


def test_every_method_has_settings_on_one_page_and_results() -> None:
    assert sorted(words_of("settings")) == sorted(METHOD_NAMES.builtin)
    assert set(words_of("measured")) >= set(METHOD_NAMES.builtin)


@pytest.mark.parametrize(
    "page", sorted({*(ROOT / "docs").glob("methods/[a-z]*.md"), ROOT / "docs" / "trace.md"})
)
def test_a_page_of_a_method_has_maths_settings_results_and_deviations(page: Path) -> None:
    text = page.read_text()
    others = [block for block in blocks(str(page.relative_to(ROOT))) if not block.has_commands]
    assert others, "no formula"
    for title in ("Settings", "Results", "Deviations"):
        assert re.search(rf"^## {title}$", text, re.M), title
    assert "DEVIATIONS.md" in text
    assert "<!-- measured: " in text


def test_every_public_name_is_in_the_reference() -> None:
    text = (ROOT / "docs" / "api.md").read_text()
    names = [name for found in re.findall(r"<!-- api: (.*?) -->", text) for name in found.split()]
    assert sorted(names) == sorted(dir(remnant))


def test_every_page_is_in_the_navigation() -> None:
    others = [
        "README.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "bench/README.md",
        "examples/README.md",
    ]
    assert sorted(page_names()) == sorted([*MARKDOWN, *others])


class Links(HTMLParser):
    """Collects ids and links of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.ids.add(value)
            if name in ("href", "src") and value:
                self.links.append(value)


def test_the_site_is_built_without_warnings_and_broken_links(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "docs" / "site" / "build.py"), "--target", str(tmp_path / "build")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Warning" not in done.stdout + done.stderr
    site = tmp_path / "build" / "site"
    expected = [site / page.replace("README.md", "index.md").replace(".md", ".html") for page in page_names()]
    assert [path for path in expected if not path.exists()] == []
    pages = {path: Links(path.read_text()) for path in site.rglob("*.html") if path.name != "404.html"}
    assert {name.lower() for name in dir(remnant)} <= {
        i.lower() for i in pages[site / "docs" / "api.html"].ids
    }
    names = re.findall(r'md-ellipsis">\s*([^<]*?)\s*<', (site / "docs" / "faq.html").read_text())
    titles = re.findall(r'"([^"]+)" = ', (ROOT / "docs" / "site" / "zensical.toml").read_text())
    assert set(titles) <= set(names), "titles that the navigation does not show"
    for path, page in pages.items():
        for link in page.links:
            if not re.match(r"[a-z]+:|#|$", link):
                target = (path.parent / unquote(link.partition("#")[0])).resolve()
                assert target.exists(), f"{path.name}: {link}"
