"""The audit page in a browser: marks by keyboard, filters, the download, and hostile names."""

import csv
import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from audit_runs import HOSTILE, hostile_run, hostile_table
from conftest import tiny_config
from own_files import table_of_images

from remnant.cli import main
from remnant.config import resolve
from remnant.config.recipe import to_config
from remnant.noise.from_file import read_labels
from remnant.report.audit.page import render
from remnant.report.audit.samples import read_audited

pytestmark = pytest.mark.browser

Run = Callable[..., Path]


class Opened:
    """A page, and whatever it printed, asked or requested."""

    def __init__(self, context: Any, path: Path) -> None:  # noqa: ANN401
        self.page, self.problems = context.new_page(), []
        self.page.on("console", lambda message: self.problems.append(message.text))
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.problems.append(dialog.message), dialog.dismiss()))
        self.page.on(
            "request",
            lambda request: (
                None if request.url[:5] in ("file:", "data:", "blob:") else self.problems.append(request.url)
            ),
        )
        self.page.goto(path.as_uri())

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def shown(self) -> int:
        return int(self.page.locator(".sample:visible").count())

    def current(self) -> int:
        return int(
            self.page.evaluate("[...document.querySelectorAll('.sample')].indexOf(document.activeElement)")
        )

    def progress(self) -> str:
        return str(self.page.inner_text("#progress"))

    def download(self, path: Path) -> list[dict[str, str]]:
        with self.page.expect_download() as waiting:
            self.page.get_by_role("button", name="Download CSV").click()
        assert waiting.value.suggested_filename == "decisions.csv"
        waiting.value.save_as(path)
        with path.open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))


def apply(monkeypatch: pytest.MonkeyPatch, *words: object) -> None:
    monkeypatch.setattr("sys.argv", ["remnant", "audit", "--apply", *map(str, words)])
    with pytest.raises(SystemExit) as end:
        main()
    assert not end.value.code


