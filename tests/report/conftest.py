"""A browser, for the tests of pages."""

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api")
    installed = os.environ.get("CHROMIUM") or shutil.which("chromium")  # Playwright's own if there is none
    with playwright.sync_playwright() as play:
        opened = play.chromium.launch(executable_path=installed, args=list(FLAGS))
        yield opened
        opened.close()
