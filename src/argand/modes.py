"""Training and evaluation mode, set for a while."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def evaluation(*networks: nn.Module, but: Iterable[nn.Module] = ()) -> Iterator[None]:
    """Every module of the networks in evaluation mode, those in `but` in training; the modes come back at the end.

    >>> net = nn.Sequential(nn.Dropout())
    >>> with evaluation(net):
    ...     net[0].training
    False
    >>> net[0].training
    True
    """
    modes = {module: module.training for net in networks for module in net.modules()}
    for module in modes:
        module.training = False
    for module in but:
        module.training = True
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode
