import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from report_runs import measured, on_disk

from remnant.errors import RemnantError
from remnant.report.html.page import render, sections, write_report, write_run_report
from remnant.report.runs import FinishedRun

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

UNKNOWN = {
    "separation": [],
    "memorisation": [],
    "buffer": {"size": 4, "purity": None, "purity_per_class_scaled": None},
    "noise_rate": None,
}


def page_of(runs: Sequence[FinishedRun], left_out: Mapping[Path, str] | None = None) -> str:
    return render(sections(runs), runs, left_out or {})


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    runs = [measured(method, seed) for method in ("finetune", "er", "aer-abs") for seed in (0, 1)]
    return page_of(on_disk(tmp_path_factory.mktemp("runs"), runs), {Path("runs/other"): "not finished"})


def test_a_page_refers_to_nothing_outside_itself(page: str) -> None:
    assert not re.search(r"""(?:src|href|action)\s*=\s*["'](?!#|data:)""", page)
    assert not re.search(r"url\((?!#)|@import", page)
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]+)"', page)
    assert policy.startswith("default-src 'none'")
    assert "http" not in policy


def test_every_link_has_a_target_and_every_id_occurs_once(page: str) -> None:
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(ids)


def test_the_page_has_all_figures_that_the_runs_have_values_for(page: str) -> None:
    names = re.findall(r'<figure id="digits-symmetric-0-4-([^"]+)"', page)
    expected = ["accuracy", "forgetting", "buffer-purity", "buffer-losses", "stream-losses", "buffer-classes"]
    assert names == [*expected, "accuracy-matrix", "cost"]
    assert page.count("Mean and standard error over seeds 0-1.") == len(names)


def test_runs_that_are_left_out_are_named(page: str) -> None:
    assert "<code>runs/other</code>: not finished" in page


def test_noisy_samples_of_the_buffer_are_marked(page: str) -> None:
    assert re.search(r'<li class="noisy"><img src="data:image/png[^>]+><del>one</del> three</li>', page)


def test_without_true_labels_what_needs_them_is_left_out(tmp_path: Path) -> None:
    text = page_of(on_disk(tmp_path, [measured("er", **UNKNOWN), measured("aer-abs", **UNKNOWN)]))
    names = re.findall(r'<figure id="digits-symmetric-0-4-([^"]+)"', text)
    assert not {"buffer-losses", "stream-losses", "buffer-classes"} & set(names)
    assert "purity</th>" not in text.partition('id="runs"')[0]


def test_the_title_names_up_to_four_datasets(tmp_path: Path) -> None:
    runs = [measured("er", 0, {"data": {"name": "folder", "path": f"/{name}"}}) for name in "abcde"]
    found = on_disk(tmp_path, runs)
    assert "<h1>er on folder:a, folder:b, folder:c and folder:d</h1>" in page_of(found[:4])
    assert "<h1>er on 5 datasets</h1>" in page_of(found)


def test_a_run_with_one_task_has_figures(tmp_path: Path) -> None:
    names = ["zero", "one", "two", "three"]
    once = {"accuracy": [[70.0]], "accuracy_per_class": dict.fromkeys(names, 70.0), "classes": [names]}
    text = page_of(on_disk(tmp_path, [measured("aer-abs", **UNKNOWN, **once)]))
    assert "class-accuracy" in re.findall(r'<figure id="digits-symmetric-0-4-([^"]+)"', text)


def test_names_of_classes_and_methods_are_escaped(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>"
    run = measured("er", classes=[[evil, "one"], ["two", "three"]], noise=evil)
    text = page_of(on_disk(tmp_path, [run]))
    assert text.count("<script>") == 1
    assert "&lt;script&gt;alert(1)" in text


def test_folders_whose_names_have_no_latin_letters_have_sections_of_their_own(tmp_path: Path) -> None:
    runs = [measured("er", 0, {"data": {"name": "folder", "path": f"/{name}"}}) for name in ("花", "鳥")]
    assert [(s.name, s.title) for s in sections(on_disk(tmp_path, runs))] == [
        ("folder-symmetric-0-4", "folder:花, symmetric:0.4"),
        ("folder-symmetric-0-4-2", "folder:鳥, symmetric:0.4"),
    ]


def test_the_same_runs_give_the_same_page(tmp_path: Path) -> None:
    runs = on_disk(tmp_path, [measured("aer-abs")])
    assert page_of(runs) == page_of(runs)


@pytest.mark.slow
def test_a_page_of_a_hundred_runs_is_smaller_than_8_mb(tmp_path: Path) -> None:
    methods = ("finetune", "er", "er-ace", "aer", "aer-abs")
    runs = [
        measured(method, seed, noise=f"symmetric:0.{noise}")
        for noise in range(1, 6) for method in methods for seed in range(4)
    ]  # fmt: skip
    assert len(runs) == 100
    assert len(page_of(on_disk(tmp_path, runs))) < 8e6


def test_a_run_gets_its_own_report_once(tmp_path: Path) -> None:
    (run,) = on_disk(tmp_path, [measured("aer-abs")])
    path = run.folder / "report.html"
    assert write_run_report(run.folder) == ""
    assert "aer-abs on digits" in path.read_text()
    path.write_text("mine")
    assert write_run_report(run.folder) == ""
    assert path.read_text() == "mine"


def test_a_report_that_cannot_be_drawn_is_a_note(tmp_path: Path) -> None:
    (run,) = on_disk(tmp_path, [measured("aer-abs")])
    (run.folder / "metrics.jsonl").unlink()
    assert "could not be written" in write_run_report(run.folder)
    assert not (run.folder / "report.html").exists()


def test_without_its_packages_a_run_has_no_report_and_a_report_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (run,) = on_disk(tmp_path, [measured("aer-abs")])
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert write_run_report(run.folder) == ""
    assert not (run.folder / "report.html").exists()
    with pytest.raises(RemnantError, match=r"pip install 'remnant\[report\]'"):
        write_report(tmp_path / "report.html", [run], {})
