"""Vision models of the package transformers as backbones, without torchvision and without pickled weights."""

import contextlib
import hashlib
from collections.abc import Iterator
from functools import cache
from typing import Any, cast

import torch
from torch import Tensor, nn

from remnant.data.pretrained import Pretrained, read_json
from remnant.errors import RemnantError

DEFAULT_SIZE = 224  # if neither the model nor its preprocessing has a size


class PooledModel(nn.Module):
    """A vision model whose features are the mean of its last hidden states over all positions.

    The pooling layer of a model is removed: many published weights have none, and transformers would
    initialise it randomly.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        if isinstance(getattr(model, "pooler", None), nn.Module):
            model.pooler = nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        """Return features (B, D) of normalised images (B, 3, S, S)."""
        states = self.model(pixel_values=x).last_hidden_state
        return cast(Tensor, states.mean(1) if states.ndim == 3 else states.mean((2, 3)))


def load(name: str) -> PooledModel:
    """Load a model by its name on the Hugging Face hub or its folder; pickled weights are refused."""
    transformers = _transformers()
    options = {"use_safetensors": True, "output_loading_info": True, "dtype": torch.float32}
    try:
        with _without_messages(transformers.utils.logging):
            model, about = transformers.AutoModel.from_pretrained(name, **options)
    except (OSError, ValueError, KeyError, RuntimeError, ImportError) as error:
        reason = str(error).strip().split("\n")[0]
        raise RemnantError(
            f"hf:{name}: expected a vision model of transformers with weights in model.safetensors, found: "
            f"{reason[:200]} Check the name, or give the folder of the model."
        ) from error
    vision = getattr(model, "vision_model", model)  # the image half of models like CLIP
    missing = [key for key in about["missing_keys"] if "pooler" not in key and not key.startswith("text_")]
    if missing or vision.main_input_name != "pixel_values":
        found = f"weights without {missing[0]}" if missing else f"a model of {vision.main_input_name}"
        raise RemnantError(
            f"hf:{name}: expected a vision model with all its weights, found {found}. Use another model."
        )
    return PooledModel(vision)


@contextlib.contextmanager
def _without_messages(logging: Any) -> Iterator[None]:  # noqa: ANN401
    """Hide what transformers says while it loads a model, such as that a pooling layer is missing."""
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        logging.enable_progress_bar()


@cache
def describe(name: str) -> Pretrained:
    """Return what a model expects and returns, after loading it once."""
    model = load(name).eval()
    settings = _preprocessor(name)
    config = cast(Any, model.model).config
    size: Any = getattr(config, "image_size", None) or settings.get("size") or DEFAULT_SIZE
    if isinstance(size, dict):
        size = size.get("height", size.get("shortest_edge", DEFAULT_SIZE))
    side = int(size[0] if isinstance(size, list | tuple) else size)
    mean, std = (tuple(map(float, settings.get(key, (0.5, 0.5, 0.5)))) for key in ("image_mean", "image_std"))
    with torch.inference_mode():
        features = model(torch.zeros(1, 3, side, side)).shape[1]
    return Pretrained(side, mean, std, features, _digest(model))


def _preprocessor(name: str) -> dict[str, Any]:
    """Return the preprocessing of a model, without the image processor, which needs torchvision."""
    path = _transformers().utils.cached_file(
        name,
        "preprocessor_config.json",
        _raise_exceptions_for_missing_entries=False,
        _raise_exceptions_for_connection_errors=False,
    )
    return {} if path is None else read_json(path)


def _digest(model: nn.Module) -> str:
    digest = hashlib.sha256()
    for key, value in sorted(model.state_dict().items()):
        digest.update(key.encode())
        digest.update(value.contiguous().numpy().tobytes())
    return digest.hexdigest()


def _transformers() -> Any:  # noqa: ANN401
    try:
        import transformers
    except ImportError as error:
        raise RemnantError(
            "expected the package transformers, which is not installed. Install it: pip install 'remnant[hf]'"
        ) from error
    return transformers
