"""Which of torch's two libraries is faster for a real product on a CPU, by shape: the table behind argand.nn.product.

    python benchmarks/products.py [--threads 2] [--repeats 25]

Microseconds of x @ W.T and of its two gradients, each the least of the repeats.
"""

import argparse
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from argand.nn.product import prefers_onednn

#: rows, features in, features out
SHAPES = [
    *((1, 784, 4096), (8, 100, 100), (32, 64, 64), (128, 100, 10), (128, 784, 10), (128, 256, 128), (128, 256, 256)),
    *((128, 8192, 20), (128, 800, 500), (128, 1600, 1000), (256, 1568, 4096), (32, 3712, 2048), (128, 784, 4096)),
]


def least(compute: Callable[[], Tensor], repeats: int) -> float:
    """Microseconds of the fastest call."""
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        compute()
        times.append(1e6 * (time.perf_counter() - begin))
    return min(times)


def onednn(x: Tensor, weight: Tensor) -> Tensor:
    """x @ weight.T through oneDNN."""
    output: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, None, "none", [], "")
    return output


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=25)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(f"{'':<20} {'output':^22} {'by x':^22} {'by W':^22}")
    print(f"{'shape':<20} " + " ".join(f"{w:>6}" + " " for w in ("MKL", "oneDNN", "ratio") * 3) + "chosen")
    for rows, inputs, outputs in SHAPES:
        x, weight, grad = torch.randn(rows, inputs), torch.randn(outputs, inputs), torch.randn(rows, outputs)
        numbers = []
        for a, b in ((x, weight), (grad, weight.t()), (grad.t(), x.t())):
            ours = least(lambda a=a, b=b: onednn(a, b), options.repeats)
            theirs = least(lambda a=a, b=b: F.linear(a, b), options.repeats)
            numbers += [f"{theirs:>6.0f}", f"{ours:>6.0f}", f"{theirs / ours:>6.2f}"]
        chosen = "oneDNN" if prefers_onednn(x, weight) else "MKL"
        print(f"{rows}x{inputs}->{outputs}".ljust(20), "  ".join(numbers), " " + chosen)


if __name__ == "__main__":
    main()
