"""How a network with two heads learns from labelled and unlabelled rows.

The first head answers and learns from labels; the second one alone is taught by guesses. n labelled
rows, m unlabelled ones, C classes.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from remnant.augment import beta, mixup
from remnant.cnll.settings import Cnll
from remnant.consolidate.labels import sharpen, soft_cross_entropy, squared_error, uniformity
from remnant.data.source import AnyView
from remnant.predict import predict


class TwoHeads(nn.Module):
    """A network, h1, and a second head, h2, that sees the same features."""

    def __init__(self, net: nn.Module, other: nn.Module) -> None:
        """Borrow the head of `other`, which is of no use otherwise."""
        super().__init__()
        self.net, self.second = net, cast(nn.Linear, other.head)

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
    """Two views of each row of a step, the second ones after the first, and a blend of all of them."""

    labelled: Tensor  # (2n, *shape) weak
    onehot: Tensor  # (n, C)
    weak: Tensor  # (2m, *shape) unlabelled rows, to guess their labels by
    strong: Tensor  # (2m, *shape) the same rows, to learn from
    share: Tensor  # (1,) of MixUp
    other: Tensor  # (2n + 2m,) whom each view is blended with


class Looks(NamedTuple):
    """How raw rows are looked at."""

    view: AnyView
    rng: torch.Generator

    def weak(self, x: Tensor) -> Tensor:
        """Return a cropped and flipped view."""
        return self.view.augmented(x, self.rng)

    def strong(self, x: Tensor) -> Tensor:
        """Return a view that is strongly augmented as well."""
        return self.view.strong(x, self.rng)

    def views(self, x: Tensor, onehot: Tensor, unlabelled: Tensor, parameter: float) -> Views:
        """Draw all that a step of fine-tuning looks at."""
        twice = range(2)
        return Views(
            torch.cat([self.weak(x) for _ in twice]),
            onehot,
            torch.cat([self.weak(unlabelled) for _ in twice]),
            torch.cat([self.strong(unlabelled) for _ in twice]),
            beta(parameter, 1, self.rng),
            torch.randperm(2 * (len(x) + len(unlabelled)), generator=self.rng),
        )


class Loss(NamedTuple):
    """The two parts of a loss."""

    supervised: Tensor  # on h1 and the features
    unsupervised: Tensor  # on h2 and the features


def fine_tuning_loss(net: TwoHeads, views: Views, how: Cnll, epoch: float, seen: Tensor) -> Loss:
    """Return CE(h1) and 0.1 lambda_u MSE(h2) + KL(uniform || mean h2), after MixUp over all views.

    Labels of unlabelled rows are guessed by h1, in eval mode, from their weak views; the uniform
    distribution is over the classes `seen`, (C,).
    """
    labelled, classes = len(views.labelled), len(seen)
    target = [views.onehot] * 2
    if len(views.weak):
        p = predict(net, views.weak, lambda part: part).softmax(1)
        target += [sharpen(p.view(2, -1, classes).mean(0), how.temperature)] * 2
    x = torch.cat([views.labelled, views.strong])
    x, mixed = mixup(x, torch.cat(target), views.share, views.other)
    net.train()
    first, second = net.both(x)
    consistent = squared_error(second[labelled:], mixed[labelled:])
    return Loss(
        soft_cross_entropy(first[:labelled], mixed[:labelled]),
        0.1 * how.weight(epoch) * consistent + uniformity(second, seen),
    )


def warm_up_loss(net: TwoHeads, x: Tensor, onehot: Tensor, confidence_penalty: bool) -> Tensor:
    """Return the cross-entropy of h1, less the entropy of its predictions if they are to stay modest."""
    net.train()
    log = net(x).log_softmax(1)
    wanted = onehot - log.exp() if confidence_penalty else onehot
    return cast(Tensor, -(wanted * log).sum(1).mean())
