"""A trained network with its class names and transform: model.safetensors.

The weights have their usual names, so that any reader of safetensors can load them. The header holds a
description of inputs, classes and network as JSON. Nothing is unpickled. B samples, C classes.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load as load_tensors, save as save_tensors
from torch import Tensor, nn

from remnant.config import Config
from remnant.data import Spec
from remnant.engine.inference import predict
from remnant.engine.optimizer import weights_of
from remnant.errors import RemnantError
from remnant.methods.protocol import NewNet
from remnant.models.description import config_for, describe_spec, network_settings, to_spec
from remnant.nets import build as build_net, completed, pretrained_weights
from remnant.rng import Generators, derive
from remnant.settings import read_file

FILE = "model.safetensors"
FORMAT = 1
READ_ERRORS = (OSError, SafetensorError, ValueError, LookupError, TypeError, AttributeError, RecursionError)

Label = str | int
Net = Callable[[Spec], nn.Module]


@dataclass(frozen=True, eq=False)
class Model:
    """A network that predicts the labels of raw inputs."""

    net: nn.Module
    spec: Spec
    labels: tuple[Label, ...]  # of the classes, in the order of the logits

    def logits(self, x: Tensor) -> Tensor:
        """Return logits (B, C) of raw inputs, on the CPU."""
        return predict(self.net, x, self.spec.transform.plain).cpu()

    def probabilities(self, x: Tensor) -> Tensor:
        """Return the probability of each class, (B, C)."""
        return self.logits(x).softmax(1)


def model_file(net: nn.Module, config: Config, spec: Spec, labels: Sequence[Label] | None = None) -> bytes:
    """Return the content of model.safetensors; `labels` are the class names by default.

    `spec` is that of the dataset. The weights of a frozen backbone are not included, but their sha256 is.
    """
    description = {
        "format": FORMAT,
        "labels": list(spec.classes if labels is None else labels),
        "spec": describe_spec(spec),
        "settings": network_settings(config),
        "pretrained": pretrained_weights(config.net),
    }
    weights = {name: value.detach().cpu().contiguous() for name, value in weights_of(net).items()}
    return save_tensors(weights, metadata={"remnant": json.dumps(description)})


def read_model(path: Path, net: Net | None = None) -> Model:
    """Load a model from its file; `net` is needed if its network was a Python object."""
    try:
        content = read_file(path)
        length = int.from_bytes(content[:8], "little")
        description = json.loads(json.loads(content[8 : 8 + length])["__metadata__"]["remnant"])
        weights = load_tensors(content)
        spec, labels = to_spec(description["spec"]), tuple(description["labels"])
        pretrained = [str(digest) for digest in description["pretrained"]]
        config = config_for(spec, dict(description["settings"]) | ({} if net is None else {"net": net}))
    except READ_ERRORS as error:
        raise RemnantError(
            f"{path}: expected the model of a run or a learner, but it cannot be read ({error}). Repeat the "
            "command that wrote it."
        ) from error
    check_pretrained(config, pretrained, path)
    network = build_network(config)
    try:
        network.load_state_dict(weights)
    except RuntimeError as error:
        raise RemnantError(f"{path}: expected weights that fit the network, got others ({error}).") from error
    return to_model(config, network, labels)


def to_model(config: Config, network: nn.Module, labels: Sequence[Label]) -> Model:
    """Return the model of a trained network, which includes a frozen backbone."""
    complete, spec = completed(config.net, network, config.data_spec)
    return Model(complete.eval(), spec, tuple(labels))


def check_pretrained(config: Config, expected: Sequence[str], path: Path) -> None:
    """Raise RemnantError if a backbone has other weights than those with which a network was trained."""
    if (found := pretrained_weights(config.net)) != list(expected):
        raise RemnantError(
            f"{path}: expected a pretrained network whose weights have the sha256 "
            f"{''.join(expected)[:16]}..., found {''.join(found)[:16]}... Install the version with which the "
            "model was trained."
        )


def build_network(config: Config) -> nn.Module:
    """Build the network with which a method predicts, untrained and without a frozen backbone."""
    setup = replace(config.setup(), buffer_size=2)  # the buffer stays empty
    learner = config.to_method().build(setup, new_nets(config), Generators.from_seed(0), noise_rate=0.5)
    return learner.network()


def new_nets(config: Config) -> NewNet:
    """Return the function that builds networks on the CPU."""

    def new_net(name: str, *, normed_head: bool = False) -> nn.Module:
        return build_net(config.net, config.spec, derive(config.seed, name), normed_head)

    return new_net


def find_model(folder: Path) -> Path:
    """Return the model file of a run folder, or raise RemnantError."""
    path = folder if folder.is_file() else folder / FILE
    if not path.is_file():
        raise RemnantError(
            f"{folder}: expected a finished run or a saved learner, found no {FILE}. Check the path; a run "
            "that was interrupted is completed by the command that started it."
        )
    return path
