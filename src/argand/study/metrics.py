"""Scores of a network's outputs."""

import torch
from torch import Tensor


def accuracy(logits: Tensor, labels: Tensor) -> float:
    """Share of right answers.

    >>> accuracy(torch.tensor([[0.1, 0.9], [0.8, 0.2]]), torch.tensor([1, 1]))
    0.5
    """
    return float((logits.argmax(1) == labels).sum()) / len(labels)


def average_precision(scores: Tensor, targets: Tensor) -> float:
    """Area under the precision-recall steps, all entries pooled: sum of (R_n - R_(n-1)) P_n over distinct scores.

    Equal scores count as one step. Without a positive target it is 0.

    >>> average_precision(torch.tensor([0.1, 0.4, 0.35, 0.8]), torch.tensor([0, 0, 1, 1]))
    0.833...
    """
    values, order = scores.flatten().sort(descending=True)
    hits = targets.flatten()[order].double().cumsum(0)
    positives = float(hits[-1])
    if positives == 0:
        return 0.0
    last = torch.cat([values[1:] != values[:-1], torch.ones(1, dtype=torch.bool, device=values.device)])
    ranks = torch.arange(1, len(values) + 1, device=values.device, dtype=torch.float64)
    found = hits[last]
    gained = torch.diff(found, prepend=found.new_zeros(1)) / positives
    return float((gained * found / ranks[last]).sum())
