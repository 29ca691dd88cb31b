import re
from pathlib import Path

import pytest
from cli_helpers import TINY, Invoke

from remnant.experiment.loggers import console


def test_a_dry_run_prints_a_plan_and_writes_nothing(invoke: Invoke, tmp_path: Path) -> None:
    done = invoke("run", "--dry-run", *TINY)
    assert done.code == 0
    for words in (
        "# time      about",
        "# memory",
        "# steps     ",
        "41.7 % of the labels are noisy",
        "(to do)",
    ):
        assert words in done.out
    assert re.search(r"^# time      about \d+ s to \d+ s on 1 thread", done.out, re.M)
    assert "measuring a few steps of each kind: forget, learn" in done.err
    assert "# data      120 training samples in 5 task(s): " in done.out
    assert list(tmp_path.iterdir()) == []
    folder = invoke("run", "-q", *TINY).out.strip()
    assert f"# folder    {folder} (finished)" in invoke("run", "--dry-run", *TINY).out


def test_the_plan_says_how_many_images_have_no_features_and_computes_none(
    invoke: Invoke, tmp_path: Path
) -> None:
    words = [word.replace("small:4", "features:efficientnet-lite0") for word in TINY]
    words += ["net.image_size=8", "--data-dir", str(tmp_path)]
    done = invoke("run", "--dry-run", *words)
    assert done.code == 0
    assert "# features  479 images have to pass through the backbone first, which takes about " in done.out
    assert "# time      about" in done.out
    assert "# folder" not in done.out
    assert list(tmp_path.iterdir()) == []


def test_the_plan_of_a_benchmark_has_the_figures_of_the_paper(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = invoke("run", "--dry-run", "digits", *TINY)
    assert "# paper" not in done.out
    monkeypatch.setattr("remnant.report.paper.papers", lambda: {"digits": {
        "noise": ["symmetric:0.4"], "faa": {"aer-abs": [12.34]}}})  # fmt: skip
    shown = invoke("run", "--dry-run", "digits", *TINY).out
    assert "# paper     12.3 % over 5 seeds; " in shown
    assert "epochs = 20" in shown


def test_a_consolidation_is_part_of_the_log_the_plan_and_the_summary(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "PAUSE", 0.0)  # a line for each epoch
    words = ["consolidation=mixmatch", "consolidation.epochs=3"]
    done = invoke("run", *TINY, *words)
    assert done.code == 0
    assert "trusted labels" in done.out
    assert "task 5/5  consolidate   3/3" in done.out
    assert ", consolidate 15\n" in invoke("run", "--dry-run", *TINY, *words).out


@pytest.fixture
def offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty cache, and no way to fill it."""

    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("a dry run downloads nothing")

    monkeypatch.setattr("pooch.retrieve", refuse)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("REMNANT_DATA", raising=False)


@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize(
    ("words", "messages"),
    [
        (
            ["paper/cifar10"],
            ["expected data_batch_1, ", "a run downloads https://", "remnant data get cifar10\n"],
        ),
        (["cifar10", "--data-dir", "x"], ["to download https://", "remnant data get cifar10 --data-dir x\n"]),
        (["cifar10-small"], ["# steps     about forget 1,600, learn 1,600\n"]),
        (["paper/cifar10"], ["# steps     forget, learn in 50 epochs per task; their number depends on"]),
        (["paper/cifar100", "--method", "joint"], ["# tasks     1 with 100 classes\n"]),
        (["nw-ucla", "--data-dir", "x"], ["x/nw_ucla.npz: expected a file, found nothing; put a file"]),
        (["paper/ntu60"], ["expected .skeleton files, found none", "# paper     "]),
        (["paper/food101n"], ["expected the folders images and meta, found none", "# tasks     "]),
    ],
)
def test_a_dry_run_without_the_data_says_what_is_missing_and_plans_what_is_known(
    invoke: Invoke, tmp_path: Path, words: list[str], messages: list[str]
) -> None:
    done = invoke("run", "--dry-run", *words)
    assert done.code == 0
    for message in ["epochs = ", "# time      cannot be measured without the data", *messages]:
        assert message in done.out
    assert list(tmp_path.iterdir()) == []
