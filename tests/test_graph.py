"""Reading forwards as graphs: what is followed, and what is refused in words."""

import pytest
import torch
import torch.nn.functional as F
from forwards import Runs
from torch import nn
from torch.nn.utils import parametrizations

import argand
import argand.nn as ann
from argand.deploy.pack import to_bytes
from argand.deploy.unpack import from_bytes
from argand.graph import Network, trace


def same(net, x):
    """The network's outputs, once as it is, once from its file, once on sparse kernels."""
    net.eval()
    with torch.no_grad():
        expected = net(x.clone())
        for form in (from_bytes(to_bytes(net)), argand.sparse(net), Network(trace(net))):
            assert torch.allclose(form(x.clone()), expected, rtol=1e-5, atol=1e-6)


def overwritten(s, x):
    h = s.l(x)
    h.add_(1.0)
    return s.m(h)


def through_another_name(s, x):
    h = s.l(x)
    y = h
    y += x
    return s.m(h)


def inplace_layer(s, x):
    h = s.l(x)
    return s.m(s.relu(h)) + h


@pytest.mark.parametrize("forward", [overwritten, through_another_name, inplace_layer])
def test_what_is_written_in_place_is_followed(forward):
    net = Runs(forward, l=nn.Linear(4, 4), m=nn.Linear(4, 4), relu=nn.ReLU(inplace=True))
    same(net, torch.randn(5, 4))


FORMS = [
    lambda s, x: torch.add(s.l(x), other=x),
    lambda s, x: torch.mean(input=s.l(x), dim=1, keepdim=True),
    lambda s, x: torch.permute(s.l(x).unsqueeze(1), dims=(0, 2, 1)),
    lambda s, x: torch.reshape(s.l(x), shape=(x.size(0), 2, 2)),
    lambda s, x: s.l(x).view(x.shape[0], -1),
    lambda s, x: F.relu(input=s.l(x)) - 0.5,
    lambda s, x: 2 * s.l(x) / 3,
    lambda s, x: -s.l(x),
]


@pytest.mark.parametrize("forward", FORMS, ids=range(len(FORMS)))
def test_ways_to_write_it(forward):
    same(Runs(forward, l=nn.Linear(4, 4)), torch.randn(6, 4))


@pytest.mark.parametrize("act", [ann.ReLU(), ann.Split(nn.Tanh()), ann.AvgPool1d(1)])
def test_a_layer_used_on_stacked_and_on_joined_parts(act):
    net = Runs(
        lambda s, x: s.b(s.act(s.bn(s.a(s.act(x))))), act=act, a=ann.Conv1d(2, 3, 1), bn=ann.BatchNorm1d(3),
        b=ann.Conv1d(3, 2, 1),
    )  # fmt: skip
    same(net, torch.randn(4, 2, 5, dtype=torch.complex64))


@pytest.mark.parametrize(
    "name", ["_fc", "graph", "example", "examples", "training_", "relu_1", "_functions", "_places"]
)
def test_names_of_layers(name):
    net = Runs(lambda s, x: getattr(s, name)(F.relu(s.first(x))), first=nn.Linear(4, 4), **{name: nn.Linear(4, 3)})
    same(net, torch.randn(2, 4))


def test_names_that_are_no_identifiers():
    same(nn.Sequential(nn.ModuleDict({"conv-1": nn.Linear(4, 4)})["conv-1"]), torch.randn(2, 4))
    inner = nn.Sequential()
    inner.add_module("conv-1", nn.Linear(4, 4))
    same(inner, torch.randn(2, 4))


def test_functions_do_not_take_the_names_of_layers():
    net = Runs(lambda s, x: s.relu_1(F.relu(s.relu(s.l(x)) - 0.5)), l=nn.Linear(4, 4), relu=nn.Tanh(),
               relu_1=nn.Sigmoid())  # fmt: skip
    same(net, torch.randn(5, 4))
    net = Runs(lambda s, x: F.relu(s.relu(x)), relu=nn.Sequential(nn.Linear(4, 4), nn.Tanh()))
    same(net, torch.randn(5, 4))


REFUSED = [
    (lambda s, x: torch.add(s.l(x), x, alpha=2), "'add'"),
    (lambda s, x: x.sub(s.l(x), alpha=2), "'sub'"),
    (lambda s, x: (s.l(x), x.size(0)), "nothing else"),
    (lambda s, x: torch.exp(s.l(x)), "'exp'"),
    (lambda s, x: s.l(x).flatten(1).add_(1.0) + s.l(x), "in place into a view"),
    (lambda s, x: s.l(x) if x.sum() > 0 else x, "control flow"),
]


@pytest.mark.parametrize(("forward", "words"), REFUSED, ids=[words for _, words in REFUSED])
def test_what_cannot_be_followed_is_refused(forward, words):
    with pytest.raises(argand.ArgandError, match=words):
        trace(Runs(forward, l=nn.Linear(4, 4)))


def test_layers_that_are_not_what_they_seem_are_refused():
    hooked = nn.Linear(4, 4)
    hooked.register_forward_hook(lambda layer, given, output: 2 * output)
    for layer, words in (
        (hooked, "has hooks"),
        (parametrizations.weight_norm(nn.Linear(4, 4)), "computes its weight"),
        (nn.LazyLinear(4), "has no weight yet"),
        (nn.MaxPool1d(2, return_indices=True), "can't be written down"),
        (nn.LSTM(4, 4), "can't be written down"),
    ):
        with pytest.raises(argand.ArgandError, match=words) as caught:
            trace(nn.Sequential(nn.ReLU(), layer))
        assert '"1"' in str(caught.value)


def test_options_of_other_libraries_and_such_as_json_lacks():
    import numpy as np

    same(nn.Sequential(nn.Linear(np.int64(4), np.int64(3))), torch.randn(2, 4))
    with pytest.raises(argand.ArgandError, match="can't be stored"):
        to_bytes(nn.Sequential(nn.Hardtanh(0, float("inf"))))


def test_a_replaced_layer_of_a_network_is_seen():
    net = Network(trace(nn.Sequential(nn.Linear(3, 3), nn.ReLU())))
    net.set_submodule("1", nn.Identity())
    assert [step.kind for step in trace(net).steps] == ["Linear"]
    net.set_submodule("1", nn.LSTM(3, 3))
    with pytest.raises(argand.ArgandError, match="LSTM"):
        trace(net)


USES = [
    lambda net, x: argand.compact(net, example=x),
    lambda net, x: argand.sparse(net, example=x),
    lambda net, x: argand.save(net, "unwritten", example=x),
]


@pytest.mark.parametrize("use", USES, ids=["compact", "sparse", "save"])
def test_examples_that_do_not_fit(use, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    net = nn.Sequential(ann.Conv1d(2, 3, 3), ann.ReLU())
    z = torch.randn(4, 2, 9, dtype=torch.complex64)
    for bad, words in (
        (z[:, :1], r'"0" \(Conv1d\) can.t be computed for the example, where it gets complex \(4, 1, 9\)'),
        (z.real, "complex weights and was given a real tensor"),
        (z.numpy(), "the example is ndarray"),
        ((z, z), "takes 1 tensors"),
    ):
        with pytest.raises(argand.ArgandError, match=words):
            use(net, bad)
