"""A network in real arithmetic on [re; im], sharing its parameters: for compilers, exporters and training speed.

`parts` are complex values as pairs, `forms` what each layer does to them, `network` the module, `frozen` its real core.
"""

from argand.twin.frozen import Frozen, freeze
from argand.twin.network import Planar, planar

__all__ = ["Frozen", "Planar", "freeze", "planar"]
