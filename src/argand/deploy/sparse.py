"""Inference on sparse kernels: complex layers as real ones on stacked parts, of which only kept weights are multiplied.

A kept complex weight a + jb becomes the four entries of [[a, -b], [b, a]] in one real matrix in compressed rows. One
product with it took as long as two with half the rows on packed [re im] columns, and needs no sums afterwards.
"""

import copy
import time
import warnings
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from argand.deploy.stacked import dense_form, stack, ungrouped
from argand.errors import ArgandError
from argand.graph import Network, trace, values_of
from argand.graph.steps import STILL_VARIATIONAL

#: The largest kept share at which compressed rows win at batch 1: `benchmarks/deploy.py` prints the table.
LARGEST_SHARE = {"linear": 0.05, "conv": 0.1}
ROUNDS, SECONDS = 7, 2e-3  # a layer is timed so often, each time for so long


def sparse(net: nn.Module, example: Tensor | tuple[Tensor, ...] | None = None) -> Network:
    """A plain network for inference, in real arithmetic, whose layers multiply kept weights only where that is faster.

    Complex values are held as stacked parts [re; im] inside; inputs and outputs are the original's. A layer becomes
    sparse below the kept share up to which compressed rows won in a benchmark; with an example, what is fastest on it
    in a timing now is taken. The result can't be trained, saved or exported, and may share tensors with the original.

    >>> net = nn.Sequential(nn.Linear(100, 50), nn.ReLU(), nn.Linear(50, 10))
    >>> with torch.no_grad():
    ...     net[0].weight[:, 1:] = 0
    >>> argand.sparse(net)
    Network(
      (0): SparseLinear(in_features=100, out_features=50, kept=50, share=1.00 %)
      (1): ReLU()
      (2): Linear(in_features=50, out_features=10, bias=True)
    )
    """
    graph = trace(net)
    for step in graph.steps:
        if step.kind == "Variational":
            raise ArgandError(f"{step.at} {STILL_VARIATIONAL}")
    if example is not None:
        values_of(graph, example)  # refuses one that does not fit, in the original's words
    made: set[nn.Module] = set()

    def dense(layer: nn.Module, bare: bool) -> nn.Module:
        real = dense_form(layer, bare)
        made.add(real := copy.copy(real) if real is layer else real)
        return real

    result = Network(stack(graph, dense)).eval().requires_grad_(False)
    inputs = {} if example is None else _inputs(result, example)
    for path, layer in list(result.named_modules()):
        if layer in made:
            result.set_submodule(path, _by_share(layer) if example is None else _by_time(layer, inputs[layer]))
    return result


def _by_share(layer: nn.Module) -> nn.Module:
    weight = layer.get_parameter("weight")
    largest = LARGEST_SHARE["linear" if isinstance(layer, nn.Linear) else "conv"]
    return _kernels(layer)[0] if float((weight != 0).float().mean()) <= largest else layer


def _by_time(layer: nn.Module, x: Tensor) -> nn.Module:
    return min([layer, *_kernels(layer)], key=lambda kernel: _seconds(kernel, x))


def _kernels(layer: nn.Module) -> list[nn.Module]:
    if isinstance(layer, nn.Linear):
        return [SparseLinear(layer)]
    return [GatheringConv(layer), GatheringConv(layer, compressed=False)]


def _inputs(net: Network, example: Tensor | tuple[Tensor, ...]) -> dict[nn.Module | None, Tensor]:
    """What each layer is given when the network runs on the example."""
    graph = net.graph
    values = values_of(graph, example)
    return {step.layer: values[step.inputs[0]] for step in graph.steps}


def _seconds(layer: nn.Module, x: Tensor) -> float:
    """The shortest of several timings."""
    best = float("inf")
    with torch.inference_mode():
        layer(x)
        for _ in range(ROUNDS):
            calls, begin = 0, time.perf_counter()
            while (passed := time.perf_counter() - begin) < SECONDS or calls < 2:
                layer(x)
                calls += 1
            best = min(best, passed / calls)
    return best


