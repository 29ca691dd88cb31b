"""Networks: a small convolutional network, ResNets, EfficientGCN and heads on pretrained backbones.

They are built by name or by a factory.
"""

from remnant.nets.head import NormedHead as NormedHead
from remnant.nets.pretrained.backbone import Backbone as Backbone
from remnant.nets.pretrained.features import Features as Features
from remnant.nets.registry import (
    NETS as NETS,
    CifarResNet as CifarResNet,
    EfficientGcnB0 as EfficientGcnB0,
    Net as Net,
    PhotoResNet as PhotoResNet,
    Small as Small,
    adapted as adapted,
    build as build,
    check_fits as check_fits,
    completed as completed,
    pretrained_weights as pretrained_weights,
)
