"""Two processes with gloo: the gradients, imaginary parts included, are those of one process with the joined batch."""

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import argand
import argand.nn as ann
import argand.sampling

BATCH, RANKS = 8, 2


def build(dtype=torch.complex128):
    torch.manual_seed(0)
    net = nn.Sequential(ann.Conv1d(1, 2, 3, dtype=dtype), ann.ReLU(), nn.Flatten(), ann.Linear(8, 3, dtype=dtype))
    return net.append(ann.Real())


def data():
    generator = torch.Generator().manual_seed(1)
    return torch.randn(BATCH, 1, 6, dtype=torch.complex128, generator=generator), torch.arange(BATCH) % 3


def joint_noise(rank, ranks):
    """Noise of which each process takes its slice of what is drawn for the joined batch."""

    def noise_like(x):
        whole = torch.randn(x.shape[0] * ranks, *x.shape[1:], dtype=x.dtype)
        return whole[rank * x.shape[0] : (rank + 1) * x.shape[0]]

    return noise_like


def train(rank, ranks, pinned):
    """Gradients and weights after three steps on this process's share of the batch."""
    torch.set_num_threads(1)
    original = argand.sampling.noise_like
    argand.sampling.noise_like = joint_noise(rank, ranks)
    net = build() if pinned else argand.sparsify(build(), "vd", initial=-3.0)
    opt = argand.optim.Adam(net, lr=0.01, divergence_weight=0.0 if pinned else 0.1, max_norm=0.5, weight_decay=0.1)
    keep = {"0.weight": torch.arange(6).view(2, 1, 3) % 2 == 0, "3.weight": torch.arange(24).view(3, 8) % 3 == 0}
    masks = argand.Masks(keep if pinned else {})
    model = DistributedDataParallel(net) if ranks > 1 else net
    share = slice(rank * BATCH // ranks, (rank + 1) * BATCH // ranks)
    x, y = (t[share] for t in data())
    torch.manual_seed(5)
    with masks.pin(net, opt):
        for _ in range(3):
            opt.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            gradients = {name: p.grad.clone() for name, p in net.named_parameters()}
            opt.step()
            for name, mask in masks.items():
                assert not net.get_parameter(name)[~mask].any()
    argand.sampling.noise_like = original
    return gradients, {name: p.detach() for name, p in net.named_parameters()}


def worker(rank, folder, pinned):
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=RANKS)
    gradients, weights = train(rank, RANKS, pinned)
    torch.save((gradients, weights), f"{folder}/{rank}.pt")
    dist.barrier()  # none leaves while the other still talks to it
    dist.destroy_process_group()


@pytest.mark.parametrize("pinned", [False, True], ids=["sparsify", "finetune under pin"])
def test_two_processes_equal_one(pinned, tmp_path):
    mp.spawn(worker, args=(str(tmp_path), pinned), nprocs=RANKS)
    alone = train(0, 1, pinned)
    for rank in range(RANKS):
        together = torch.load(tmp_path / f"{rank}.pt", weights_only=True)
        for found, expected in zip(together, alone, strict=True):
            torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)
    assert any(g.is_complex() and g.imag.any() for g in alone[0].values())


def test_ddp_itself_is_refused():
    class Fake(DistributedDataParallel):
        def __init__(self, module):
            nn.Module.__init__(self)
            self.module = module

    with pytest.raises(argand.ArgandError, match="sparsify the network first"):
        argand.sparsify(Fake(build()))
