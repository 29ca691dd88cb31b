import subprocess
import sys

import pytest
import torch

from remnant.nets.resnet import ResidualBlock, ResNet, photo_stem, small_stem


def test_the_photo_stem_divides_height_and_width_by_four() -> None:
    net, x = ResNet(photo_stem(3, 4), 101, (1, 1, 1, 1), 4), torch.randn(2, 3, 224, 224)
    assert net.stem(x).shape == (2, 4, 56, 56)
    assert net.stages(net.stem(x)).shape == (2, 32, 7, 7)
    assert net(x).shape == (2, 101)


def test_the_small_stem_keeps_the_image_size() -> None:
    net, x = ResNet(small_stem(3, 4), 100, (2, 2, 2, 2), width=4), torch.randn(2, 3, 32, 32)
    assert net.stem(x).shape == (2, 4, 32, 32)
    assert net(x).shape == (2, 100)
    assert net.features(x).shape == (2, 32)


def test_the_shortcut_equals_a_strided_convolution() -> None:
    block, x = ResidualBlock(4, 8, stride=2).eval(), torch.randn(3, 4, 9, 9)
    conv, norm = block.shortcut
    shortcut = norm(torch.nn.functional.conv2d(x, conv.weight, stride=2))
    out = block.bn2(block.conv2(torch.relu(block.bn1(block.conv1(x)))))
    assert torch.allclose(block(x), torch.relu(out + shortcut), atol=1e-6)


@pytest.mark.slow
def test_a_narrow_resnet_does_not_crash_with_odd_batches_and_two_threads() -> None:
    """In a separate process, because the bug in torch that is worked around ends the process."""
    program = """
import torch
from remnant.nets.resnet import ResNet, small_stem
torch.set_num_threads(2)
net = ResNet(small_stem(3, 8), 10, (2, 2, 2, 2), 8).to(memory_format=torch.channels_last)
for _ in range(10):
    net(torch.randn(21, 3, 32, 32).to(memory_format=torch.channels_last)).sum().backward()
"""
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
