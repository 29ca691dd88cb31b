"""Semi-supervised training of a network with two heads.

The first head is used for predictions and trained on labels; the second one is trained on guessed
labels. n labelled samples, m unlabelled ones, C classes.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from remnant.data.dataset import Transform
from remnant.engine.inference import predict
from remnant.methods.cnll.method import Cnll
from remnant.methods.consolidation.soft_labels import (
    sharpen,
    soft_cross_entropy,
    squared_error,
    uniformity,
)
from remnant.nets.head import linear_head
from remnant.transforms.mixing import beta, mixup


class TwoHeads(nn.Module):
    """A network with its head h1 and a second head h2 on the same features."""

    def __init__(self, net: nn.Module, other: nn.Module) -> None:
        """Use the head of `other` as h2; the rest of `other` is not used."""
        super().__init__()
        self.net, self.second = net, linear_head(other, "CNLL adds a second head", needs_features=True)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits of h1."""
        return cast(Tensor, self.net(x))

    def both(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the logits of h1 and of h2."""
        net = cast(Any, self.net)
        features = net.features(x)
        return net.head(features), self.second(features)


@dataclass(frozen=True, eq=False)
class Views:
    """Two augmented views of each sample of a step, first views first, and how MixUp blends them."""

    labelled: Tensor  # (2n, *shape) weakly augmented
    onehot: Tensor  # (n, C)
    weak: Tensor  # (2m, *shape) unlabelled samples, to guess their labels
    strong: Tensor  # (2m, *shape) the same samples, to train on
    weight: Tensor  # (1,) of MixUp
    other: Tensor  # (2n + 2m,) index of the view that each view is blended with


class Augmenter(NamedTuple):
    """Weak and strong augmentation of raw inputs."""

    transform: Transform
    rng: torch.Generator

    def weak(self, x: Tensor) -> Tensor:
        """Return a weakly augmented view of each input."""
        return self.transform.augmented(x, self.rng)

    def strong(self, x: Tensor) -> Tensor:
        """Return a strongly augmented view of each input."""
        return self.transform.strong(x, self.rng)

    def views(self, x: Tensor, onehot: Tensor, unlabelled: Tensor, parameter: float) -> Views:
        """Draw the views of a fine-tuning step; `parameter` is that of the Beta distribution of MixUp."""
        return Views(
            torch.cat([self.weak(x) for _ in range(2)]),
            onehot,
            torch.cat([self.weak(unlabelled) for _ in range(2)]),
            torch.cat([self.strong(unlabelled) for _ in range(2)]),
            beta(parameter, 1, self.rng),
            torch.randperm(2 * (len(x) + len(unlabelled)), generator=self.rng),
        )


class FineTuningLoss(NamedTuple):
    """The supervised and the unsupervised part of the loss."""

    supervised: Tensor  # trains h1 and the features
    unsupervised: Tensor  # trains h2 and the features


def fine_tuning_loss(
    net: TwoHeads, views: Views, settings: Cnll, epoch: float, seen: Tensor
) -> FineTuningLoss:
    """Return CE(h1) and 0.1 lambda_u MSE(h2) + KL(uniform || mean h2), after MixUp over all views.

    Labels of unlabelled samples are guessed by h1, in eval mode, from their weakly augmented views; the
    uniform distribution is over the classes `seen`, (C,).
    """
    labelled, classes = len(views.labelled), len(seen)
    target = [views.onehot] * 2
    if len(views.weak):
        p = predict(net, views.weak, lambda part: part).softmax(1)
        target += [sharpen(p.view(2, -1, classes).mean(0), settings.temperature)] * 2
    x = torch.cat([views.labelled, views.strong])
    x, mixed = mixup(x, torch.cat(target), views.weight, views.other)
    net.train()
    first, second = net.both(x)
    consistent = squared_error(second[labelled:], mixed[labelled:])
    return FineTuningLoss(
        soft_cross_entropy(first[:labelled], mixed[:labelled]),
        0.1 * settings.unlabelled_weight(epoch) * consistent + uniformity(second, seen),
    )


def warm_up_loss(net: TwoHeads, x: Tensor, onehot: Tensor, confidence_penalty: bool) -> Tensor:
    """Return the cross-entropy of h1, with `confidence_penalty` minus the entropy of its predictions."""
    net.train()
    log = net(x).log_softmax(1)
    target = onehot - log.exp() if confidence_penalty else onehot
    return cast(Tensor, -(target * log).sum(1).mean())
