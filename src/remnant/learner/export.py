"""Export of models: ONNX graphs that take raw images, weights in safetensors, and a model card."""

import contextlib
import json
import logging
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from remnant.data import Spec
from remnant.errors import RemnantError
from remnant.experiment.checkpoint import write_atomically
from remnant.experiment.result import read_result
from remnant.models.model import Model, find_model
from remnant.nets.pretrained.features import OnBackbone

CHECKED = 256  # random inputs on which an exported graph is compared with torch
TOLERANCE = 1e-4


class RawInputs(nn.Module):
    """A network with its transform: it maps raw inputs, such as uint8 images, to logits."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.net, self.prepare = model.net, model.spec.transform.plain

    def forward(self, inputs: Tensor) -> Tensor:
        """Return logits."""
        logits: Tensor = self.net(self.prepare(inputs))
        return logits


def random_inputs(model: Model, count: int) -> Tensor:
    """Return random raw inputs, the same for each call."""
    rng, shape = torch.Generator().manual_seed(0), (count, *model.spec.shape)
    if model.spec.dtype == torch.uint8:
        return torch.randint(0, 256, shape, generator=rng, dtype=torch.uint8)
    return torch.randn(shape, generator=rng).to(model.spec.dtype)


def check_installed() -> None:
    """Raise RemnantError if the packages for ONNX are missing."""
    try:
        import onnxruntime  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise RemnantError(
            f"expected the packages for ONNX, but {error.name} is not installed. Install them with "
            "pip install 'remnant[export]'."
        ) from error


def to_onnx(model: Model) -> bytes:
    """Return an ONNX file from `inputs`, a batch of any size of raw inputs, to `logits`."""
    check_installed()
    net = RawInputs(model).eval().to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
    with _without_warnings():
        program = torch.onnx.export(
            net, (random_inputs(model, 2),), dynamo=True, input_names=["inputs"], output_names=["logits"],
            dynamic_shapes={"inputs": {0: torch.export.Dim("batch")}}, verbose=False,
        )  # fmt: skip
    assert program is not None
    content: bytes = program.model_proto.SerializeToString()  # with the weights, in one file
    return content


@contextlib.contextmanager
def _without_warnings() -> Iterator[None]:
    """Hide the warnings of the exporter, which are about its own code and packages that are not needed."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def onnx_difference(model: Model, content: bytes) -> float:
    """Return the largest difference between the logits of an ONNX file and of torch, on random inputs."""
    import onnxruntime

    x = random_inputs(model, CHECKED)
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    found = session.run(["logits"], {"inputs": x.numpy()})[0]
    return float(np.abs(found - model.logits(x).numpy()).max())


def card_of(target: Path) -> Path:
    """Return the file of the model card beside an exported model."""
    return target.with_name(f"{target.name}.md")


def check_target(target: Path, overwrite: bool) -> None:
    """Raise RemnantError if a model cannot be written to a file, or would replace one without being asked."""
    if not target.parent.is_dir():
        raise RemnantError(f"{target}: expected a file in an existing folder. Create {target.parent} first.")
    for path in (target, card_of(target)):
        if os.path.lexists(path) and not (overwrite and path.is_file()):
            raise RemnantError(
                f"{path}: expected a new file, but it exists. Choose another name, or add --force."
            )


def export(folder: Path, model: Model, kind: str, target: Path) -> str:
    """Write a model with its card, and return a sentence about what was written."""
    card = card_of(target)
    if kind == "safetensors":
        write_atomically(target, find_model(folder).read_bytes())
        about = "the weights and a description of the network"
        about += ", without its frozen backbone" if isinstance(model.net, OnBackbone) else ""
    else:
        content = to_onnx(model)
        difference = onnx_difference(model, content)
        if difference > TOLERANCE:
            raise RemnantError(
                f"expected the ONNX graph to agree with torch, but its logits differ by {difference:.1e} on "
                f"{CHECKED} random inputs. Use --format safetensors."
            )
        write_atomically(target, content)
        about = f"logits of raw inputs, within {difference:.0e} of torch on {CHECKED} random inputs"
    write_atomically(card, f"{model_card(folder, model)}{usage(model, kind, target)}".encode())
    return f"{target}: {about}; {card}: the model card"


def model_card(folder: Path, model: Model) -> str:
    """Return a description of a model in Markdown: inputs, classes, data, noise, metrics and settings."""
    spec, weights = model.spec, sum(p.numel() for p in model.net.parameters())
    is_head = isinstance(model.net, OnBackbone)
    network = "a head on a frozen backbone" if is_head else type(model.net).__name__
    lines = [
        f"# Model of {spec.name}",
        "",
        f"- inputs: {spec.dtype} of shape (n, {', '.join(map(str, spec.shape))}), not normalised",
        f"- classes, in the order of the logits: {json.dumps(list(model.labels), ensure_ascii=False)}",
        f"- network: {network}, {weights:,} weights",
    ]
    if isinstance(model.net, OnBackbone):
        about = model.net.backbone.pretrained
        lines += [
            f"- frozen backbone: sha256 of its weights {about.weights}; images are resized to {about.size} x "
            f"{about.size} pixels"
        ]
    if (folder / "result.json").is_file():
        lines += _of_run(read_result(folder), folder)
    return "\n".join(lines) + "\n"


def usage(model: Model, kind: str, target: Path) -> str:
    """Return the section of a model card that says how to predict with the exported file."""
    spec, labels = model.spec, list(model.labels)
    shape, dtype = ", ".join(map(str, spec.shape)), str(spec.dtype).removeprefix("torch.")
    if kind == "onnx":
        code = [
            *("import numpy as np", "import onnxruntime", "", f"classes = {labels!r}"),
            f"session = onnxruntime.InferenceSession({target.name!r})",
            f"inputs = np.zeros((1, {shape}), np.{dtype})  # {_about_inputs(spec)}",
            'logits = session.run(["logits"], {"inputs": inputs})[0]',
            "print([classes[i] for i in logits.argmax(1)])",
        ]
    else:
        code = [
            *("from pathlib import Path", "", "import torch"),
            *(
                "from remnant.models.model import read_model",
                "",
                f"model = read_model(Path({target.name!r}))",
            ),
            f"inputs = torch.zeros(1, {shape}, dtype=torch.{dtype})  # {_about_inputs(spec)}",
            "print([model.labels[i] for i in model.logits(inputs).argmax(1).tolist()])",
        ]
    return "\n".join(["", "## Use", "", "```python", *code, "```", ""])


def _about_inputs(spec: Spec) -> str:
    return "images, channels first, resized as in training" if spec.are_images else spec.kind


def _of_run(result: dict[str, Any], folder: Path) -> list[str]:
    rate, purity = result["noise_rate"], (result["buffer"] or {}).get("purity")
    known = {
        "method": result["method"],
        "data": result["data"],
        "added noise": result["noise"],
        "noise rate of the training labels": None if rate is None else f"{rate:.1f} %",
        f"final average accuracy, {result['tested_on']}": f"{result['faa']:.1f} %",
        "final forgetting": f"{result['ff']:.1f} points",
        "buffer purity": None if purity is None else f"{purity:.1f} %",
        "seed": result["seed"],
        "versions": ", ".join(f"{name} {version}" for name, version in result["versions"].items()),
    }
    lines = [f"- {name}: {'unknown' if value is None else value}" for name, value in known.items()]
    config = (folder / "config.toml").read_text(encoding="utf-8")
    return [*lines, "", "## Settings", "", "```toml", config.strip(), "```"]
