"""The learner: it equals a run, can be saved between tasks, and grows with new classes."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import tiny_config
from PIL import Image
from run_helpers import RunIn, final_state, flat
from tiny_features import TinyFeatures
from torch import Tensor, nn

from remnant import Learner
from remnant.data.pretrained import WeightsFile
from remnant.errors import RemnantError
from remnant.experiment.build import build_stream
from remnant.learner.inputs import to_images
from remnant.nets import NETS, Features
from remnant.stream import Task

TINY: dict[str, Any] = {"net": "small:4", "buffer_size": 20, "epochs": 2, "batch": 8}
FIRST = (("ant", "bee"), ("ant", "bee", "cat"), ("bee", "cat"), ("cat", "dog"), ("ant", "dog"))


def images(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, 1, 8, 8), dtype=np.uint8)


def task(number: int) -> tuple[np.ndarray, list[str]]:
    """Images and labels of a task; the class dog is new in the fourth."""
    names = FIRST[number]
    return images(16, number), [names[i % len(names)] for i in range(16)]


def state(learner: Learner) -> dict[str, Any]:
    return flat(learner._trained().state_dict())


def assert_same(a: Learner, b: Learner) -> None:
    assert state(a).keys() == state(b).keys()
    for name, value in state(a).items():
        assert repr(value) == repr(state(b)[name]), name
    assert a.suspects() == b.suspects()
    assert a.classes_.tolist() == b.classes_.tolist()


@pytest.mark.parametrize("method", ["aer-abs", "der++", "er+fit"])
def test_a_learner_saved_after_each_task_equals_one_that_was_not(method: str, tmp_path: Path) -> None:
    settings = TINY | ({"consolidation": {"epochs": 2}} if method == "er+fit" else {})
    whole, parts = Learner(method, **settings), Learner(method, **settings)
    for number in range(5):
        whole.learn(*task(number))
        parts.learn(*task(number))
        parts.save(tmp_path)
        parts = Learner.load(tmp_path)
    assert_same(whole, parts)
    assert whole.classes_.tolist() == ["ant", "bee", "cat", "dog"]
    assert np.array_equal(whole.predict_proba(images(9, 9)), parts.predict_proba(images(9, 9)))


SCRIPT = """
import sys
sys.path[:0] = {paths!r}
from test_learner import TINY, task
from remnant import Learner
number, folder = int(sys.argv[1]), sys.argv[2]
learner = Learner("aer-abs", **TINY) if number == 0 else Learner.load(folder)
learner.learn(*task(number)).save(folder)
"""


@pytest.mark.parametrize(
    ("method", "changes"),
    [
        ("aer-abs", {"epochs": 3, "lr": 0.02, "batch": 4, "momentum": 0.5, "weight_decay": 0.01}),
        ("er+fit", {"consolidation.epochs": 3, "consolidation.lr": 0.02}),
    ],
)
def test_a_loaded_learner_with_other_settings_learns_further_tasks_with_them(
    method: str, changes: dict[str, Any], tmp_path: Path
) -> None:
    settings = TINY | ({"consolidation.epochs": 2} if method == "er+fit" else {})
    Learner(method, **settings).learn(*task(0)).save(tmp_path / "first")
    changed = Learner.load(tmp_path / "first", **changes).learn(*task(1))
    changed.save(tmp_path / "second")
    same = Learner.load(tmp_path / "first").learn(*task(1))
    assert any(repr(value) != repr(state(same)[name]) for name, value in state(changed).items())
    again = Learner.load(tmp_path / "second")
    assert_same(again.learn(*task(2)), changed.learn(*task(2)))  # they hold from now on


def test_settings_that_the_saved_state_depends_on_are_fixed(tmp_path: Path) -> None:
    Learner("er", **TINY).learn(*task(0)).save(tmp_path)
    for name in ("seed", "buffer_size", "net.width", "method", "consolidation.epochs"):
        with pytest.raises(RemnantError, match=f"{name}: expected one of the settings that may differ"):
            Learner.load(tmp_path, **{name: 3})
    with pytest.raises(RemnantError, match="noise: expected a setting of the method or of training"):
        Learner.load(tmp_path, noise="none")


@pytest.mark.slow
def test_five_tasks_in_five_processes_equal_five_tasks_in_one(tmp_path: Path) -> None:
    script = SCRIPT.format(paths=[str(Path(__file__).parent), str(Path(__file__).parents[1]), *sys.path])
    whole = Learner("aer-abs", **TINY)
    for number in range(5):
        whole.learn(*task(number))
        subprocess.run([sys.executable, "-c", script, str(number), str(tmp_path)], check=True)
    assert_same(whole, Learner.load(tmp_path))


def test_with_known_classes_a_learner_equals_a_run(run_in: RunIn) -> None:
    config = tiny_config(tasks=2, epochs=2)
    stream, expected = build_stream(config, None), flat(final_state(run_in(config)))
    names = stream.spec.classes
    learner = Learner(**(TINY | {"buffer_size": 20}), classes=names, transform=stream.spec.transform)  # type: ignore[arg-type]
    for part in stream.tasks:
        learner.learn(part.source.take(part.id), [names[y] for y in part.y])
    found = state(learner)
    assert found.keys() == expected.keys()
    for name in found:
        if not name.endswith("/id"):  # counted by arrival, not by position in the dataset
            assert repr(found[name]) == repr(expected[name]), name


def test_old_weights_and_samples_stay_when_the_head_grows() -> None:
    learner = Learner("er", **TINY).learn(*task(0))
    before = learner._trained().state_dict()
    body, x = before["weights"]["net"]["body.0.weight"].clone(), before["buffer"]["x"].clone()
    head = before["weights"]["net"]["head.weight"].clone()
    assert learner._spec is not None
    spec = replace(learner._spec, classes=("ant", "bee", "cat"))
    learner._grow(spec, ["ant", "bee", "cat"])
    after = learner._trained().state_dict()
    assert torch.equal(after["weights"]["net"]["body.0.weight"], body)
    assert torch.equal(after["weights"]["net"]["head.weight"][:2], head)
    assert after["weights"]["net"]["head.weight"].shape[0] == 3
    assert torch.equal(after["buffer"]["x"], x)
    assert after["seen"].tolist() == [True, True, False]


class Dataset:
    """A map-style dataset of float images in [0, 1] and tensors as labels."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, i: int) -> tuple[Tensor, Tensor]:
        return torch.full((1, 8, 8), i / 10), torch.tensor(i % 2)