def _compressed(matrix: Tensor) -> Tensor:
    """A matrix in compressed rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the layout is in beta
        rows = matrix.contiguous().to_sparse_csr()
        indices = rows.crow_indices().int(), rows.col_indices().int()  # a third faster than with 64 bits
        return torch.sparse_csr_tensor(*indices, rows.values(), rows.shape)


class _Rows(nn.Module):
    """What both kernels share: a matrix and a bias."""

    rows: Tensor
    bias: Tensor | None

    def __init__(self, layer: Any, rows: Tensor) -> None:
        super().__init__()
        self.kept, self.total = int((layer.weight != 0).sum()), layer.weight.numel()
        self.register_buffer("rows", rows, persistent=False)
        self.register_buffer("bias", None if layer.bias is None else layer.bias.detach().unsqueeze(1))

    def product(self, columns: Tensor) -> Tensor:
        """Matrix times columns, plus the bias."""
        result = self.rows @ columns
        return result if self.bias is None else result + self.bias

    def _words(self) -> str:
        return f"kept={self.kept}, share={100 * self.kept / self.total:.2f} %"


class SparseLinear(_Rows):
    """y = Wx + b with a sparse real W, on the last axis."""

    def __init__(self, layer: Any) -> None:
        super().__init__(layer, _compressed(layer.weight.detach()))
        self.in_features, self.out_features = layer.in_features, layer.out_features

    def forward(self, input: Tensor) -> Tensor:
        """Multiply the kept weights."""
        columns = input.reshape(-1, self.in_features).t()
        return self.product(columns).t().reshape(*input.shape[:-1], self.out_features)

    def extra_repr(self) -> str:
        """Sizes."""
        return f"in_features={self.in_features}, out_features={self.out_features}, {self._words()}"


class GatheringConv(_Rows):
    """A real convolution as a product with the input positions that a kept weight reads, and no others.

    The matrix is in compressed rows, or dense (for few channels that is faster than torch's convolution).
    """

    taps: Tensor

    def __init__(self, layer: Any, compressed: bool = True) -> None:
        matrix = ungrouped(layer).flatten(1)
        used = (matrix != 0).any(0).nonzero().flatten()
        used = used if len(used) else used.new_zeros(1)
        rows = matrix[:, used].contiguous()
        super().__init__(layer, _compressed(rows) if compressed else rows)
        shape = (layer.in_channels, *layer.kernel_size)
        self.channels, self.outputs, self.compressed = layer.in_channels, layer.out_channels, compressed
        self.kernel, self.stride, self.dilation = layer.kernel_size, layer.stride, layer.dilation
        self.pad_mode = "constant" if layer.padding_mode == "zeros" else layer.padding_mode
        self.padding: list[int] = list(layer._reversed_padding_repeated_twice)
        self.register_buffer("taps", torch.stack(torch.unravel_index(used, shape)), persistent=False)
        self._geometry: tuple[tuple[int, ...], Tensor, list[int]] | None = None

    def forward(self, input: Tensor) -> Tensor:
        """Gather and multiply."""
        batched = input if input.dim() == len(self.kernel) + 2 else input.unsqueeze(0)
        padded = F.pad(batched, self.padding, self.pad_mode) if any(self.padding) else batched
        index, sizes = self._gathering(tuple(padded.shape[2:]))
        batch, count = len(padded), self.taps.shape[1]
        if batch == 1:
            columns = padded.reshape(-1).index_select(0, index).view(count, -1)
            output = self.product(columns).view(1, self.outputs, *sizes)
        else:
            gathered = padded.reshape(batch, -1).index_select(1, index).view(batch, count, -1)
            columns = gathered.transpose(0, 1).reshape(count, -1)
            output = self.product(columns).view(self.outputs, batch, *sizes).transpose(0, 1)
        return output if batched is input else output.squeeze(0)

    def _gathering(self, shape: tuple[int, ...]) -> tuple[Tensor, list[int]]:
        """Where in a flattened sample each tap finds its value for each output position; kept for the last shape."""
        if self._geometry is None or self._geometry[0] != shape:
            axes = list(zip(shape, self.kernel, self.stride, self.dilation, strict=True))
            sizes = [(m - d * (k - 1) - 1) // s + 1 for m, k, s, d in axes]
            index = self.taps[0].view(-1, *(1,) * len(axes))
            for axis, ((m, _, s, d), count) in enumerate(zip(axes, sizes, strict=True)):
                shifts = torch.arange(count, device=index.device).mul(s)
                along = shifts.view(*(-1 if i == axis else 1 for i in range(len(axes))))
                index = index * m + along + d * self.taps[1 + axis].view(-1, *(1,) * len(axes))
            self._geometry = shape, index.flatten(), sizes
        return self._geometry[1], self._geometry[2]

    def extra_repr(self) -> str:
        """Sizes."""
        kind = "" if self.compressed else ", dense"
        return f"{self.channels}, {self.outputs}, kernel_size={tuple(self.kernel)}, {self._words()}{kind}"
