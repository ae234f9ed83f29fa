"""A network as a graph of known layers and functions: what is compacted, stored, and written as a program.

`kinds` is the vocabulary; `nodes` reads a network with torch.fx, `trace` makes steps of it, `network` runs them again.
"""

from argand.graph.kinds import KINDS, Kind, activation_of, build, kind_of, options_of
from argand.graph.network import Network, values_of
from argand.graph.steps import FUNCTIONS, Graph, Step
from argand.graph.trace import trace

__all__ = [
    "FUNCTIONS",
    "KINDS",
    "Graph",
    "Kind",
    "Network",
    "Step",
    "activation_of",
    "build",
    "kind_of",
    "options_of",
    "trace",
    "values_of",
]