def test_a_torch_dataset_is_learned_and_labels_stay_integers() -> None:
    learner = Learner("er", **TINY).learn(Dataset())
    assert learner.classes_.tolist() == [0, 1]
    assert learner.predict(images(3, 0)).dtype.kind == "i"


def test_the_interface_of_scikit_learn() -> None:
    learner = Learner("er", **TINY)
    assert learner.partial_fit(*task(0), classes=["bee", "ant", "cat"]) is learner
    assert learner.classes_.tolist() == ["bee", "ant", "cat"]
    probabilities = learner.predict_proba(images(5, 1))
    assert probabilities.shape == (5, 3)
    assert np.allclose(probabilities.sum(1), 1)
    assert set(learner.predict(images(5, 1))) <= {"ant", "bee", "cat"}


def test_suspects_list_every_sample_learned_so_far() -> None:
    learner = Learner("er", **TINY).learn(*task(0)).learn(*task(1))
    found = learner.suspects()
    assert sorted(row.id for row in found) == list(range(32))
    assert {row.given for row in found} == {"ant", "bee", "cat"}
    assert sum(row.in_buffer for row in found) == 20


def test_a_module_with_features_grows_and_one_with_logits_does_not(tmp_path: Path) -> None:
    body = nn.Sequential(nn.Flatten(), nn.Linear(64, 6), nn.ReLU())
    learner = Learner("er", **(TINY | {"net": body, "head": 6})).learn(*task(0)).learn(*task(1))
    learner.save(tmp_path)
    loaded = Learner.load(tmp_path, net=body, head=6)
    assert np.array_equal(loaded.predict_proba(images(4, 2)), learner.predict_proba(images(4, 2)))
    fixed = Learner("er", **(TINY | {"net": nn.Sequential(nn.Flatten(), nn.Linear(64, 2))})).learn(*task(0))
    with pytest.raises(RemnantError, match="returns logits and cannot get new ones"):
        fixed.learn(*task(1))
    with pytest.raises(RemnantError, match="Python object"):
        Learner.load(tmp_path)


