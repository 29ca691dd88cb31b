import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from remnant import recipe
from remnant.config import Config, resolve
from remnant.consolidate import MixMatch
from remnant.errors import RemnantError
from remnant.insertion import LowestLoss
from remnant.methods import AER_ABS, METHODS
from remnant.noise import Symmetric
from remnant.registry import CHOICES
from remnant.replacement import Reservoir, loss_aware_victim
from remnant.schedule import Alternate, Always


def problems(**given: Any) -> str:  # noqa: ANN401
    with pytest.raises(RemnantError) as caught:
        resolve(given)
    return str(caught.value)


def changed(*changes: str) -> Config:
    return resolve(recipe.apply(recipe.read("digits"), changes))


def test_the_default_is_the_papers_method_on_digits() -> None:
    config = resolve({})
    assert config.the_method() == AER_ABS
    assert config.noise == Symmetric(0.4)
    assert (config.data, config.buffer, config.sizes()) == ("digits", 100, [2, 2, 2, 2, 2])


@pytest.mark.parametrize("name", METHODS)
def test_a_method_by_name_is_that_value(name: str) -> None:
    assert resolve({"method": name}).the_method() == METHODS[name]


def test_any_choice_of_a_method_can_be_replaced() -> None:
    config = changed("replacement=lass", "schedule=always")
    assert config.replacement == Reservoir(loss_aware_victim)
    assert config.schedule == Always()
    assert config.insertion == AER_ABS.insertion


def test_a_dotted_key_changes_one_setting_of_the_methods_own_choice() -> None:
    config = changed("insertion.alpha=0.5", "schedule.period=4", "scoring.refresh_every=1")
    assert config.insertion == LowestLoss(0.5)
    assert config.schedule == Alternate(4)
    assert config.scoring.refresh_every == 1


def test_a_dotted_key_after_a_name_belongs_to_that_name() -> None:
    assert changed("schedule=alternate", "schedule.period=3").schedule == Alternate(3)


def test_later_settings_win() -> None:
    assert changed("lr=0.5", "lr=0.25").lr == 0.25


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"insertion": {"alpha": 75}}, "for 75 % write 0.75"),
        ({"buffer": 0}, "aer-abs needs a memory of at least 2 rows, got 0"),
        ({"epochs": 1}, "would never write"),
        ({"tasks": 3}, "--set split=[3,3,4]"),
        ({"noise": "symmetric:1.2"}, "share in [0, 1], got 1.2"),
        ({"noise": "symmetric:40"}, "for 40 % write 0.4"),
        ({"epoch": 3}, "unknown key 'epoch'; did you mean 'epochs'?"),
        ({"alpha": 0.5}, "did you mean objective.alpha or insertion.alpha or replacement.alpha?"),
        ({"refresh_every": 1}, "did you mean scoring.refresh_every?"),
        ({"method": "aer_abs"}, "did you mean 'aer-abs'?"),
        ({"data": "cifar"}, "did you mean 'cifar10'?"),
        ({"net": "resnet81"}, "did you mean 'resnet18'?"),
        ({"replacement": "ABS"}, "Known: reservoir, lass, abs"),
        ({"lr": -1.0}, "greater than 0"),
        ({"lr": "fast"}, "lr: "),
        ({"buffer": 10**12}, "buffer: "),
        ({"epochs": 2.5}, "epochs: "),
        ({"epochs": True}, "epochs: "),
        ({"seed": -1}, "seed: "),
        ({"batch": 1}, "batch: "),
        ({"validation": 1.5}, "validation: "),
        ({"split": [2, 2]}, "add up to the 10 of digits, got [2, 2] (4)"),
        ({"split": [11, -1]}, "add up to"),
        ({"class_order": "alphabetic"}, "class_order: "),
        ({"lr_drops": [70.0]}, "shares in (0, 1)"),
        ({"noise": 0.4}, "unknown noise 0.4"),
        ({"name": "a/b"}, "name: "),
        ({"noise": [1, 2]}, "unknown noise [1, 2]"),
        ({"net": [1]}, "unknown net [1]"),
        ({"lr": float("inf")}, "lr: "),
        ({"weight_decay": float("inf")}, "weight_decay: "),
        ({"method": "der++", "objective": {"alpha": float("nan")}}, "weights >= 0"),
        ({"batch": 8, "insertion": {"alpha": 0.99}}, "lets none into the memory"),
        ({"class_order": [1, 2]}, "each of the classes 0 to 9 once"),
        ({"class_order": "superclass"}, "superclasses"),
        ({"noise": "asymmetric:0.2"}, "resemble each other"),
        ({"noise": "superclass-random:0.2"}, "needs superclasses"),
        ({"noise": "file:nowhere.npy"}, "nowhere.npy: expected a file of labels, found none"),
    ],
)
def test_a_mistake_is_named_with_what_to_do(given: dict[str, Any], words: str) -> None:
    assert words in problems(**given)


