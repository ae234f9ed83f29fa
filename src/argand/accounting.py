"""What a pruned layer costs: bytes in a file, multiply-accumulates, units that no longer matter."""

from typing import Any

import torch
from torch import Tensor, nn

from argand.field import real_dim
from argand.modes import evaluation
from argand.surgery import is_linear_in_weight

VALUE_BYTES = 4  # of a stored float: fp32


def encoded_sizes(mask: Tensor) -> dict[str, int]:
    """Bytes that say where the kept weights are, by encoding; "dense" needs none, since it stores every weight.

    A bit for each weight; or the gaps between kept ones in one byte or two, where the largest value escapes: it skips
    so many weights and keeps none.
    """
    positions = mask.flatten().nonzero().flatten()
    gaps = torch.diff(positions, prepend=positions.new_tensor([-1])) - 1
    return {
        "dense": 0,
        "bitmask": -(-mask.numel() // 8),
        "gaps8": len(positions) + int((gaps // 255).sum()),
        "gaps16": 2 * (len(positions) + int((gaps // 65535).sum())),
    }


def best_encoding(mask: Tensor, floats: int, value_bytes: int = VALUE_BYTES) -> tuple[str, int]:
    """The smallest encoding of a weight and its bytes, values and positions together."""
    kept, weight = int(mask.sum()), floats * value_bytes
    sizes = {
        name: size + (mask.numel() if name == "dense" else kept) * weight for name, size in encoded_sizes(mask).items()
    }
    name = min(sizes, key=lambda name: sizes[name])
    return name, sizes[name]


def stored_bytes(mask: Tensor, floats: int, value_bytes: int = VALUE_BYTES) -> int:
    """Bytes of a weight in the file: the kept values and their positions, in the smallest of four encodings.

    `floats` is the number of floats a weight holds: 1, or 2 if complex.

    >>> stored_bytes(torch.ones(10, 10, dtype=torch.bool), floats=2)
    800
    """
    return best_encoding(mask, floats, value_bytes)[1]


def by_units(layer: nn.Module, mask: Tensor) -> tuple[Tensor, Tensor]:
    """The mask as (outputs, rest) and (inputs, rest): a row for each unit, whatever the layer's groups."""
    if isinstance(layer, nn.Bilinear):
        outputs = mask.flatten(1)
        inputs = torch.cat([mask.any(2).t(), mask.any(1).t()])
        return outputs, inputs
    groups = int(getattr(layer, "groups", 1))
    grouped = mask.reshape(groups, mask.shape[0] // groups, mask.shape[1], -1)
    first, second = grouped.flatten(2).flatten(0, 1), grouped.transpose(1, 2).flatten(2).flatten(0, 1)
    return (second, first) if getattr(layer, "transposed", False) else (first, second)


def dead_units(layer: nn.Module, mask: Tensor) -> tuple[int, int]:
    """Outputs that no kept weight feeds (constants), and inputs that no kept weight reads.

    >>> dead_units(nn.Linear(3, 2), torch.tensor([[True, False, False], [False, False, False]]))
    (1, 2)
    """
    outputs, inputs = by_units(layer, mask)
    return int((~outputs.any(1)).sum()), int((~inputs.any(1)).sum())


def uses_of_a_weight(layer: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> int:
    """How often a call multiplies each weight: once per position; borders of padded convolutions count in full."""
    weight = layer.get_parameter("weight")
    if getattr(layer, "transposed", False):
        return int(inputs[0].numel()) // weight.shape[0]
    return output.numel() // weight.shape[0]


def real_products(weight: Tensor) -> int:
    """Real multiply-accumulates of one product of a weight: 4 if complex."""
    return real_dim(weight) ** 2


def count_uses(net: nn.Module, example: Tensor | tuple[Tensor, ...]) -> dict[nn.Module, int]:
    """How often each layer's weights are used when the network, in evaluation, is run on the example."""
    uses: dict[nn.Module, int] = {}

    def count(layer: nn.Module, inputs: tuple[Any, ...], output: Tensor) -> None:
        uses[layer] = uses.get(layer, 0) + uses_of_a_weight(layer, inputs, output)

    hooks = [m.register_forward_hook(count) for m in net.modules() if is_linear_in_weight(m)]
    try:
        with evaluation(net), torch.no_grad():
            net(*(example if isinstance(example, tuple) else (example,)))
    finally:
        for hook in hooks:
            hook.remove()
    return uses
