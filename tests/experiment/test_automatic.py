"""Settings that are `auto`: chosen when a run is started, and kept when it is resumed on another machine."""

import tomllib
from pathlib import Path

import pytest
import torch
from conftest import tiny_config
from pretend_device import NAME, register
from run_helpers import RunIn, StopAt, assert_same_results, result

from remnant.config import recipe
from remnant.engine import backend
from remnant.errors import Interrupted, RemnantError
from remnant.experiment import checkpoint
from remnant.experiment.build import build_backend
from remnant.experiment.run import execute, started_with
from remnant.experiment.runner import Options

SHORT = {"method": "aer-abs", "tasks": 2, "epochs": 2}
WIDE = SHORT | {"net": "small:16"}  # gains from bf16


def interrupted(out: Path, **changes: str) -> Path:
    """Start a run, interrupt it after five steps, and return its folder."""
    with pytest.raises(Interrupted):
        execute(tiny_config(**SHORT | changes), Options(out=out), [StopAt(5)])
    return next(out.iterdir())


def pretend_bf16(monkeypatch: pytest.MonkeyPatch, is_there: bool) -> None:
    monkeypatch.setattr(backend, "has_bf16", lambda device: is_there)


@pytest.mark.parametrize("is_there", [True, False])
def test_a_run_keeps_the_precision_it_was_started_with(
    is_there: bool, run_in: RunIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fixed = run_in(tiny_config(**WIDE, precision="bf16" if is_there else "float32"), "fixed")
    pretend_bf16(monkeypatch, is_there)
    folder = interrupted(tmp_path / "auto", precision="auto", net="small:16")
    pretend_bf16(monkeypatch, not is_there)
    logger = StopAt(0)
    assert execute(tiny_config(**WIDE, precision="auto"), Options(out=folder.parent), [logger]) == folder
    assert not [note for note in logger.notes if "warning" in note]
    assert_same_results(fixed, folder)
    assert tomllib.loads((folder / "config.toml").read_text())["precision"] == "auto"
    (environment,) = result(folder)["environments"]
    assert environment["precision"] == ("bf16" if is_there else "float32")


def test_a_run_that_is_restarted_chooses_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_bf16(monkeypatch, False)
    folder = interrupted(tmp_path, precision="auto", net="small:16")
    pretend_bf16(monkeypatch, True)
    execute(tiny_config(**WIDE, precision="auto"), Options(out=tmp_path, force=True), [StopAt(0)])
    assert [e["precision"] for e in result(folder)["environments"]] == ["bf16"]


def test_a_run_keeps_its_device_and_its_samples_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    device, find = register(), backend.find_device
    choices = iter([NAME] * 2 + ["cpu"])  # the data, the learner; then those of the resumed run

    def found(name: str) -> torch.device:
        return find(next(choices) if name == "auto" else name)

    for place in ("remnant.engine.backend", "remnant.experiment.build"):
        monkeypatch.setattr(f"{place}.find_device", found)
    folder = interrupted(tmp_path)
    execute(tiny_config(**SHORT), Options(out=tmp_path), [StopAt(0)])
    assert [e["device"] for e in result(folder)["environments"]] == [device.type]


def test_a_run_whose_device_is_gone_is_an_error_with_advice(tmp_path: Path) -> None:
    folder = interrupted(tmp_path)
    (path, *_) = checkpoint.generations(folder / "checkpoint")
    state = checkpoint.unpack(path.read_bytes())
    state["environment"]["device"] = "cuda:99"
    checkpoint.save(folder / "checkpoint", state)
    before = sorted(folder.rglob("*"))
    with pytest.raises(RemnantError, match=r"device cuda:99, on which this run was started.*--force"):
        execute(tiny_config(**SHORT), Options(out=tmp_path), [StopAt(0)])
    assert sorted(folder.rglob("*")) == before


def test_settings_that_are_not_auto_win_over_those_of_the_checkpoint() -> None:
    earlier = {"device": "cuda:99", "precision": "float32", "channels_last": True}
    chosen = build_backend(tiny_config(device="cpu", precision="bf16", channels_last=False), earlier)
    assert (chosen.device.type, chosen.precision, chosen.channels_last) == ("cpu", "bf16", False)


@pytest.mark.parametrize(
    ("net", "is_last"), [("small:7", False), ("small:8", True), ("resnet18:4", False), ("resnet18:8", True)]
)
def test_the_layout_depends_on_the_narrowest_convolution(net: str, is_last: bool) -> None:
    assert build_backend(tiny_config(net=net, device="cpu")).channels_last == is_last
    assert build_backend(tiny_config(net=net), {"channels_last": not is_last}).channels_last != is_last


def test_the_layout_of_each_recipe_is_fixed() -> None:
    layouts = {name: recipe.to_config(name, {}).channels_last for name in recipe.recipes()}
    assert {name for name, layout in layouts.items() if layout is False} == {
        "cifar10-features",
        "digits",
        "fashion",
    }
    assert "auto" not in layouts.values()


def test_nothing_is_kept_from_damaged_checkpoints(tmp_path: Path) -> None:
    assert started_with(tmp_path / "none") == {}
    folder = interrupted(tmp_path)
    assert started_with(folder) == {"device": "cpu", "precision": "float32", "channels_last": False}
    for path in checkpoint.generations(folder / "checkpoint"):
        path.write_bytes(b"\xff" * 40)
    assert started_with(folder) == {}