@pytest.mark.parametrize(
    ("attempt", "expected"),
    [
        (lambda: Learner(lr=-1), "lr"),
        (lambda: Learner(nett="small"), "unknown key"),
        (lambda: Learner(**TINY).predict(images(2, 0)), "Call learn first"),
        (lambda: Learner(**TINY).learn(images(4, 0), ["a"] * 4), "at least two classes"),
        (lambda: Learner(**TINY).learn(*task(0)).learn(images(2, 0), [1, 2]), "got both"),
        (lambda: Learner(**TINY).learn(*task(0)).predict(np.zeros((1, 1, 9, 9))), "shape"),
        (lambda: Learner(**TINY, classes=["a", "a"]), "each class once"),
        (lambda: Learner.load("nowhere"), "expected a saved learner"),
        (lambda: Learner(**TINY).save("nowhere"), "Call learn first"),
        (lambda: Learner(image_size=-3), "0 or a number from 8 to 1024"),
        (lambda: Learner(noise="symmetric:0.4"), "noise: expected a setting of the method or of training"),
        (
            lambda: Learner(**TINY).learn(images(2, 0), [torch.tensor([1, 0])] * 2),
            "all strings or all integers",
        ),
    ],
)
def test_a_mistake_is_one_sentence(attempt: Any, expected: str) -> None:  # noqa: ANN401
    with pytest.raises(RemnantError, match=expected):
        attempt()


