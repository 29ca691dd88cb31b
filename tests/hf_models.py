"""A tiny vision model of transformers with random weights, saved to a folder."""

from pathlib import Path

import torch


def save_vit(folder: Path, *, size: int = 16, seed: int = 0) -> Path:
    from transformers import ViTConfig, ViTModel

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
        model = ViTModel(ViTConfig(**sizes, image_size=size, patch_size=8))
    model.save_pretrained(folder)
    return folder
