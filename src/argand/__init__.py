"""Bayesian sparsification of complex- and real-valued neural networks.

A network of your own, in your own training loop: `sparsify` it, add `divergence` to the loss, take the `masks`,
`collapse` it, and fine-tune under `masks.pin`. Then make it `compact`, `save` it as a small file, run it on `sparse`
kernels, or write it as C or ONNX.
"""

from argand import nn, optim, priors
from argand.deploy.c import export_c
from argand.deploy.compact import compact
from argand.deploy.onnx import export_onnx
from argand.deploy.pack import save
from argand.deploy.quantise import quantise
from argand.deploy.sparse import sparse
from argand.deploy.unpack import load
from argand.errors import ArgandError, ArgandWarning
from argand.gradient import divergence_backward
from argand.priors import Prior
from argand.pruning import Masks, masks
from argand.summary import Report, report
from argand.surgery import collapse, sparsify
from argand.thresholds import Sweep, sweep
from argand.twin import planar
from argand.variational import Prediction, Variational, divergence, log_alpha, predict

__version__ = "0.1.0"

__all__ = [
    "ArgandError",
    "ArgandWarning",
    "Masks",
    "Prediction",
    "Prior",
    "Report",
    "Sweep",
    "Variational",
    "collapse",
    "compact",
    "divergence",
    "divergence_backward",
    "export_c",
    "export_onnx",
    "load",
    "log_alpha",
    "masks",
    "nn",
    "optim",
    "planar",
    "predict",
    "priors",
    "quantise",
    "report",
    "save",
    "sparse",
    "sparsify",
    "sweep",
]
