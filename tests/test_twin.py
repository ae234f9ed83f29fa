"""The planar twin is the same network: outputs, gradients, noise, statistics, steps of training."""

import copy
import pickle

import pytest
import torch
from deploy_cases import CASES
from torch import Tensor, nn

import argand
import argand.nn as ann
from argand.errors import ArgandError
from argand.field import real_view
from argand.graph import FUNCTIONS, KINDS
from argand.twin import Planar, freeze, planar
from argand.twin.frozen import named_parts, real_parts

POSTERIORS = [("circular", "vd"), ("circular", "ard"), ("real-scaling", "vd"), ("relation", "ard")]


def outputs(net: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    found = net(*inputs)
    return found if isinstance(found, tuple) else (found,)


def run(net: nn.Module, inputs: tuple[Tensor, ...], seed: int = 0) -> tuple[tuple[Tensor, ...], list[Tensor]]:
    """Outputs, and the gradients of a function of them by every input and parameter that has one."""
    inputs = tuple(x.clone().requires_grad_() for x in inputs)
    net.zero_grad()
    torch.manual_seed(seed)
    found = outputs(net, inputs)
    sum((real_view(y) * torch.arange(real_view(y).numel()).view_as(real_view(y)).cos()).sum() for y in found).backward()
    return found, [p.grad for p in (*inputs, *net.parameters()) if p.grad is not None]


def assert_close(ours, theirs, tolerance: float) -> None:
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        assert a.dtype == b.dtype
        torch.testing.assert_close(a, b, rtol=0, atol=tolerance * max(b.detach().abs().max().item(), 1e-3))


def network(prior: str | None = None, posterior: str = "circular") -> nn.Module:
    """Complex and then real layers in float64; variational if a prior is given."""
    torch.manual_seed(0)
    net = nn.Sequential(
        *(ann.Conv2d(1, 4, 3), ann.BatchNorm2d(4), ann.ModReLU(4), ann.AvgPool2d(2), ann.Dropout(0.3)),
        *(nn.Flatten(), ann.Linear(36, 5), ann.Cardioid(), ann.Real(), nn.Dropout(0.4), nn.Linear(5, 3)),
    ).double()
    if prior:
        skip = ["10"] if posterior == "relation" else []  # it is for complex weights
        argand.sparsify(net, prior, posterior, skip=skip, initial=-2.0)
        for name, parameter in net.named_parameters():
            if name.endswith("relation"):
                nn.init.normal_(parameter)
    return net


def batch(count: int = 6) -> Tensor:
    return torch.randn(count, 1, 8, 8, dtype=torch.complex128, generator=torch.Generator().manual_seed(1))


def labels(count: int = 6) -> Tensor:
    return torch.arange(count) % 3


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_outputs_and_gradients_are_the_network_s(case):
    net, inputs = case.make(), case.inputs(3)
    (ours, our_gradients), (theirs, their_gradients) = run(planar(net), inputs), run(net, inputs)
    assert_close(ours, theirs, 1e-5)
    assert_close(our_gradients, their_gradients, 1e-5)


def test_the_cases_are_all_kinds_and_functions():
    assert set().union(*(case.features() for case in CASES)) >= {*KINDS, *FUNCTIONS}


WEIGHTED = [
    case
    for case in CASES
    if case.name.startswith(("linear", "bilinear", "conv", *(f"transpose{n}" for n in "123"), "mixed"))
]


def has_complex_weight(module: nn.Module) -> bool:
    return isinstance(getattr(module, "weight", None), Tensor) and module.weight.is_complex()


def complex_paths(net: nn.Module) -> list[str]:
    return [path for path, module in net.named_modules() if has_complex_weight(module)]


@pytest.mark.parametrize(
    ("case", "posterior", "prior"),
    [
        pytest.param(case, posterior, prior, id=f"{case.name}-{posterior}-{prior}")
        for case in WEIGHTED
        for posterior, prior in POSTERIORS
        if posterior != "relation" or complex_paths(case.make())
    ],
)
def test_noise_is_the_network_s_for_one_seed(case, prior, posterior):
    net = case.make()
    complex_ones = complex_paths(net)
    only = complex_ones if posterior == "relation" else None
    net = argand.sparsify(net, prior, posterior, only=only, initial=-1.0).double().train()
    inputs = tuple(x.to(torch.complex128 if x.is_complex() else torch.float64) for x in case.inputs(3))
    twin = planar(net)
    (ours, our_gradients), (theirs, their_gradients) = run(twin, inputs, seed=5), run(net, inputs, seed=5)
    tolerance = 1e-6 if posterior == "real-scaling" else 1e-10  # sqrt(1 - |c|²) is a rounding error where |c| = 1
    assert_close(ours, theirs, tolerance)
    assert_close(our_gradients, their_gradients, tolerance)
    assert (outputs(twin.eval(), inputs)[0] - ours[0]).abs().max() > 1e-3, "training is noisy"


@pytest.mark.parametrize(("posterior", "prior"), [*POSTERIORS, ("circular", None)])
def test_steps_of_training_are_the_network_s(posterior, prior):
    net = network(prior, posterior)
    other = copy.deepcopy(net)
    weight = 1e-3 if prior else 0.0
    for trained in (net, planar(other)):
        optimiser = argand.optim.Adam(trained, lr=1e-2, divergence_weight=weight, max_norm=0.5)
        torch.manual_seed(2)
        for _ in range(4):
            optimiser.zero_grad()
            nn.functional.cross_entropy(trained(batch()), labels()).backward()
            optimiser.step()
    state, others = net.state_dict(), other.state_dict()
    assert state["1.num_batches_tracked"] == 4
    for key, value in state.items():
        torch.testing.assert_close(others[key], value, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("momentum", [0.3, None])
@pytest.mark.parametrize("track", [True, False])
def test_batch_norm_in_training_moves_the_same_buffers(track, momentum):
    net = ann.BatchNorm1d(3, momentum=momentum, track_running_stats=track).double()
    other = copy.deepcopy(net)
    x = torch.randn(5, 3, 4, dtype=torch.complex128) + 1j
    (ours, our_gradients), (theirs, their_gradients) = run(planar(other), (x,)), run(net, (x,))
    assert_close(ours, theirs, 1e-12)
    assert_close(our_gradients, their_gradients, 1e-11)
    for key, value in net.state_dict().items():
        torch.testing.assert_close(other.state_dict()[key], value)
    if track:
        assert other.running_mean.abs().min() > 0.1


class Functional(nn.Module):
    """Dropout, detach and a shared layer in the user's own forward."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.drop = ann.Linear(4, 4), ann.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.drop(self.first(x)) + self.first(x).detach()
        return nn.functional.dropout(hidden.abs(), 0.3, self.training)


def test_dropout_has_the_same_mask_for_one_seed_and_follows_the_mode():
    net, x = Functional(), torch.randn(20, 4, dtype=torch.complex64)
    twin = planar(net)
    (ours, our_gradients), (theirs, their_gradients) = run(twin, (x,), seed=3), run(net, (x,), seed=3)
    assert (theirs[0] == 0).float().mean() > 0.1
    assert_close(ours, theirs, 1e-5)
    assert_close(our_gradients, their_gradients, 1e-5)
    assert_close([twin.eval()(x)], [net.eval()(x)], 1e-6)
    assert not net.drop.training, "the layers are shared"
    assert all(not module.training for module in twin.modules())


def test_parameters_are_the_network_s_in_its_order():
    net = network("vd")
    twin = planar(net)
    assert [id(p) for p in twin.parameters()] == [id(p) for p in net.parameters()]
    assert list(twin.state_dict()) == list(net.state_dict())
    assert list(argand.log_alpha(twin)) == list(argand.log_alpha(net))
    twin(batch()).sum().backward()
    assert all(p.grad is not None for p in net.parameters())


def test_a_step_on_the_original_shows():
    net = network()
    twin, x = planar(net.eval()), batch()
    before = twin(x)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.mul_(1.5)
    assert_close([twin(x)], [net(x)], 1e-12)
    assert (twin(x) - before).abs().max() > 0.1


def test_the_twin_is_sparsified_and_collapsed_on_its_own():
    twin = planar(network())
    torch.manual_seed(0)
    first = argand.sparsify(twin)(batch())
    assert (twin(batch()) - first).abs().max() > 0
    assert isinstance(twin.get_submodule("0"), argand.Variational)
    assert isinstance(argand.collapse(twin).get_submodule("0"), ann.Conv2d)


@pytest.mark.parametrize("clone", [copy.deepcopy, lambda net: pickle.loads(pickle.dumps(net))])
def test_copies_are_whole_and_apart(clone):
    twin = planar(network("vd")).eval()
    other, x = clone(twin), batch()
    assert torch.equal(other(x), twin(x))
    assert not {id(p) for p in other.parameters()} & {id(p) for p in twin.parameters()}
    with torch.no_grad():
        other.get_submodule("10.mean").bias.zero_()
    assert not torch.equal(other(x), twin(x))


@pytest.mark.parametrize(("posterior", "prior"), [*POSTERIORS, ("circular", None)])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.filterwarnings("ignore:.*autograd.function.Function.*instantiated:DeprecationWarning")  # dynamo's own
def test_it_compiles_in_one_graph(training, posterior, prior):
    torch._dynamo.reset()
    twin = planar(network(prior, posterior)).train(training)
    compiled = torch.compile(copy.deepcopy(twin), backend="aot_eager", fullgraph=True)
    (ours, our_gradients), (theirs, their_gradients) = run(compiled, (batch(),)), run(twin, (batch(),))
    assert_close(ours, theirs, 1e-12)
    assert_close(our_gradients, their_gradients, 1e-12)


def test_predictions_are_the_network_s():
    net, x = network("ard"), batch()
    found = []
    for model in (net, planar(net)):
        torch.manual_seed(0)
        found.append(argand.predict(model, x, samples=3).samples)
    assert_close(found[:1], found[1:], 1e-12)


def test_a_real_network_goes_through_its_own_layers():
    net = nn.Sequential(nn.Linear(4, 3), nn.LayerNorm(3), nn.ReLU(), nn.Linear(3, 2))
    x = torch.randn(5, 4)
    assert torch.equal(planar(net)(x), net(x))


def test_a_bare_layer_and_a_twin_of_a_twin():
    layer, x = ann.Linear(3, 2), torch.randn(4, 3, dtype=torch.complex64)
    twin = planar(layer)
    assert_close([twin(x)], [layer(x)], 1e-6)
    assert_close([twin(x[0])], [layer(x[0])], 1e-6)
    assert planar(twin) is twin
    assert isinstance(twin, Planar)


@pytest.mark.parametrize("shape", [(2, 9), (2, 7, 8), (2, 5, 4, 6)])
@pytest.mark.parametrize("out", [3, 1100])
@pytest.mark.parametrize("kind", ["Conv", "ConvTranspose"])
def test_convolutions_of_either_kernel_take_inputs_without_a_batch_axis(kind, out, shape):
    layer = getattr(ann, f"{kind}{len(shape) - 1}d")(2, out, 2)
    x = torch.randn(*shape, dtype=torch.complex64)
    (ours, our_gradients), (theirs, their_gradients) = run(planar(layer), (x,)), run(layer, (x,))
    assert_close(ours, theirs, 1e-5)
    assert_close(our_gradients, their_gradients, 1e-4)


def test_noise_does_not_depend_on_the_memory_format():
    net = argand.sparsify(ann.Conv2d(4, 600, 3), initial=0.0)
    x = torch.randn(2, 4, 6, 6, dtype=torch.complex64).to(memory_format=torch.channels_last)
    (ours, _), (theirs, _) = run(planar(net), (x,)), run(net, (x,))
    assert not theirs[0].is_contiguous(), "torch's complex convolution keeps the format"
    assert_close(ours, theirs, 1e-5)


@pytest.mark.parametrize("bias", [True, False])
def test_linear_layers_with_many_outputs(bias):
    layer, x = ann.Linear(5, 2000, bias=bias), torch.randn(3, 2, 5, dtype=torch.complex64)
    (ours, our_gradients), (theirs, their_gradients) = run(planar(layer), (x,)), run(layer, (x,))
    assert_close(ours, theirs, 1e-5)
    assert_close(our_gradients, their_gradients, 1e-5)


def test_gradients_at_zero_are_finite():
    net = nn.Sequential(ann.ModReLU(), ann.Cardioid())
    ours, gradients = run(planar(net), (torch.zeros(2, 3, dtype=torch.complex64),))
    assert torch.equal(ours[0], torch.zeros_like(ours[0]))
    assert all(real_view(g).isfinite().all() for g in gradients)


class InPlace(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.relu = ann.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        x = x * 2
        return self.relu(x) + x


def test_a_layer_that_works_in_place_changes_what_is_read_later():
    x = torch.randn(4, 3, dtype=torch.complex64)
    assert_close([planar(InPlace())(x)], [InPlace()(x)], 1e-6)


@pytest.mark.parametrize(
    ("net", "x", "words"),
    [
        (nn.Sequential(ann.ToComplex(), nn.LSTM(3, 2)), torch.randn(4, 3), ['"1" (LSTM)', "planar form"]),
        (nn.Sequential(ann.ToComplex(), nn.ReLU()), torch.randn(4, 3), ['"1" (ReLU)', "planar form"]),
        (nn.Sequential(ann.ToComplex(), nn.Linear(3, 2)), torch.randn(4, 3), ['"1" (Linear)', "planar form"]),
        (nn.Sequential(ann.ReLU()), torch.randn(4, 3), ["ReLU acts on complex", "ToComplex"]),
        (nn.Sequential(ann.Linear(3, 2)), torch.randn(4, 3), ["real tensor", "ToComplex"]),
        (
            argand.sparsify(nn.Sequential(ann.ToComplex(), nn.Linear(3, 2))),
            torch.randn(4, 3),
            ["complex tensor", "Real"],
        ),
    ],
    ids=["lstm", "real-relu", "real-linear", "complex-relu", "complex-linear", "variational"],
)
def test_what_has_no_planar_form_is_named(net, x, words):
    with pytest.raises(ArgandError) as caught:
        planar(net)(x)
    assert all(word in str(caught.value) for word in words), caught.value


def test_unknown_functions_and_wrong_counts_of_inputs_are_named():
    class Odd(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.linalg.inv(x)

    with pytest.raises(ArgandError, match="linalg_inv"):
        planar(Odd())
    with pytest.raises(ArgandError, match="takes 1 inputs, and was given 2"):
        planar(nn.Linear(2, 2))(torch.ones(1, 2), torch.ones(1, 2))


def test_the_real_core_is_exported_by_torch():
    net, x = network().eval(), batch()
    core = freeze(net, x)
    assert not any(t.is_complex() for t in core.state_dict().values())
    assert named_parts(core.inputs) == ["input_1_re", "input_1_im"]
    assert core.outputs == {"output": False}
    exported = torch.export.export(core, real_parts((x,)))
    assert not any(
        value.is_complex()
        for node in exported.graph.nodes
        if isinstance(value := node.meta.get("val"), Tensor)
    )  # fmt: skip
    assert_close(exported.module()(*real_parts((x,))), [net(x)], 1e-12)
    with pytest.raises(ArgandError, match="collapse"):
        freeze(network("vd"), x)
