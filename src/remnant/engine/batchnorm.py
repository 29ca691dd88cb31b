"""BatchNorm statistics that are estimated again on given samples."""

import copy

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from remnant.engine.inference import CHUNK, Prepare, device_of


def recalibrated(net: nn.Module, x: Tensor, prepare: Prepare) -> nn.Module:
    """Return a copy of a network whose BatchNorm layers have the statistics of raw inputs x (n, ...).

    The samples are split into batches of about equal size, whose statistics are averaged. Neighbours are in
    different batches, since the samples of a buffer may be in the order of their classes. A network without
    BatchNorm is returned as it is, and so is any network for fewer than two samples.
    """
    if len(x) < 2 or not _layers(net):
        return net
    net, device = copy.deepcopy(net).eval(), device_of(net)
    for layer in _layers(net):
        layer.reset_running_stats()
        layer.momentum = None  # the mean over batches, instead of a moving average
        layer.train()
    batches = -(-len(x) // CHUNK)
    with torch.no_grad():
        for first in range(batches):
            net(prepare(x[first::batches].to(device)))
    return net.eval()


def _layers(net: nn.Module) -> list[_BatchNorm]:
    """Return the layers that have statistics."""
    return [layer for layer in net.modules() if isinstance(layer, _BatchNorm) and layer.track_running_stats]
