"""The three stages on the embedded data, in about a minute: `python -m argand.demo`."""

import argparse
import sys
import time

import torch
import torch.nn.functional as F
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from torch import Tensor, nn

import argand
import argand.nn as ann
from argand.study.data import embedded_mnist

BATCH = 128


def network() -> nn.Sequential:
    """A small complex convolutional network for 28 x 28 images."""
    return nn.Sequential(
        ann.ToComplex(),
        *(ann.Conv2d(1, 8, 5), ann.ReLU(), ann.AvgPool2d(2)),
        *(ann.Conv2d(8, 16, 5), ann.ReLU(), ann.AvgPool2d(2)),
        *(nn.Flatten(), ann.Linear(256, 128), ann.ReLU(), ann.Linear(128, 10), ann.Real()),
    )


def fit(net: nn.Module, opt: argand.optim.Adam, images: Tensor, labels: Tensor, epochs: int, progress: Progress,
        name: str) -> None:  # fmt: skip
    """Train for some epochs, with a progress bar."""
    task = progress.add_task(name, total=epochs * -(-len(images) // BATCH), loss="")
    net.train()
    for _ in range(epochs):
        for rows in torch.randperm(len(images)).split(BATCH):  # type: ignore[no-untyped-call]
            loss = F.cross_entropy(net(images[rows]), labels[rows])
            if not loss.isfinite():
                raise argand.ArgandError(f"The loss of the stage {name!r} became {loss.item()}: it has diverged.")
            opt.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            opt.step()
            progress.update(task, advance=1, loss=f"loss {loss.item():.3f}")


@torch.no_grad()
def accuracy(net: nn.Module, images: Tensor, labels: Tensor) -> float:
    """Share of right answers, in per cent."""
    net.eval()
    right = sum((net(x).argmax(1) == y).sum() for x, y in zip(images.split(1000), labels.split(1000), strict=True))  # type: ignore[no-untyped-call]
    return 100 * float(right) / len(labels)


def run(epochs: tuple[int, int, int] = (5, 12, 4), count: int = 10_000, prior: str = "vd", scale: float = 1.0) -> Table:
    """Train, sparsify, prune and fine-tune; returns the table of what came out."""
    torch.manual_seed(0)
    data = embedded_mnist()
    images, labels = data.train_images[:count], data.train_labels[:count]
    test = data.test_images, data.test_labels
    table = Table("stage", "accuracy", "kept", "compression", "bytes", "in bytes", "seconds")
    table.columns[0].no_wrap = True
    net = network()
    bar = TextColumn("{task.description:<22}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()

    with Progress(*bar, TextColumn("{task.fields[loss]}"), console=Console(stderr=True)) as progress:
        begin = time.monotonic()

        def row(stage: str, masks: argand.Masks | None = None) -> None:
            nonlocal begin
            counted = argand.report(net, masks).total
            table.add_row(
                stage,
                f"{accuracy(net, *test):.2f} %",
                f"{100 * counted.kept / counted.weights:.2f} %",
                f"x{counted.compression:.1f}",
                f"{counted.bytes:,}",
                f"x{counted.dense_bytes / counted.bytes:.1f}",
                f"{time.monotonic() - begin:.0f}",
            )
            begin = time.monotonic()

        optimizer = argand.optim.Adam(net, lr=1e-3, max_norm=0.5)
        fit(net, optimizer, images, labels, epochs[0], progress, "1 pre-train")
        row("pre-trained")

        argand.sparsify(net, prior)
        optimizer.add_new_parameters()
        optimizer.divergence_weight = scale / len(images)
        fit(net, optimizer, images, labels, epochs[1], progress, f"2 sparsify ({prior})")
        masks = argand.masks(net, threshold=-0.5)
        masks.apply_(argand.collapse(net))
        row("sparsified", masks)

        optimizer = argand.optim.Adam(net, lr=1e-3, max_norm=0.5)
        with masks.pin(net, optimizer):
            fit(net, optimizer, images, labels, epochs[2], progress, "3 fine-tune")
        row("fine-tuned", masks)
    return table


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="argand.demo", description=__doc__)
    parser.add_argument("--prior", default="vd", choices=sorted(argand.priors.PRIORS), help="default: vd")
    parser.add_argument("--scale", type=float, default=1.0, help="C, the weight of the divergence; default: 1")
    options = parser.parse_args()
    console = Console()
    console.print("A complex network on 10,000 images of MNIST.")
    try:
        console.print(run(prior=options.prior, scale=options.scale))
    except argand.ArgandError as error:
        print(f"argand: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
