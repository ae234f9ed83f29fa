"""Which kernel is faster for a complex convolution, by shape: the table behind argand.nn.kernels.prefers_stacked.

    python benchmarks/conv_kernels.py [--threads 2] [--repeats 15]

Forward and backward together; "stacked" is one real convolution with the block weight, "native" is torch's complex one.
Inputs of up to three channels are taken for the network's own and get no gradient. With groups the native one was
ahead (1.2 times for 4 groups, 2.4 for 64), so they are not in the table.
"""

import argparse
import statistics
import time

import torch
import torch.nn.functional as F
from torch import Tensor

from argand.nn import kernels

CONVOLUTIONS = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
#: batch, channels in, channels out, kernel, size, dimensions
SHAPES = [
    (128, 1, 20, 5, 28, 2),
    (128, 20, 50, 5, 12, 2),
    (32, 3, 64, 3, 32, 2),
    (32, 32, 64, 3, 32, 2),
    (32, 64, 64, 3, 32, 2),
    (32, 64, 128, 3, 16, 2),
    (32, 128, 128, 3, 16, 2),
    (32, 128, 256, 3, 8, 2),
    (32, 256, 256, 3, 8, 2),
    (32, 256, 512, 3, 4, 2),
    (32, 512, 512, 3, 2, 2),
    (32, 64, 64, 1, 16, 2),
    (32, 256, 256, 1, 8, 2),
    (32, 1, 16, 6, 4096, 1),
    (32, 16, 32, 3, 1023, 1),
    (32, 64, 128, 3, 62, 1),
    (32, 128, 128, 3, 60, 1),
    (32, 256, 256, 3, 60, 1),
    (4, 8, 16, 3, 16, 3),
    (4, 32, 64, 3, 8, 3),
]


def step(kernel: str, x: Tensor, weight: Tensor, bias: Tensor, padding: int) -> float:
    """Milliseconds of one forward and backward pass."""
    convolution = CONVOLUTIONS[weight.dim() - 2]

    def convolve(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return convolution(x, weight, bias, padding=padding)

    begin = time.perf_counter()
    compute = kernels.stacked if kernel == "stacked" else kernels.native
    output = compute(convolve, x, weight, bias)
    output.backward(torch.ones_like(output))
    elapsed = 1e3 * (time.perf_counter() - begin)
    x.grad = weight.grad = bias.grad = None
    return elapsed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=15)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(f"{'shape':<34} {'weights':>9} {'stacked':>9} {'native':>9} {'ratio':>6}  chosen")
    for batch, inputs, outputs, size, length, n in SHAPES:
        shape = (batch, inputs, *[length] * n)
        x = torch.randn(shape, dtype=torch.complex64, requires_grad=inputs > 3)
        weight = torch.randn(outputs, inputs, *[size] * n, dtype=torch.complex64, requires_grad=True)
        bias = torch.randn(outputs, dtype=torch.complex64, requires_grad=True)
        times: dict[str, list[float]] = {"stacked": [], "native": []}
        for repeat in range(options.repeats + 2):
            for kernel, found in times.items():
                elapsed = step(kernel, x, weight, bias, size // 2)
                if repeat >= 2:
                    found.append(elapsed)
        stacked, native = (statistics.median(times[kernel]) for kernel in ("stacked", "native"))
        name = f"{batch}x{inputs}->{outputs} k{size} {'x'.join([str(length)] * n)}"
        chosen = "stacked" if kernels.prefers_stacked(weight, groups=1) else "native"
        print(f"{name:<34} {weight.numel():>9} {stacked:>9.2f} {native:>9.2f} {native / stacked:>6.2f}  {chosen}")


if __name__ == "__main__":
    main()
