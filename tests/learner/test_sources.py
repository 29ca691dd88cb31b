"""Datasets and folders as tasks."""

from pathlib import Path

from learner_helpers import small_learner
from PIL import Image

from remnant.learner.sources import learn_from


def test_a_folder_is_learned_with_or_without_its_prefix(tmp_path: Path) -> None:
    for name in ("4", "9"):
        (tmp_path / name).mkdir()
        for i in range(2):
            Image.new("RGB", (9, 9), (i * 50, 0, 0)).save(tmp_path / name / f"{i}.png")
    learner = small_learner(labels=("4", "7"))
    assert learn_from(learner, f"folder:{tmp_path}", None) == 4
    assert learn_from(learner, str(tmp_path), None) == 4
    assert learner.classes_.tolist() == ["4", "7", "9"]
    assert learner.suspects()[0].task in (1, 2, 3)


def test_a_dataset_is_learned_by_its_name() -> None:
    learner = small_learner(labels=("4", "7"))
    assert learn_from(learner, "digits", None) == 1438
    assert sorted(learner.classes_.tolist()) == list("0123456789")