def test_all_problems_are_listed_at_once() -> None:
    text = problems(epoch=3, lr=-1.0, method="aerabs", noise="symmetric:1.2", net="small:0")
    for words in ("'epoch'", "lr:", "'aer-abs'", "noise:", "net:"):
        assert words in text
    assert text.count("  - ") == 5


def test_contradictions_are_listed_together_with_plain_mistakes() -> None:
    text = problems(buffer=0, epochs=1, tasks=3, lr=-1.0, class_order=[1, 2])
    for key in ("buffer:", "epochs:", "tasks:", "lr:", "class_order:"):
        assert key in text
    assert text.count("  - ") == 5


def test_a_contradiction_with_a_setting_that_is_wrong_itself_is_not_reported() -> None:
    assert problems(data="cifar1000", tasks=3).count("  - ") == 1


def test_another_method_on_top_of_a_written_config_is_really_that_method(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(resolve({"method": "aer-abs", "lr": 0.7}).toml())
    table = recipe.read(str(tmp_path / "config.toml"))
    config = resolve(recipe.apply(table, ["method=er"]))
    assert config.the_method() == METHODS["er"]
    assert config.lr == 0.7


def test_a_method_with_other_choices_does_not_go_by_its_name() -> None:
    assert resolve({"method": "er"}).label == "er"
    changed_er = resolve({"method": "er", "schedule": "alternate"})
    assert changed_er.label == "er-custom"
    assert "-er-custom-" in changed_er.run_id("x")


def test_labels_from_two_arrays_of_one_file_have_two_names(tmp_path: Path) -> None:
    (tmp_path / "human.npz").touch()
    path = str(tmp_path / "human.npz")
    noises = [{"name": "file", "path": path, "key": key} for key in ("worse", "aggre")]
    ids = [resolve({"noise": noise}).run_id("x") for noise in noises]
    assert ids[0].startswith("digits-aer-abs-file-human.npz-key=worse-s0-")
    assert ids[0].rpartition("-")[0] != ids[1].rpartition("-")[0]


def test_finetuning_needs_no_buffer_and_one_epoch_is_enough() -> None:
    config = resolve({"method": "finetune", "buffer": 0, "epochs": 1})
    assert not config.the_method().uses_memory(config.epochs)


def test_one_epoch_is_enough_for_plain_replay() -> None:
    resolve({"method": "er", "epochs": 1})


def test_tasks_of_unequal_size_are_given_by_split() -> None:
    assert resolve({"split": [4, 3, 3]}).sizes() == [4, 3, 3]


@pytest.mark.parametrize("name", METHODS)
def test_a_config_written_as_toml_is_the_same_config(name: str) -> None:
    config = resolve({"method": name, "lr": 0.05, "split": [4, 6], "class_order": "random"})
    again = resolve(tomllib.loads(config.toml()))
    assert again == config
    assert again.run_id("x") == config.run_id("x")


def test_the_written_config_holds_every_choice() -> None:
    table = tomllib.loads(resolve({}).toml())
    assert set(CHOICES) <= table.keys()
    assert table["schedule"] == {"name": "alternate", "period": 2}


def test_the_run_id_names_the_run_and_follows_config_and_data() -> None:
    config = resolve({})
    assert config.run_id("data").startswith("digits-aer-abs-symmetric-0.4-s0-")
    others = [
        resolve({"lr": 0.2}).run_id("data"),
        config.run_id("other"),
        resolve({"threads": 2}).run_id("data"),
    ]
    assert len({config.run_id("data"), *others}) == 4


def test_a_recipe_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_bytes(b"\xff\xfe lr")
    with pytest.raises(RemnantError, match=r"mine\.toml: expected TOML"):
        recipe.read(str(tmp_path / "mine.toml"))


@pytest.mark.parametrize("name", ["x" * 300, "."])
def test_a_name_that_can_be_no_file_is_an_unknown_recipe(name: str) -> None:
    with pytest.raises(RemnantError, match="no recipe"):
        recipe.read(name)


def test_a_run_folder_is_the_recipe_in_it(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(resolve({"lr": 0.7}).toml())
    assert recipe.read(str(tmp_path)) == recipe.read(str(tmp_path / "config.toml"))


def test_an_unknown_recipe_is_answered_with_the_nearest() -> None:
    with pytest.raises(RemnantError, match="did you mean 'digits'"):
        recipe.read("digit")


def test_a_recipe_that_is_no_toml_names_the_place(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("lr = = 3")
    with pytest.raises(RemnantError, match=r"mine\.toml: expected TOML"):
        recipe.read(str(tmp_path / "mine.toml"))


def test_a_users_recipe_is_named_after_its_file(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("lr = 0.3")
    assert resolve(recipe.read(str(tmp_path / "mine.toml"))).name == "mine"


def test_a_setting_without_a_value_is_refused() -> None:
    with pytest.raises(RemnantError, match="expected key=value, got 'lr'"):
        recipe.apply({}, ["lr"])


def test_a_recipe_of_the_package_wins_over_a_file_of_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("digits").write_text("something else")
    assert recipe.read("digits")["data"] == "digits"


def test_a_consolidation_can_be_put_on_any_method() -> None:
    config = changed("method=er", "consolidation=mixmatch:0.05", "consolidation.views=2")
    assert config.consolidation == MixMatch(lr=0.05, views=2)
    assert config.label == "er-custom"


def test_rates_and_epochs_of_a_consolidation_do_not_make_another_method() -> None:
    method = "method=aer-abs+consolidation"
    tuned = changed(
        method, "consolidation.lr=0.01", "consolidation.epochs=63", "consolidation.lambda_u=1.0"
    )
    assert tuned.label == "aer-abs+consolidation"
    assert tuned.run_id("x") != changed(method).run_id("x")
    assert changed(method, "consolidation.views=2").label == "aer-abs+consolidation-custom"


def test_aer_abs_with_mixmatch_by_hand_is_called_custom_but_is_the_same_method() -> None:
    by_hand, named = changed("consolidation=mixmatch"), changed("method=aer-abs+consolidation")
    assert by_hand.the_method() == named.the_method()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"method": "finetune", "consolidation": "mixmatch"}, "finetune keeps none"),
        ({"method": "er", "schedule": "collect"}, "nothing is learned before the end of a task"),
        ({"method": "gdumb", "consolidation": "none"}, "choose a consolidation: buffer-fit"),
        ({"consolidation": "mixmach"}, "did you mean 'mixmatch'"),
        ({"consolidation": {"name": "mixmatch", "lr": -1.0}}, "expected lr > 0"),
        ({"consolidation": {"name": "buffer-fit", "views": 3}}, "buffer-fit has no setting 'views'"),
    ],
)
def test_a_consolidation_that_cannot_be_is_refused(settings: dict[str, Any], words: str) -> None:
    assert words in problems(**settings)


