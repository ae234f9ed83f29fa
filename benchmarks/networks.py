"""The paper's networks over either field, for the benchmarks.

`COMPLEX[name]()` takes complex inputs of the task's shape. `REAL[name]()` is the real network of about the same floats
("2R": twice the hidden features or channels) on real inputs of the same shape; `REAL[name](width=1)` has as many
features as the complex one.
"""

from collections.abc import Callable
from functools import partial
from itertools import pairwise

from tasks import TASKS
from torch import nn

from argand.study.models import Layers, deep_conv_net, simple_conv, two_layer_dense, vgg16

Maker = Callable[..., nn.Sequential]

MODELS: dict[str, Maker] = {"dense": two_layer_dense, "conv": simple_conv, "vgg16": vgg16, "deepconv": deep_conv_net}


def maker(name: str, field: str, width: float) -> Maker:
    """The function that makes a network, with its `width` as an option."""
    task = TASKS[name]
    return partial(MODELS[name], task.shape, task.classes, field=field, width=width, real_input=False)


COMPLEX = {name: maker(name, "complex", 1) for name in MODELS}
REAL = {name: maker(name, "real", 2) for name in MODELS}


def stack(field: str, hidden: int, depth: int) -> nn.Sequential:
    """784 -> `depth` layers of `hidden` features -> 10, over either field."""
    layers = Layers(field)
    body = [part for a, b in pairwise([784, *[hidden] * depth]) for part in (layers.Linear(a, b), layers.ReLU())]
    return nn.Sequential(*body, layers.Linear(hidden, 10), *layers.end())