def interrupted(learner: Learner, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupt a call of learn in the middle of an epoch."""
    take, calls = Task.take, iter(range(3))

    def until_interrupted(self: Task, index: Tensor) -> Any:  # noqa: ANN401
        if next(calls, None) is None:
            raise KeyboardInterrupt
        return take(self, index)

    with monkeypatch.context() as patch:
        patch.setattr(Task, "take", until_interrupted)
        with pytest.raises(KeyboardInterrupt):
            learner.learn(*task(1))


def test_an_interrupted_learner_is_not_used_any_more_and_the_saved_one_is_intact(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner = Learner("er", **TINY).learn(*task(0))
    learner.save(tmp_path)
    interrupted(learner, monkeypatch)
    for attempt in (
        lambda: learner.learn(*task(2)),
        lambda: learner.save(tmp_path),
        lambda: learner.predict(images(2, 0)),
        learner.suspects,
    ):
        with pytest.raises(RemnantError, match="Load the saved learner again"):
            attempt()
    assert_same(Learner.load(tmp_path).learn(*task(1)), Learner("er", **TINY).learn(*task(0)).learn(*task(1)))


def test_images_that_do_not_fit_leave_a_new_learner_unchanged() -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(3 * 64, 2))
    learner = Learner("er", **(TINY | {"net": net}))
    with pytest.raises(RemnantError, match="expected a network from inputs"):
        learner.learn(np.zeros((8, 8, 8, 1), np.uint8), [1, 2] * 4)
    learner.learn(np.zeros((8, 8, 8, 3), np.uint8), ["a", "b"] * 4)
    assert learner.classes_.tolist() == ["a", "b"]


def test_a_single_class_is_refused_if_the_loss_cannot_learn_it() -> None:
    x = images(8, 1)
    for method, known in (("aer-abs", ["ant", "bee", "new"]), ("er", None)):  # in turn: "new" is not seen yet
        learner = Learner(method, **TINY, classes=known).learn(*task(0))
        learner.learn(x, ["new" if known is None else "bee"] * 8)
    learner = Learner("aer-abs", **TINY).learn(*task(0))
    for label in ("bee", "new"):
        with pytest.raises(RemnantError, match=f"got only {label}: aer-abs compares the classes of a call"):
            learner.learn(x, [label] * 8)
    assert learner.classes_.tolist() == ["ant", "bee"]
    learner.learn(x, ["bee", "new"] * 4)


def test_settings_of_components_have_the_names_of_the_command_line() -> None:
    learner = Learner("er+fit", **TINY, **{"consolidation.epochs": 2})
    assert learner._config().consolidation.epochs == 2


def test_a_run_is_not_overwritten_by_a_learner(run_in: RunIn) -> None:
    folder = run_in(tiny_config(tasks=2, epochs=2))
    before = (folder / "model.safetensors").read_bytes()
    with pytest.raises(RemnantError, match="expected a new folder, or that of a saved learner"):
        Learner("er", **TINY).learn(*task(0)).save(folder)
    assert (folder / "model.safetensors").read_bytes() == before


def test_images_with_a_palette_have_the_colours_of_the_palette() -> None:
    red = Image.new("RGB", (8, 8), (255, 0, 0)).convert("P")
    assert to_images([red])[0, :, 0, 0].tolist() == [255, 0, 0]


def test_a_run_without_statistics_continues_after_the_ids_in_its_buffer(run_in: RunIn) -> None:
    fit = {"name": "buffer-fit", "epochs": 1, "from_scratch": True}
    learner = Learner.load(run_in(tiny_config(method="gdumb", tasks=2, epochs=1, consolidation=fit)))
    (buffer,) = learner._trained().buffers().values()
    last = int(buffer.samples().id.max())
    assert learner.samples == last + 1
    learner.learn(images(16, 0), ["0", "new"] * 8)
    assert len(learner._files) == learner.samples == last + 17


def test_a_finished_run_can_learn_further(run_in: RunIn) -> None:
    folder = run_in(tiny_config(tasks=2, epochs=2))
    learner = Learner.load(folder)
    assert learner.classes_.tolist() == list("0123456789")
    learner.learn(images(16, 1), ["new", "3"] * 8)
    assert learner.classes_.tolist()[-1] == "new"
    assert len(learner.suspects()) == 16


def test_a_head_on_frozen_features_grows_and_takes_images_of_any_size(tmp_path: Path) -> None:
    rng, net = np.random.default_rng(0), TinyFeatures()
    learner = Learner("er", net, 10, epochs=2, batch=8)
    learner.learn(rng.integers(0, 256, (8, 9, 12, 3), dtype=np.uint8), ["ant", "bee"] * 4)
    learner.learn(images(8, 1), ["bee", "cat"] * 4)
    assert learner.classes_.tolist() == ["ant", "bee", "cat"]
    assert learner.image_size == 8
    assert len(learner.suspects()) == 16
    assert learner._trained().state_dict()["buffer"]["x"].shape == (10, 3)
    learner.save(tmp_path)
    x = rng.integers(0, 256, (5, 20, 20), dtype=np.uint8)
    loaded = Learner.load(tmp_path, net=net)
    assert_same(learner, loaded)
    assert np.array_equal(loaded.predict_proba(x), learner.predict_proba(x))
    found = learner.model().probabilities(torch.from_numpy(x[:, None])).numpy()
    np.testing.assert_allclose(found, learner.predict_proba(x), atol=1e-5)
    with pytest.raises(RemnantError, match="have the sha256 0000000000000000"):
        Learner.load(tmp_path, net=TinyFeatures(weights="1" * 64))


def test_the_network_is_that_of_own_data_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Learner()._config().net == Features()
    assert (Learner()._config().lr, Learner(net="small")._config().lr) == (0.003, 0.1)
    monkeypatch.setattr(WeightsFile, "is_installed", lambda self: False)
    assert Learner()._config().net == NETS["resnet18"].__class__((2, 2, 2, 2), 8)  # type: ignore[attr-defined]


PREDICT = """
import sys
import numpy as np
from remnant import Learner
x = np.random.default_rng(0).integers(0, 256, (3, 3, 40, 40), dtype=np.uint8)
np.save(sys.argv[2], Learner.load(sys.argv[1]).predict_proba(x))
"""


@pytest.mark.slow
def test_a_learner_on_features_predicts_the_same_bits_in_another_process(tmp_path: Path) -> None:
    x = np.random.default_rng(0).integers(0, 256, (3, 3, 40, 40), dtype=np.uint8)
    learner = Learner("er", epochs=1, batch=3, buffer_size=3).learn(x, [1, 2, 1])
    learner.save(tmp_path)
    command = [sys.executable, "-c", PREDICT, str(tmp_path), str(tmp_path / "found.npy")]
    subprocess.run(command, check=True)
    assert np.array_equal(np.load(tmp_path / "found.npy"), learner.predict_proba(x))