@pytest.mark.parametrize(
    ("given", "label"),
    [
        ({"method": "er", "consolidation": "dividemix"}, "er+dividemix"),
        ({"method": "aer-abs", "replacement": "reservoir"}, "aer"),
        ({"method": "er+dividemix", "consolidation": {"lambda_u": 5.0}}, "er+dividemix"),
        ({"method": "er+dividemix", "consolidation": {"lambda_u": 0.0}}, "er+dividemix-custom"),
        ({"method": "er+dividemix", "consolidation": {"confidence_penalty": True}}, "er+dividemix"),
        ({"method": "er+coteaching", "consolidation": {"forget_rate": 0.0}}, "er+coteaching-custom"),
        ({"method": "joint", "schedule": "always"}, "joint-custom"),
        ({"method": "finetune"}, "finetune"),
    ],
)
def test_a_run_is_called_what_its_choices_make(given: dict[str, Any], label: str) -> None:
    assert resolve(given).label == label


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"consolidation": "dividemix"}, "no trained network to go on with"),
        ({"insertion": "lowest-loss"}, "insertion: rows are judged by the network"),
        ({"replacement": "abs"}, "replacement: rows are judged by the network"),
    ],
)
def test_a_method_that_never_trains_on_the_stream_cannot_use_its_network(
    given: dict[str, Any], message: str
) -> None:
    assert message in problems(method="gdumb", **given)


SKELETONS = {"data": "nw-ucla", "net": "efficientgcn-b0"}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"data": "nw-ucla"}, "net: it sees images, and nw-ucla are skeletons. Use efficientgcn-b0"),
        ({"net": "efficientgcn-b0"}, "net: efficientgcn-b0 sees skeletons, and digits are images"),
        (SKELETONS | {"method": "spr"}, "learner: SPR crops and colours images; take another method"),
        (
            SKELETONS | {"method": "gdumb", "consolidation": {"cutmix": 0.5}},
            "set consolidation.cutmix=0",
        ),
        (SKELETONS | {"method": "puridiver", "objective": {"cutmix": 0.1}}, "objective: CutMix pastes"),
    ],
)
def test_what_needs_images_is_refused_for_skeletons(settings: dict[str, Any], expected: str) -> None:
    with pytest.raises(RemnantError, match=re.escape(expected)):
        resolve(settings)


@pytest.mark.parametrize("method", [name for name in METHODS if name != "spr"])
def test_skeletons_go_with_all_methods_that_can_do_without_images(method: str) -> None:
    config = resolve(SKELETONS | {"method": method})
    assert config.label == method
    assert getattr(config.consolidation, "cutmix", 0) == getattr(config.objective, "cutmix", 0) == 0
