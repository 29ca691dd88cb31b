"""Files of saved learners."""

from pathlib import Path

import pytest
from learner_helpers import small_learner, some_images

from remnant import Learner
from remnant.errors import RemnantError
from remnant.experiment.checkpoint import clear_leftovers, pack, unpack
from remnant.learner.saved import FILE, SUSPECTS, check_folder, read_learner
from remnant.models.model import find_model, read_model


def test_a_folder_holds_the_state_and_the_model_and_nothing_else(tmp_path: Path) -> None:
    small_learner().save(tmp_path / "new" / "model")
    assert sorted(p.name for p in (tmp_path / "new" / "model").iterdir()) == [FILE, "model.safetensors"]
    assert read_model(find_model(tmp_path / "new" / "model")).labels == (4, 7)


def test_what_was_saved_before_is_replaced(tmp_path: Path) -> None:
    learner = small_learner()
    learner.save(tmp_path)
    learner.learn(some_images(8), [4, 7] * 4)
    learner.save(tmp_path)
    clear_leftovers(tmp_path)
    assert read_learner(tmp_path).tasks == 2


def test_suspects_of_a_learner_that_is_replaced_are_removed(tmp_path: Path) -> None:
    small_learner().save(tmp_path)
    (tmp_path / SUSPECTS).write_text("of the earlier learner")
    small_learner().save(tmp_path)
    assert not (tmp_path / SUSPECTS).exists()


def test_an_existing_learner_is_kept_unless_it_may_be_replaced(tmp_path: Path) -> None:
    check_folder(tmp_path, overwrite=False)
    small_learner().save(tmp_path)
    with pytest.raises(RemnantError, match=r"a learner is saved in it.*add --force"):
        check_folder(tmp_path, overwrite=False)
    check_folder(tmp_path)


@pytest.mark.parametrize(
    "damage", [lambda content: content[:100], lambda content: b"", lambda content: b"{}" * 50]
)
def test_a_damaged_file_is_one_error(damage: object, tmp_path: Path) -> None:
    small_learner().save(tmp_path)
    path = tmp_path / FILE
    path.write_bytes(damage(path.read_bytes()))  # type: ignore[operator]
    with pytest.raises(RemnantError, match="cannot be read"):
        Learner.load(tmp_path)


@pytest.mark.parametrize("settings", [5, [1], {"method": "er", "consolidation": 5}])
def test_settings_of_another_type_are_one_error(settings: object, tmp_path: Path) -> None:
    small_learner().save(tmp_path)
    path = tmp_path / FILE
    path.write_bytes(pack(unpack(path.read_bytes()) | {"settings": settings}))
    with pytest.raises(RemnantError, match="its content does not fit"):
        Learner.load(tmp_path)


def test_a_folder_that_cannot_be_created_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RemnantError, match="cannot be created"):
        small_learner().save(tmp_path / "file" / "model")
