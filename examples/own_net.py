"""A custom network: a function that takes the Spec of a dataset and returns a torch module.

remnant run net=examples/own_net.py:perceptron
"""

import math

import remnant
from torch import nn


def perceptron(spec: remnant.Spec) -> nn.Module:
    """Return a network of two linear layers."""
    inputs = math.prod(spec.shape)
    return nn.Sequential(nn.Flatten(), nn.Linear(inputs, 128), nn.ReLU(), nn.Linear(128, len(spec.classes)))


if __name__ == "__main__":
    print(remnant.run(net=perceptron, epochs=6))
