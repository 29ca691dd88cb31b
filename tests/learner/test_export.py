"""Exported models agree with torch, and their cards say what they were trained on."""

from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import tiny_config
from learner_helpers import small_learner, some_images
from run_helpers import RunIn
from tiny_features import TinyFeatures

from remnant import Learner
from remnant.errors import RemnantError
from remnant.learner import export as module
from remnant.learner.export import CHECKED, export, model_card, onnx_difference, random_inputs, to_onnx
from remnant.models.model import find_model, read_model


def test_the_onnx_graph_takes_raw_images_and_any_batch(tmp_path: Path) -> None:
    import onnxruntime

    learner = small_learner()
    model = learner.model()
    content = to_onnx(model)
    assert CHECKED == 256
    assert onnx_difference(model, content) < 1e-4
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    for count in (1, 5):
        logits = session.run(["logits"], {"inputs": some_images(count)})[0]
        assert logits.shape == (count, 2)
        assert np.array_equal(logits.argmax(1), learner.predict_proba(some_images(count)).argmax(1))


def test_a_graph_that_does_not_agree_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small_learner().save(tmp_path)
    monkeypatch.setattr(module, "to_onnx", lambda model: b"")
    monkeypatch.setattr(module, "onnx_difference", lambda model, content: 0.5)
    with pytest.raises(RemnantError, match=r"differ by 5\.0e-01"):
        export(tmp_path, read_model(find_model(tmp_path)), "onnx", tmp_path / "a.onnx")
    assert not (tmp_path / "a.onnx").exists()


def test_the_graph_of_a_head_on_features_includes_the_backbone(tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(0, 256, (8, 3, 8, 8), dtype=np.uint8)
    learner = Learner("er", TinyFeatures(), 10, epochs=1, batch=8).learn(images, [4, 7] * 4)
    model = learner.model()
    assert onnx_difference(model, to_onnx(model)) < 1e-4
    learner.save(tmp_path)
    said = export(tmp_path, model, "safetensors", tmp_path / "a.safetensors")
    assert "without its frozen backbone" in said
    assert f"frozen backbone: sha256 of its weights {'0' * 64}" in (tmp_path / "a.safetensors.md").read_text()


def test_exported_weights_are_the_model_itself(tmp_path: Path) -> None:
    small_learner().save(tmp_path)
    export(tmp_path, read_model(find_model(tmp_path)), "safetensors", tmp_path / "a.safetensors")
    model = read_model(tmp_path / "a.safetensors")
    x = random_inputs(model, 4)
    assert model.logits(x).equal(read_model(find_model(tmp_path)).logits(x))
    assert "classes, in the order of the logits: [4, 7]" in (tmp_path / "a.safetensors.md").read_text()


@pytest.mark.parametrize("kind", ["onnx", "safetensors"])
def test_the_code_in_a_card_predicts(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small_learner().save(tmp_path)
    model = read_model(find_model(tmp_path))
    export(tmp_path, model, kind, tmp_path / "it's.model")
    code = (tmp_path / "it's.model.md").read_text().partition("```python\n")[2].partition("```")[0]
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()
    exec(code, {})
    blank = torch.zeros(1, *model.spec.shape, dtype=torch.uint8)
    assert capsys.readouterr().out.strip() == f"[{model.labels[int(model.logits(blank).argmax())]}]"


def test_the_card_of_a_run_has_data_noise_metrics_and_settings(run_in: RunIn) -> None:
    folder = run_in(tiny_config(tasks=2, epochs=2))
    card = model_card(folder, read_model(find_model(folder)))
    for text in (
        "data: digits",
        "added noise: symmetric:0.4",
        "noise rate of the training labels",
        "accuracy, test split",
        "[net]",
    ):
        assert text in card
