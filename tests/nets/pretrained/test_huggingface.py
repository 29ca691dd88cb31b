import json
from dataclasses import astuple
from pathlib import Path

import pytest
import torch
from hf_models import save_vit
from safetensors.torch import load_file

from remnant.errors import RemnantError
from remnant.nets.pretrained.huggingface import describe, load


def test_features_are_the_mean_of_the_last_hidden_states(tmp_path: Path) -> None:
    model = load(str(save_vit(tmp_path / "vit"))).eval()
    x = torch.rand(2, 3, 16, 16)
    with torch.inference_mode():
        states = model.model(pixel_values=x).last_hidden_state
        assert states.shape == (2, 5, 8)  # a class token, and four patches
        assert torch.equal(model(x), states.mean(1))


def test_size_and_normalisation_are_those_of_its_files(tmp_path: Path) -> None:
    folder = save_vit(tmp_path / "vit", size=24)
    assert astuple(describe(str(folder)))[:4] == (24, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5), 8)
    other = save_vit(tmp_path / "other")
    text = json.dumps({"image_mean": [0.1, 0.2, 0.3], "image_std": [1, 1, 2]})
    (other / "preprocessor_config.json").write_text(text)
    assert astuple(describe(str(other)))[:3] == (16, (0.1, 0.2, 0.3), (1.0, 1.0, 2.0))


def test_the_digest_depends_on_the_weights_and_not_on_the_folder(tmp_path: Path) -> None:
    a, b, c = (save_vit(tmp_path / name, seed=seed) for name, seed in (("a", 0), ("b", 0), ("c", 1)))
    assert describe(str(a)).weights == describe(str(b)).weights != describe(str(c)).weights


def test_pickled_weights_are_refused(tmp_path: Path) -> None:
    folder = save_vit(tmp_path / "vit")
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    with pytest.raises(RemnantError, match=r"expected a vision model .* in model\.safetensors"):
        load(str(folder))


def test_a_model_that_does_not_exist_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(RemnantError, match=r"hf:.*nothing: expected a vision model of transformers"):
        load(str(tmp_path / "nothing"))


def test_weights_that_are_missing_are_an_error(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    folder = save_vit(tmp_path / "vit")
    weights = load_file(folder / "model.safetensors")
    removed = next(name for name in weights if "layernorm.weight" in name)
    save_file(
        {k: v for k, v in weights.items() if k != removed}, folder / "model.safetensors", {"format": "pt"}
    )
    with pytest.raises(RemnantError, match=f"found weights without {removed}"):
        load(str(folder))


def test_a_model_of_text_is_refused(tmp_path: Path) -> None:
    from transformers import BertConfig, BertModel

    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    BertModel(BertConfig(**sizes, vocab_size=10)).save_pretrained(tmp_path / "bert")
    with pytest.raises(RemnantError, match="found a model of input_ids"):
        load(str(tmp_path / "bert"))
