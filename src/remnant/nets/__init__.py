"""Networks: a small convolutional network, ResNets and EfficientGCN, built by name or by a factory."""

from remnant.nets.head import NormedHead as NormedHead
from remnant.nets.registry import (
    NETS as NETS,
    CifarResNet as CifarResNet,
    EfficientGcnB0 as EfficientGcnB0,
    Net as Net,
    PhotoResNet as PhotoResNet,
    Small as Small,
    build as build,
    check_fits as check_fits,
)
