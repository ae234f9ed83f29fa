"""What pruning gains: bytes, and the latency of dense, sparse and C inference.

    python benchmarks/deploy.py [--model examples/simple_conv.argand] [--threads 1] [--json FILE] [--quick]

The model is the example's complex SimpleConv, pruned on MNIST. "dense" is that network, before anything was removed,
in torch's own complex layers (where torch has none, as for pooling, in argand's). A second network, 784 -> 4096 -> 10
with 1 weight in 107 kept at random, is the paper's dense one at a compression of 100. At last the largest kept shares
at which the sparse kernels win, one layer alone: where `argand.deploy.sparse.LARGEST_SHARE` comes from.

All contestants take turns in one run; a figure is the median of nine rounds. What counts are the ratios.
"""

import argparse
import copy
import json
import platform
import tempfile
from pathlib import Path

import torch
from torch import nn

import argand
import argand.graph
import argand.nn as ann
from argand.deploy.c import export_c
from argand.deploy.measure import c_seconds, latency, torch_seconds
from argand.deploy.sparse import GatheringConv, SparseLinear
from argand.surgery import replace

EXAMPLE = Path(__file__).parent.parent / "examples" / "simple_conv.argand"


def in_torch(net):
    """The same network with torch's own complex linear layers and convolutions."""

    def convert(path, layer):
        name = type(layer).__name__
        if not isinstance(layer, ann.Linear | ann.Conv2d):
            return None
        options = argand.graph.options_of(layer)
        twin = getattr(nn, name)(**options, dtype=torch.complex64)
        twin.load_state_dict(layer.state_dict())
        return twin

    return replace(copy.deepcopy(net), convert).eval()


def dense_network():
    """784 -> 4096 -> 10, compressed 100 times in floats."""
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Flatten(), ann.ToComplex(), ann.Linear(784, 4096), ann.ReLU(), ann.Linear(4096, 10), ann.Real()
    )
    with torch.no_grad():
        for layer in (net[2], net[4]):
            layer.weight.mul_(torch.rand(layer.weight.shape) < 0.0087)
    return net.eval()


def sizes(net, small):
    """Bytes of the files beside those of the dense network."""
    report = argand.report(net)
    found = {"dense": report.total.dense_bytes, "compression": report.compression}
    with tempfile.TemporaryDirectory() as folder:
        for dtype in ("fp32", "fp16", "int16", "int8"):
            found[dtype] = argand.save(small, f"{folder}/net.argand", dtype=dtype)
    found["allowed fp32"] = report.total.dense_bytes / report.compression / 0.8
    return found


def latencies(net, small, batch, threads, with_c):
    x = torch.randn(batch, 1, 28, 28)
    torch.set_num_threads(threads)
    contestants = {
        "dense, torch's layers": torch_seconds(in_torch(net), (x,)),
        "dense, argand's layers": torch_seconds(net, (x,)),
        "compact": torch_seconds(small, (x,)),
        "sparse": torch_seconds(argand.sparse(net, x), (x,)),
        "sparse, compact": torch_seconds(argand.sparse(small, x), (x,)),
    }
    with tempfile.TemporaryDirectory() as folder:
        if with_c:
            print(export_c(small, x, folder))
            contestants["C, compact"] = c_seconds(Path(folder))
        return latency(contestants, batch, threads)


def shares(threads, grid):
    """By kind and shape, the largest share of the grid at which the sparse kernel is faster than the dense one."""
    torch.set_num_threads(threads)
    made = {
        "linear 800 -> 500": (nn.Linear(800, 500), torch.randn(1, 800), SparseLinear),
        "linear 1600 -> 1000": (nn.Linear(1600, 1000), torch.randn(1, 1600), SparseLinear),
        "conv 40 -> 100, 5 x 5 on 12": (nn.Conv2d(40, 100, 5), torch.randn(1, 40, 12, 12), GatheringConv),
        "conv 128 -> 128, 3 x 3 on 16": (nn.Conv2d(128, 128, 3), torch.randn(1, 128, 16, 16), GatheringConv),
    }
    found = {}
    for name, (layer, x, kernel) in made.items():
        won = [0.0]
        full = layer.weight.detach().clone()
        for share in grid:
            with torch.no_grad():
                layer.weight.copy_(full * (torch.rand(full.shape) < share))
            timed = latency(
                {"dense": torch_seconds(layer, (x,), 5e-3), "sparse": torch_seconds(kernel(layer), (x,), 5e-3)},
                1,
                threads,
            ).microseconds
            if timed["sparse"] < timed["dense"]:
                won.append(share)
        found[name] = max(won)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=EXAMPLE)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write everything here")
    parser.add_argument("--quick", action="store_true", help="no table of shares, no batch of 64")
    options = parser.parse_args()
    net = argand.load(options.model)
    result = {"torch": torch.__version__, "machine": platform.machine(), "threads": options.threads, "networks": {}}
    for name, original in (("SimpleConv", net), ("784 -> 4096 -> 10", dense_network())):
        small = argand.compact(original)
        found = {"bytes": sizes(original, small)}
        print(f"\n{name}: {found['bytes']}")
        for batch in (1,) if options.quick else (1, 64):
            timed = latencies(original, small, batch, options.threads, with_c=batch == 1)
            print(timed)
            found[f"batch {batch}, microseconds"] = timed.microseconds
        result["networks"][name] = found
    if not options.quick:
        result["largest share at which sparse is faster"] = shares(options.threads, (0.01, 0.02, 0.05, 0.1, 0.2, 0.3))
        print(result["largest share at which sparse is faster"])
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