def test_500_samples_are_judged_by_keyboard_and_the_labels_are_corrected(
    browser: Any,  # noqa: ANN401
    run_in: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = run_in(tiny_config(per_class=60, epochs=2))
    run = read_audited(folder, None)
    (tmp_path / "audit.html").write_text(render(run), encoding="utf-8")
    opened = Opened(
        browser.new_context(offline=True, viewport={"width": 1280, "height": 900}), tmp_path / "audit.html"
    )
    page = opened.page
    assert opened.shown() == 500
    assert page.evaluate("[...document.images].filter(image => image.naturalWidth > 0).length") == 502
    assert opened.current() == 0

    assert page.get_by_role("button", name="No class").count() == 0  # the label file has all samples
    opened.press("d", "s", "r", "j", "k", "ArrowRight", "ArrowLeft")
    assert opened.current() == 2
    opened.press("r", "u", "s")  # undone, and decided again
    assert opened.current() == 3
    opened.press("l")
    other = (int(run.observed[run.doubts[3].position]) + 3) % 10
    page.locator("#label").select_option(str(other))
    opened.press("Enter", "w")
    opened.press("ArrowDown")
    assert page.locator(".sample").nth(4).bounding_box()["x"] == pytest.approx(
        page.locator(".sample").nth(opened.current()).bounding_box()["x"]
    )
    assert opened.progress() == "4 of 500 decided: 1 wrong, 1 right, 2 skipped"

    page.locator("#state").select_option("wrong")
    assert opened.shown() == 1
    page.locator("#state").select_option("undecided")
    assert opened.shown() == 496
    given = int(run.observed[run.doubts[10].position])
    page.locator("#class").select_option(str(given))
    of_class = [n for n, d in enumerate(run.doubts[:500]) if run.observed[d.position] == given and n > 3]
    assert opened.shown() == len(of_class)
    page.locator(".sample:visible").first.click()
    opened.press("r")  # it disappears, and the next one is selected
    assert (opened.shown(), opened.current()) == (len(of_class) - 1, of_class[1])

    page.reload()
    assert opened.progress() == "5 of 500 decided: 1 wrong, 2 right, 2 skipped"
    rows = opened.download(tmp_path / "decisions.csv")
    assert list(rows[0]) == ["id", "path", "given", "decision", "label"]
    assert [row["decision"] for row in rows] == ["skip", "right", "skip", "wrong", "right"]
    apply(monkeypatch, tmp_path / "decisions.csv", folder, "-o", tmp_path / "labels.csv")
    labels = read_labels(tmp_path / "labels.csv", "")[run.data.index]
    position = run.doubts[3].position
    assert {i: int(y) for i, y in enumerate(labels) if y != run.observed[i]} == {position: other}
    assert opened.problems == []


def test_hostile_names_are_inert_in_page_download_and_corrected_table(
    browser: Any,  # noqa: ANN401
    run_in: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("REMNANT_DATA", str(tmp_path / "cache"))
    table = hostile_table(tmp_path)
    settings = {
        "data": f"table:{table}",
        "tasks": 1,
        "net": "small:4",
        "epochs": 2,
        "batch": 8,
        "buffer_size": 8,
    }
    folder = run_in(resolve(settings))
    run = read_audited(folder, None)
    (tmp_path / "audit.html").write_text(render(run), encoding="utf-8")
    opened = Opened(browser.new_context(offline=True), tmp_path / "audit.html")
    assert opened.shown() == len(run.doubts)
    assert opened.page.evaluate("document.querySelectorAll('script').length") == 2
    assert opened.page.evaluate("document.querySelectorAll('[onclick], [onerror]').length") == 0
    cat = run.classes.index("cat")
    for doubt in run.doubts:
        if run.observed[doubt.position] == cat:
            opened.press("r")
        else:
            opened.page.locator("#label").select_option(str(cat))
            opened.press("Escape", "w")
    opened.download(tmp_path / "decisions.csv")
    text = (tmp_path / "decisions.csv").read_text()
    assert "'=1+1" in text
    assert ",=1+1" not in text
    assert ',"=1+1' not in text
    apply(monkeypatch, tmp_path / "decisions.csv", folder, "-o", tmp_path / "labels.csv")
    with (tmp_path / "labels.csv").open(newline="", encoding="utf-8") as file:
        found = list(csv.DictReader(file))
    assert {row["label"] for row in found if row["split"] == "train"} == {"cat"}
    assert {row["label"] for row in found if row["split"] == "test"} == set(HOSTILE)
    assert opened.problems == []


def test_a_sample_can_be_enlarged_and_left_out(
    browser: Any,  # noqa: ANN401
    run_in: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("REMNANT_DATA", str(tmp_path / "cache"))
    table = table_of_images(tmp_path, ["cat", "dog"] * 6)
    small = {"tasks": 1, "data.test_share": 0, "net": "small:4", "epochs": 2, "batch": 8, "buffer_size": 8}
    folder = run_in(to_config(f"table:{table}", small))
    run = read_audited(folder, None)
    (tmp_path / "audit.html").write_text(render(run), encoding="utf-8")
    opened = Opened(
        browser.new_context(offline=True, viewport={"width": 390, "height": 800}), tmp_path / "audit.html"
    )
    page, larger = opened.page, opened.page.locator("#zoom")
    assert not larger.is_visible()
    page.locator(".sample img").nth(2).click()
    assert (opened.current(), larger.is_visible()) == (2, True)
    assert larger.locator("img").bounding_box()["width"] > 300
    shown = larger.locator("img").get_attribute("src")
    opened.press("d")  # the next sample is shown, as large
    assert (opened.current(), larger.is_visible()) == (3, True)
    assert larger.locator("img").get_attribute("src") != shown
    opened.press("Escape")
    assert not larger.is_visible()
    opened.press("z")
    larger.click()
    assert not larger.is_visible()
    page.get_by_role("button", name="No class", exact=True).click()
    assert opened.progress() == "2 of 12 decided: 0 wrong, 0 right, 2 no class, 0 skipped"
    page.reload()
    page.locator("#state").select_option("drop")
    assert opened.shown() == 2
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    rows = opened.download(tmp_path / "decisions.csv")
    assert [(row["decision"], row["label"]) for row in rows] == [("drop", "")] * 2
    apply(monkeypatch, tmp_path / "decisions.csv", folder, "-o", tmp_path / "labels.csv")
    with (tmp_path / "labels.csv").open(newline="", encoding="utf-8") as file:
        left = {Path(row["path"]).name for row in csv.DictReader(file)}
    assert len(left) == 10
    assert not left & {Path(row["path"]).name for row in rows}
    assert opened.problems == []


def test_a_new_class_can_be_entered_and_is_in_the_corrected_labels(
    browser: Any,  # noqa: ANN401
    run_in: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("REMNANT_DATA", str(tmp_path / "cache"))
    table = table_of_images(tmp_path, ["cat", "dog"] * 6)
    small = {"tasks": 1, "data.test_share": 0, "net": "small:4", "epochs": 2, "batch": 8, "buffer_size": 8}
    folder = run_in(to_config(f"table:{table}", small))
    (tmp_path / "audit.html").write_text(render(read_audited(folder, None)), encoding="utf-8")
    opened = Opened(browser.new_context(offline=True), tmp_path / "audit.html")
    page, other = opened.page, opened.page.locator("#other")
    new = "<img src=x onerror=alert(9)>, =1"
    for text in (new, "=w r d"):  # letters that are keys of the page
        page.locator("#label").select_option("another class ...")
        page.keyboard.type(text)
        assert other.input_value() == text
        opened.press("Enter")
        assert not other.is_visible()
        opened.press("w")
    page.locator("#label").select_option("another class ...")
    opened.press("Enter")
    assert "Enter a class" in page.inner_text("#message")
    opened.press("Escape")
    assert (opened.current(), other.is_visible()) == (2, False)
    page.locator("#label").select_option(new)  # entered before
    opened.press("Escape", "w")
    page.reload()
    assert opened.progress().startswith("3 of 12 decided: 3 wrong")
    assert page.locator("#label option").all_inner_texts()[-3:] == [new, "=w r d", "another class ..."]
    rows = opened.download(tmp_path / "decisions.csv")
    assert [row["label"] for row in rows] == [new, "'=w r d", new]
    apply(monkeypatch, tmp_path / "decisions.csv", folder, "-o", tmp_path / "labels.csv")
    with (tmp_path / "labels.csv").open(newline="", encoding="utf-8") as file:
        labels = [row["label"] for row in csv.DictReader(file)]
    assert (labels.count(new), labels.count("=w r d")) == (2, 1)
    assert opened.problems == []


def test_suspects_can_be_told_from_other_samples_and_be_shown_alone(
    browser: Any,  # noqa: ANN401
    tmp_path: Path,
) -> None:
    run = hostile_run()  # 4 suspects of 8 samples
    first, *others = run.doubts
    same = first._replace(suggested=int(run.observed[first.position]))
    page_of_run = render(dataclasses.replace(run, doubts=(same, *others)))
    (tmp_path / "audit.html").write_text(page_of_run, encoding="utf-8")
    opened = Opened(browser.new_context(offline=True), tmp_path / "audit.html")
    page, divider = opened.page, opened.page.locator("#samples .divider")
    assert page.locator(".sample .suspect").count() == 4
    above = [page.locator(".sample").nth(i).bounding_box()["y"] for i in (3, 4)]
    assert above[0] < divider.bounding_box()["y"] < above[1]
    assert page.locator("#doubt").is_visible()  # suspect, but no other label is suggested
    opened.press("j")
    assert not page.locator("#doubt").is_visible()
    page.get_by_label("Suspects only").check()
    assert (opened.shown(), divider.is_visible()) == (4, False)
    opened.press("r")
    page.locator("#state").select_option("undecided")
    assert opened.shown() == 3
    page.get_by_label("Suspects only").uncheck()
    assert (opened.shown(), divider.is_visible()) == (7, True)
    assert opened.problems == []


def test_long_names_take_one_line_on_a_phone_and_keep_their_suffix(
    browser: Any,  # noqa: ANN401
    tmp_path: Path,
) -> None:
    run = hostile_run()
    names = tuple(f"class {i} with a name that is longer than a line" for i in range(4))
    files = tuple(f"{names[i // 2]}/IMG_{i}_{'long ' * 20}0459.png" for i in range(8))
    spec = dataclasses.replace(run.data.spec, classes=names)
    run = dataclasses.replace(run, data=dataclasses.replace(run.data, spec=spec, files=files))
    (tmp_path / "audit.html").write_text(render(run), encoding="utf-8")
    opened = Opened(
        browser.new_context(offline=True, viewport={"width": 400, "height": 800}), tmp_path / "audit.html"
    )
    page, first = opened.page, opened.page.locator(".sample").first
    assert page.locator("#panel").bounding_box()["height"] <= 140
    assert page.locator("#file .end").inner_text() == " 0459.png"
    right = page.locator("#file .end").bounding_box()
    assert right["x"] + right["width"] <= 400
    assert first.locator(".file").bounding_box()["height"] < 20
    assert first.locator(".file").get_attribute("title") == files[0]
    height = first.bounding_box()["height"]
    opened.press("r")  # the verdict replaces the score, so that nothing moves
    assert first.locator(".state").inner_text() == "right"
    assert first.bounding_box()["height"] == height
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    boxes = [page.locator(f"#{id}").bounding_box() for id in ("state", "download", "progress")]
    assert boxes[0]["y"] + boxes[0]["height"] <= boxes[1]["y"]
    assert boxes[1]["y"] + boxes[1]["height"] <= boxes[2]["y"]
    assert opened.problems == []


def test_without_storage_decisions_last_until_the_page_is_closed(
    browser: Any,  # noqa: ANN401
    run_in: Run,
    tmp_path: Path,
) -> None:
    run = read_audited(run_in(tiny_config(epochs=2)), None)
    (tmp_path / "audit.html").write_text(render(run, most=20), encoding="utf-8")
    context = browser.new_context(viewport={"width": 390, "height": 800}, color_scheme="dark")
    context.add_init_script(
        "Object.defineProperty(window, 'localStorage', {get() { throw new DOMException('denied'); }});"
    )
    opened = Opened(context, tmp_path / "audit.html")
    assert opened.page.is_visible("#memory")
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= 390
    opened.page.get_by_role("button", name="Right").click()
    opened.page.get_by_role("button", name="Skip").click()
    opened.page.get_by_role("button", name="Undo").click()
    assert opened.progress() == "1 of 20 decided: 0 wrong, 1 right, 0 skipped"
    assert len(opened.download(tmp_path / "d.csv")) == 1
    assert opened.problems == []
