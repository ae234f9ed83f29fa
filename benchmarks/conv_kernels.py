"""Which kernel is faster for a complex convolution, by shape: the table behind argand.nn.kernels.

    python benchmarks/conv_kernels.py [--threads 2] [--repeats 15]

Forward and backward together, in milliseconds; "real" is one real convolution on interleaved channels with the block
weight, "native" is torch's complex one; each for inputs in torch's usual order and with the channels last. Inputs of up
to three channels are taken for the network's own and get no gradient. The last rows have groups.
"""

import argparse
import statistics
import time
from unittest import mock

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


#: groups of the shapes above; the others have one
GROUPED = [(32, 64, 64, 3, 16, 2, 4), (32, 64, 64, 3, 16, 2, 64)]


def step(real: bool, groups: int, x: Tensor, weight: Tensor, bias: Tensor, padding: int) -> float:
    """Milliseconds of one forward and backward pass."""
    convolution = CONVOLUTIONS[weight.dim() - 2]

    def convolve(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return convolution(x, weight, bias, padding=padding, groups=groups)

    begin = time.perf_counter()
    with mock.patch.object(kernels, "prefers_real_convolution", return_value=real):
        output = kernels.complex_convolution(convolve, x, weight, bias, groups)
    output.backward(torch.ones_like(output))
    elapsed = 1e3 * (time.perf_counter() - begin)
    x.grad = weight.grad = bias.grad = None
    return elapsed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=15)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    ways = [(real, last) for last in (False, True) for real in (True, False)]
    print(f"{'':<44} {'usual order':^23} {'channels last':^23}")
    print(f"{'shape':<34} {'weights':>9} " + " ".join(f"{w:>7}" for w in ("real", "native", "ratio") * 2) + "  chosen")
    for batch, inputs, outputs, size, length, n, groups in [*((*shape, 1) for shape in SHAPES), *GROUPED]:
        shape = (batch, inputs, *[length] * n)
        usual = torch.randn(shape, dtype=torch.complex64)
        weight = torch.randn(outputs, inputs // groups, *[size] * n, dtype=torch.complex64, requires_grad=True)
        bias = torch.randn(outputs, dtype=torch.complex64, requires_grad=True)
        times: dict[tuple[bool, bool], list[float]] = {way: [] for way in ways}
        for _ in range(options.repeats + 2):
            for (real, last), found in times.items():
                x = (kernels.to_channels_last(usual) if last else usual).detach().requires_grad_(inputs > 3)
                found.append(step(real, groups, x, weight, bias, size // 2))
        ms = {way: statistics.median(found[2:]) for way, found in times.items()}
        name = f"{batch}x{inputs}->{outputs} k{size} {'x'.join([str(length)] * n)}" + (
            f" g{groups}" if groups > 1 else ""
        )
        numbers = [[ms[True, last], ms[False, last], ms[False, last] / ms[True, last]] for last in (False, True)]
        chosen = "real" if kernels.prefers_real_convolution(usual, weight, groups) else "native"
        print(
            f"{name:<34} {weight.numel():>9} " + " ".join(f"{v:>7.2f}" for row in numbers for v in row) + f"  {chosen}"
        )


if __name__ == "__main__":
    main()
