"""argand.optim.Adam: torch's Adam to rounding, for complex and variational networks."""

import copy

import pytest
import torch
from torch import nn

import argand
import argand.nn as ann
from argand import ArgandError


def network(dtype=torch.complex128):
    torch.manual_seed(0)
    return nn.Sequential(ann.Linear(5, 4, dtype=dtype), ann.ReLU(), ann.Linear(4, 2, dtype=dtype), ann.Real())


def train(net, opt, steps, after=lambda: None, loss_of=lambda net, x: (net(x) - 1).square().mean()):
    generator = torch.Generator().manual_seed(1)
    for _ in range(steps):
        x = torch.randn(6, 5, dtype=torch.complex128, generator=generator)
        opt.zero_grad()
        loss_of(net, x).backward()
        after()
        opt.step()
    return [p.detach().clone() for p in net.parameters()]


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
@pytest.mark.parametrize("max_norm", [None, 0.01, 100.0])
def test_it_is_torchs_adam_with_torchs_clipping(weight_decay, max_norm):
    net, twin = network(), network()
    ours = argand.optim.Adam(net, lr=0.01, betas=(0.8, 0.99), eps=1e-6, weight_decay=weight_decay, max_norm=max_norm)
    theirs = torch.optim.Adam(twin.parameters(), lr=0.01, betas=(0.8, 0.99), eps=1e-6, weight_decay=weight_decay)

    def clip():
        if max_norm is not None:
            nn.utils.clip_grad_norm_(twin.parameters(), max_norm)

    torch.testing.assert_close(train(net, ours, 20), train(twin, theirs, 20, clip), rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("prior", ["vd", "ard"])
@pytest.mark.parametrize("posterior", ["circular", "real-scaling"])
def test_the_divergence_is_that_of_the_loss(prior, posterior):
    net, twin = (argand.sparsify(network(), prior, posterior) for _ in range(2))
    ours = argand.optim.Adam(net, lr=0.01, divergence_weight=0.2, max_norm=0.5)
    theirs = torch.optim.Adam(twin.parameters(), lr=0.01)

    def loss(net, x):
        return (net(x) - 1).square().mean() + 0.2 * argand.divergence(net)

    torch.manual_seed(3)
    found = train(net, ours, 20)
    torch.manual_seed(3)
    expected = train(twin, theirs, 20, lambda: nn.utils.clip_grad_norm_(twin.parameters(), 0.5), loss)
    torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-11)


def test_states_are_interchangeable_with_torch_and_resume_exactly():
    net = network()
    opt = argand.optim.Adam(net, lr=0.01)
    train(net, opt, 3)
    saved = copy.deepcopy((net.state_dict(), opt.state_dict()))
    expected = train(net, opt, 3)
    for make in (lambda n: argand.optim.Adam(n, lr=0.5), lambda n: torch.optim.Adam(n.parameters(), lr=0.5)):
        twin = network()
        resumed = make(twin)
        twin.load_state_dict(saved[0])
        resumed.load_state_dict(copy.deepcopy(saved[1]))
        torch.testing.assert_close(train(twin, resumed, 3), expected, rtol=1e-11, atol=1e-13)
    donor = network()
    theirs = torch.optim.Adam(donor.parameters(), lr=0.01)
    train(donor, theirs, 3)
    ours = argand.optim.Adam(donor, lr=0.5)
    ours.load_state_dict(theirs.state_dict())
    torch.testing.assert_close(train(donor, ours, 3), expected, rtol=1e-11, atol=1e-13)


def test_it_is_a_torch_optimizer():
    net = network()
    opt = argand.optim.Adam(net, params=[{"params": net[0].parameters(), "lr": 0.1}, {"params": net[2].parameters()}])
    assert isinstance(opt, torch.optim.Optimizer)
    assert [group["lr"] for group in opt.param_groups] == [0.1, 1e-3]
    schedule = torch.optim.lr_scheduler.StepLR(opt, 1, gamma=0.5)
    train(net, opt, 1)
    schedule.step()
    assert opt.param_groups[0]["lr"] == 0.05
    assert {int(state["step"]) for state in opt.state.values()} == {1}
    opt.zero_grad()
    assert all(p.grad is None for p in net.parameters())
    called = []
    assert opt.step(lambda: called.append(1) or 7.0) == 7.0
    assert called == [1]


def test_new_parameters_join_with_the_old_moments_kept():
    net = network()
    opt = argand.optim.Adam(net)
    train(net, opt, 2)
    first = opt.state[net[0].weight]["exp_avg"].clone()
    argand.sparsify(net)
    opt.add_new_parameters(lr=0.01)
    assert torch.equal(opt.state[net[0].mean.weight]["exp_avg"], first)
    assert [len(group["params"]) for group in opt.param_groups] == [4, 2]
    opt.divergence_weight = 1e-3
    before = net[0].log_sigma2.detach().clone()
    train(net, opt, 1)
    assert (net[0].log_sigma2 != before).all()
    with pytest.raises(ArgandError, match="no parameters that the optimiser lacks"):
        opt.add_new_parameters()


def test_the_norm_before_clipping_is_told():
    net = network()
    opt = argand.optim.Adam(net, max_norm=1e-3)
    (net(torch.ones(1, 5, dtype=torch.complex128)) - 5).square().sum().backward()
    expected = torch.nn.utils.get_total_norm([p.grad for p in net.parameters()])
    opt.step()
    torch.testing.assert_close(opt.grad_norm, expected)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"lr": -1.0}, "at least 0"),
        ({"betas": (0.9, 1.0)}, "betas"),
        ({"max_norm": 0.0}, "max_norm must be positive"),
        ({"max_norm": float("nan")}, "max_norm must be positive"),
        ({"divergence_weight": float("nan")}, "divergence_weight must be finite"),
        ({"divergence_weight": -1.0}, "divergence_weight must be finite"),
        ({"divergence_weight": 1.0}, "no variational layers"),
    ],
)
def test_misuse_is_refused(options, words):
    with pytest.raises(ArgandError, match=words):
        argand.optim.Adam(network(), **options)


def test_parameters_instead_of_the_network_and_sparse_gradients_are_refused():
    with pytest.raises(ArgandError, match="takes the network"):
        argand.optim.Adam(network().parameters())
    embedding = nn.Embedding(3, 2, sparse=True)
    opt = argand.optim.Adam(embedding)
    embedding(torch.tensor([1])).sum().backward()
    with pytest.raises(ArgandError, match="sparse"):
        opt.step()


def test_frozen_parameters_stay():
    net = argand.sparsify(network())
    net[0].mean.weight.requires_grad_(False)
    frozen = net[0].mean.weight.detach().clone()
    train(net, argand.optim.Adam(net, divergence_weight=0.1, max_norm=1.0), 2)
    assert torch.equal(net[0].mean.weight, frozen)
    assert net[0].mean.weight.grad is None


def test_a_spread_that_nothing_learns_is_refused():
    net = nn.Sequential(nn.Linear(3, 2))
    opt = argand.optim.Adam(net)
    argand.sparsify(net)
    opt.divergence_weight = 1e-3
    net(torch.ones(5, 3)).sum().backward()
    with pytest.raises(argand.ArgandError, match="add_new_parameters"):
        opt.step()
    opt.add_new_parameters()
    opt.step()
    argand.collapse(net)
    with pytest.raises(argand.ArgandError, match="After collapse make a new optimiser"):
        opt.step()
