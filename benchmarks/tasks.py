"""What the networks of the benchmarks are trained on, and how: the same for argand's interpreter and for the peers'."""

from typing import NamedTuple

DIVERGENCE_WEIGHT = 1e-4
LEARNING_RATE = 1e-3
MAX_NORM = 0.5


class Task(NamedTuple):
    """The shape of a complex input, the number of classes, and how a network of its size is timed."""

    shape: tuple[int, ...]
    classes: int
    batch: int
    rounds: int
    steps: int


#: by network: the paper's two for MNIST, VGG16 for CIFAR-10, DeepConvNet for windows of sound
TASKS = {
    "dense": Task((784,), 10, batch=128, rounds=7, steps=3),
    "conv": Task((1, 28, 28), 10, batch=128, rounds=7, steps=3),
    "vgg16": Task((3, 32, 32), 10, batch=32, rounds=3, steps=1),
    "deepconv": Task((1, 4096), 84, batch=32, rounds=5, steps=1),
}
