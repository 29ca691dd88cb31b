"""Forward passes that are split between the ranks of a run.

Every rank passes the whole batch to the network and gets the whole output. The network computes the share
of its rank, gathers the outputs of all shares, and adds up the gradients of the weights in the backward
pass. Losses are thus computed from the whole batch, on every rank, as if there was a single process: no
method needs to know about ranks. B samples of a batch, K channels, R ranks.
"""

from functools import cache
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.modules.batchnorm import _BatchNorm

from remnant.engine.parallel.ranks import RankGroup, Share

METHODS = ("forward", "features")  # of networks, as far as they have them


def split(net: nn.Module, group: RankGroup) -> nn.Module:
    """Return the network with split forward passes; its layers see the statistics of the whole batch.

    As in `engine/backend.py`, the classes change, so that names of weights and copies stay as they are.
    """
    for layer in net.modules():
        if isinstance(layer, _BatchNorm):
            layer.__class__ = synchronised(type(layer), group)  # type: ignore[arg-type]
        elif getattr(layer, "needs_whole_batch", False):
            layer.__class__ = gathering(type(layer), group)  # type: ignore[arg-type]
    net.__class__ = splitting(type(net), group)  # type: ignore[arg-type]
    return net


@cache
def splitting(kind: type[nn.Module], group: RankGroup) -> type[nn.Module]:
    """Return a subclass that computes the share of this rank, and returns the outputs of all ranks.

    A batch with fewer samples than ranks is computed by every rank.
    """

    def over_ranks(name: str) -> Any:  # noqa: ANN401
        def method(self: nn.Module, x: Tensor) -> Tensor:
            if group.share is not None or len(x) < group.count:
                return cast(Tensor, getattr(super(result, self), name)(x))
            share = group.share_of(len(x))
            weights = [(f"net.{key}", w) for key, w in self.named_parameters() if w.requires_grad]
            summed = SumOfGradients.apply(group, x, *(w for _, w in weights))  # type: ignore[no-untyped-call]
            shared = {key: w for (key, _), w in zip(weights, summed[1:], strict=True)}
            with group.computing(share):
                own = functional_call(_Call(self, name), shared, summed[0][share.start : share.end])
            return gathered(group, own, share)

        return method

    names = [name for name in METHODS if hasattr(kind, name)]
    result: Any = type(kind.__name__, (kind,), {name: over_ranks(name) for name in names})
    return cast(type[nn.Module], result)


class _Call(nn.Module):
    """A method of a network as a module, which `functional_call` can call."""

    def __init__(self, net: nn.Module, name: str) -> None:
        super().__init__()
        self.net, self.name = net, name

    def forward(self, x: Tensor) -> Tensor:
        """Call the method."""
        return cast(Tensor, getattr(self.net, self.name)(x))


class SumOfGradients(torch.autograd.Function):
    """Tensors that all ranks have, and of whose gradients each rank computes a part."""

    @staticmethod
    def forward(ctx: Any, group: RankGroup, *tensors: Tensor) -> tuple[Tensor, ...]:  # noqa: ANN401
        """Return the tensors."""
        ctx.group = group
        ctx.set_materialize_grads(False)  # a weight that is not used has no gradient
        results = tuple(tensor.view_as(tensor) for tensor in tensors)
        ctx.mark_non_differentiable(
            *(r for r, t in zip(results, tensors, strict=True) if not t.requires_grad)
        )
        return results

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        """Return the sums of the gradients over all ranks, which are exchanged together."""
        known = [gradient for gradient in gradients if gradient is not None]
        if not known:
            return None, *gradients
        flat = ctx.group.sum(torch.cat([gradient.flatten() for gradient in known]))
        parts = iter(flat.split([gradient.numel() for gradient in known]))
        return None, *(g if g is None else next(parts).view(g.shape).to(g.dtype) for g in gradients)


def gathered(group: RankGroup, own: Tensor, share: Share, differs: bool = False) -> Tensor:
    """Return the rows of all ranks, each of which has the rows of its share.

    What is computed from them is the same on all ranks, or, if `differs`, is different: then the gradients
    of all ranks are added up.
    """
    return cast(Tensor, _Gathered.apply(group, own, share, differs))  # type: ignore[no-untyped-call]


