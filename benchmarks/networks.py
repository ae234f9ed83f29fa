"""The paper's two MNIST networks, complex and real, for the benchmarks."""

from torch import nn

import argand.nn as ann


def complex_dense() -> nn.Sequential:
    """784 -> 4096 -> 10 with split ReLU; logits are the real part."""
    return nn.Sequential(ann.Linear(784, 4096), ann.ReLU(), ann.Linear(4096, 10), ann.Real())


def complex_conv() -> nn.Sequential:
    """SimpleConv: two convolutions of 5 x 5, each averaged over 2 x 2, and two linear layers."""
    return nn.Sequential(
        *(ann.Conv2d(1, 20, 5), ann.ReLU(), ann.AvgPool2d(2)),
        *(ann.Conv2d(20, 50, 5), ann.ReLU(), ann.AvgPool2d(2)),
        *(nn.Flatten(), ann.Linear(800, 500), ann.ReLU()),
        *(ann.Linear(500, 10), ann.Real()),
    )


def real_dense(width: int = 2) -> nn.Sequential:
    """The real network of `width` times the hidden features: 2 gives about the complex one's floats."""
    return nn.Sequential(nn.Linear(784, 4096 * width), nn.ReLU(), nn.Linear(4096 * width, 10))


def real_conv(width: int = 2) -> nn.Sequential:
    """SimpleConv over the reals, with `width` times the hidden channels and features."""
    return nn.Sequential(
        *(nn.Conv2d(1, 20 * width, 5), nn.ReLU(), nn.AvgPool2d(2)),
        *(nn.Conv2d(20 * width, 50 * width, 5), nn.ReLU(), nn.AvgPool2d(2)),
        *(nn.Flatten(), nn.Linear(800 * width, 500 * width), nn.ReLU()),
        nn.Linear(500 * width, 10),
    )


SHAPES = {"dense": (784,), "conv": (1, 28, 28)}
COMPLEX = {"dense": complex_dense, "conv": complex_conv}
REAL = {"dense": real_dense, "conv": real_conv}
