"""A network made of a function and layers, for tests of what a forward may look like."""

from torch import nn


class Runs(nn.Module):
    """Layers, and a forward given as a function of the module and its input."""

    def __init__(self, forward, **layers):
        super().__init__()
        self.function = forward
        for name, layer in layers.items():
            setattr(self, name, layer)

    def forward(self, x):
        return self.function(self, x)