class _Gathered(torch.autograd.Function):
    """The function `gathered`."""

    @staticmethod
    def forward(ctx: Any, group: RankGroup, own: Tensor, share: Share, differs: bool) -> Tensor:  # noqa: ANN401
        """Return all rows; adding zeros, which works for shares of any size, does not change a number."""
        ctx.group, ctx.share, ctx.differs = group, share, differs
        rows = own.new_zeros(share.batch, *own.shape[1:])
        rows[share.start : share.end] = own
        return group.sum(rows)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor, None, None]:  # noqa: ANN401
        """Return the gradient of the rows of this rank."""
        whole = ctx.group.sum(gradient.clone()) if ctx.differs else gradient
        return None, whole[ctx.share.start : ctx.share.end], None, None


@cache
def gathering(kind: type[nn.Module], group: RankGroup) -> type[nn.Module]:
    """Return a subclass of a layer that is computed on the whole batch, for example to draw its numbers."""

    def forward(self: nn.Module, x: Tensor) -> Tensor:
        whole, share = super(result, self).forward, group.share
        if share is None:
            return cast(Tensor, whole(x))
        return cast(Tensor, whole(gathered(group, x, share, differs=True))[share.start : share.end])

    result: Any = type(kind.__name__, (kind,), {"forward": forward})
    return cast(type[nn.Module], result)


@cache
def synchronised(kind: type[_BatchNorm], group: RankGroup) -> type[_BatchNorm]:
    """Return a subclass of a BatchNorm layer with the statistics of the whole batch."""

    def forward(self: _BatchNorm, x: Tensor) -> Tensor:
        uses_batch = self.training or self.running_mean is None
        if group.share is None or not uses_batch:
            return cast(Tensor, super(result, self).forward(x))
        wide = x if x.dtype == torch.float64 else x.float()
        count, mean, variance = moments(wide, group)
        if self.training and self.running_mean is not None:
            _update(self, mean.detach(), variance.detach() * count / (count - 1))
        shape = (1, -1, *[1] * (x.dim() - 2))
        scale = (variance + self.eps).rsqrt() if self.weight is None else (
            self.weight * (variance + self.eps).rsqrt()
        )  # fmt: skip
        centred = (wide - mean.view(shape)) * scale.view(shape)
        return (centred if self.bias is None else centred + self.bias.view(shape)).to(x.dtype)

    result: Any = type(kind.__name__, (kind,), {"forward": forward})
    return cast(type[_BatchNorm], result)


def moments(x: Tensor, group: RankGroup) -> tuple[Tensor, Tensor, Tensor]:
    """Return number of values, mean and variance of each channel of (B, K, ...) over all ranks, (K,).

    Each rank sends the mean and the sum of squared differences to it, which are combined without the
    cancellation of E[x^2] - E[x]^2 (Chan et al.).
    """
    others = [i for i in range(x.dim()) if i != 1]
    own_mean = x.mean(others)
    squares = (x - own_mean.view(1, -1, *[1] * (x.dim() - 2))).square().sum(others)
    own_count = own_mean.new_full((1,), x.numel() // x.shape[1])
    row = Share(group.number, group.number + 1, group.count)
    rows = gathered(group, torch.cat([own_count, own_mean, squares])[None], row, differs=True)
    counts, means, squares = rows.split([1, x.shape[1], x.shape[1]], 1)  # (R, 1), (R, K), (R, K)
    count = counts.sum()
    mean = (counts * means).sum(0) / count
    return count, mean, (squares + counts * (means - mean).square()).sum(0) / count


def _update(norm: _BatchNorm, mean: Tensor, variance: Tensor) -> None:
    """Update the running statistics as torch does, with the unbiased variance."""
    assert norm.running_mean is not None
    assert norm.running_var is not None  # for mypy
    weight = norm.momentum
    if norm.num_batches_tracked is not None:
        norm.num_batches_tracked.add_(1)
        weight = weight if weight is not None else 1.0 / float(norm.num_batches_tracked)
    for running, value in ((norm.running_mean, mean), (norm.running_var, variance)):
        running.data.lerp_(value.to(running), weight or 0.0)  # data: torch's own layers save it for backward
