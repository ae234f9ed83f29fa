"""What every layer linear in its weight must do, in both fields, for every prior and posterior."""

import copy
import pickle

import pytest
import torch
from tables import POSTERIORS, PRIORS, layer_and_inputs, pairs, prior_of
from torch import Tensor, nn
from torch.func import functional_call, vmap

import argand
import argand.field
from argand.field import noise_like, real_dim

DRAWS = 6000
Z = 5.0  # standard errors

for_each_layer = pytest.mark.parametrize(("case", "field"), pairs())
for_each_prior = pytest.mark.parametrize("prior", PRIORS)
for_each_posterior = pytest.mark.parametrize("posterior", POSTERIORS)


def make(case, field, posterior="circular", prior=None, batch=1):
    """A sparsified layer with a wide and uneven spread, in training mode, and its inputs."""
    if posterior == "relation" and field.name == "real":
        layer, _ = layer_and_inputs(case, field)
        with pytest.raises(argand.ArgandError, match="complex weights"):
            argand.sparsify(layer, "ard", posterior)
        return None
    torch.manual_seed(1)
    layer, inputs = layer_and_inputs(case, field, batch)
    wrapped = argand.sparsify(layer, prior or prior_of(posterior), posterior)
    with torch.no_grad():
        for name, p in wrapped.named_parameters(recurse=False):
            p.uniform_(-3.0, -1.0) if name != "relation" else p.copy_(torch.randn_like(p))
    return wrapped, inputs


def sampled_weights(wrapped, count):
    """Weights drawn from the posterior as its definition says, with no use of the layer."""
    mu = wrapped.mean.weight.detach().expand(count, *wrapped.mean.weight.shape)
    if wrapped.posterior.name == "real-scaling":
        alpha = wrapped.log_alpha.detach().exp()
        return mu * (1 + alpha.sqrt() * torch.randn(mu.shape, dtype=alpha.dtype))
    sigma = (0.5 * wrapped.log_sigma2.detach()).exp()
    e = noise_like(mu)
    if wrapped.posterior.name == "relation":
        u = wrapped.relation.detach()
        # |xi| = tanh|u|: along the axis at half the angle of u the variance is (1 + |xi|)/2, across it (1 - |xi|)/2
        xi, axis = u.abs().tanh(), torch.polar(torch.ones_like(u.abs()), u.angle() / 2)
        e = axis * torch.complex((1 + xi).sqrt() * e.real, (1 - xi).sqrt() * e.imag)
    return mu + e * sigma


def moments(samples: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Mean, variance E|y-m|² and relation E(y-m)², each real number with its standard error."""
    flat = samples.flatten(1)
    centred = flat - flat.mean(0)
    quantities = [flat, centred.abs().square(), centred.square()]
    real = [part for q in quantities for part in ([q.real, q.imag] if q.is_complex() else [q])]
    return [(q.mean(0), q.std(0) / len(q) ** 0.5) for q in real]


@for_each_posterior
@for_each_layer
def test_noise_agrees_with_sampled_weights(case, field, posterior):
    made = make(case, field, posterior)
    if made is None:
        return
    wrapped, inputs = made
    with torch.no_grad():
        drawn = wrapped(*(x.expand(DRAWS, *x.shape[1:]) for x in inputs))
        plain = {"bias": wrapped.mean.bias} if wrapped.mean.bias is not None else {}

        def output(weight):
            return functional_call(wrapped.mean, {"weight": weight, **plain}, inputs)[0]

        weights = sampled_weights(wrapped, DRAWS)
        batched = type(wrapped.mean) is not nn.Bilinear  # torch has no batching rule for that one
        expected = vmap(output)(weights) if batched else torch.stack([output(w) for w in weights])
    for (found, error), (wanted, its_error) in zip(moments(drawn), moments(expected), strict=True):
        assert ((found - wanted).abs() <= Z * torch.hypot(error, its_error) + 1e-12).all()


@for_each_posterior
@for_each_layer
def test_outputs_are_uncorrelated_given_the_input(case, field, posterior):
    made = make(case, field, posterior)
    if made is None:
        return
    wrapped, inputs = made
    with torch.no_grad():
        flat = wrapped(*(x.expand(DRAWS, *x.shape[1:]) for x in inputs)).flatten(1)
    noise = flat - flat.mean(0)
    noise = noise[:, noise.abs().amax(0) > 1e-12]  # where only the bias reaches (output padding) there is none
    apart = ~torch.eye(noise.shape[1], dtype=torch.bool)
    for second in (noise.conj(), noise):
        products = (noise.unsqueeze(2) * second.unsqueeze(1))[:, apart]
        for part in [products.real, products.imag] if products.is_complex() else [products]:
            assert (part.mean(0).abs() <= Z * part.std(0) / DRAWS**0.5).all()


@for_each_posterior
@for_each_layer
def test_zero_input_gives_zero_noise_and_finite_gradients(case, field, posterior):
    made = make(case, field, posterior)
    if made is None:
        return
    wrapped, inputs = made
    zeros = [torch.zeros_like(x).requires_grad_() for x in inputs]
    output = wrapped(*zeros)
    assert torch.equal(output, wrapped.mean(*zeros))
    output.abs().square().sum().backward()
    assert all(p.grad.isfinite().all() for p in [*wrapped.parameters(), *zeros])


@for_each_posterior
@for_each_layer
def test_evaluation_is_the_plain_layer_bit_for_bit(case, field, posterior):
    made = make(case, field, posterior, batch=3)
    if made is None:
        return
    wrapped, inputs = made
    evaluated = wrapped.eval()(*inputs)
    assert torch.equal(evaluated, argand.collapse(wrapped)(*inputs))


@for_each_posterior
@for_each_layer
def test_gradients_of_a_sample(case, field, posterior):
    made = make(case, field, posterior)
    if made is None:
        return
    wrapped, inputs = made
    names, values = zip(*((n, p.detach().requires_grad_()) for n, p in wrapped.named_parameters()), strict=True)

    def sample(*tensors):
        torch.manual_seed(0)
        return functional_call(wrapped, dict(zip(names, tensors, strict=False)), tensors[len(names) :])

    assert torch.autograd.gradcheck(sample, (*values, *(x.requires_grad_() for x in inputs)), fast_mode=True)


@for_each_prior
@for_each_layer
def test_divergence_gradient(case, field, prior):
    wrapped, _ = make(case, field, prior=prior)
    mu, log_sigma2 = wrapped.mean.weight, wrapped.log_sigma2
    assert torch.autograd.gradcheck(wrapped.prior.divergence, (mu, log_sigma2))
    (0.3 * argand.divergence(wrapped)).backward()
    by_autograd = mu.grad.clone(), log_sigma2.grad.clone()
    mu.grad = log_sigma2.grad = None
    argand.divergence_backward(wrapped, 0.3)
    torch.testing.assert_close((mu.grad, log_sigma2.grad), by_autograd, rtol=1e-12, atol=0)


@for_each_prior
@for_each_layer
def test_divergence_is_positive_and_vanishes_with_the_signal(case, field, prior):
    wrapped, _ = make(case, field, prior=prior)
    assert (wrapped.divergence() > 0).all()
    with torch.no_grad():
        wrapped.log_sigma2.fill_(60.0)
    assert (wrapped.divergence() < 1e-20).all()
    with torch.no_grad():
        wrapped.mean.weight.zero_()
    assert (wrapped.divergence() == 0).all()


@for_each_posterior
@for_each_layer
def test_sparsify_and_collapse_restore_the_network(case, field, posterior):
    made = make(case, field, posterior)
    if made is None:
        return
    layer, _ = layer_and_inputs(case, field)
    net = nn.ModuleDict({"a": layer, "b": nn.ModuleList([layer])})
    modules, state, parameters = list(net.modules()), copy.deepcopy(net.state_dict()), list(net.parameters())
    argand.sparsify(net, prior_of(posterior), posterior)
    assert net["a"] is net["b"][0]
    assert {id(p) for p in parameters} <= {id(p) for p in net.parameters()}
    argand.collapse(net)
    assert [id(m) for m in net.modules()] == [id(m) for m in modules]
    assert [id(p) for p in net.parameters()] == [id(p) for p in parameters]
    assert list(net.state_dict()) == list(state)
    assert all(torch.equal(net.state_dict()[key], state[key]) for key in state)


@for_each_posterior
@for_each_layer
def test_copies_and_state_dicts(case, field, posterior):
    made = make(case, field, posterior)
    if made is None:
        return
    wrapped, inputs = made
    fresh, _ = make(case, field, posterior)
    with torch.no_grad():
        for p in fresh.parameters():
            p.add_(1.0)
    fresh.load_state_dict(wrapped.state_dict(), strict=True)
    for twin in (fresh, copy.deepcopy(wrapped), pickle.loads(pickle.dumps(wrapped))):
        torch.manual_seed(2)
        expected = wrapped(*inputs)
        torch.manual_seed(2)
        assert torch.equal(twin(*inputs), expected)
        assert torch.equal(argand.divergence(twin), argand.divergence(wrapped))


@for_each_posterior
@for_each_layer
def test_turning_the_input_turns_the_mean_and_leaves_the_variance(case, field, posterior):
    made = make(case, field, posterior, batch=2)
    if made is None:
        return
    wrapped, (first, *others) = made
    if wrapped.mean.bias is not None:
        nn.init.zeros_(wrapped.mean.bias)
    angle = torch.tensor(0.7, dtype=torch.float64)
    turn = torch.polar(torch.ones_like(angle), angle) if field.name == "complex" else torch.tensor(-1.0)
    turned = turn.conj() if getattr(wrapped.mean, "conjugate", False) else turn
    wrapped.eval()
    torch.testing.assert_close(wrapped(turn * first, *others), turned * wrapped(first, *others))
    variances = [
        wrapped._linear(
            wrapped.posterior.variance(wrapped.mean.weight, wrapped.spread), argand.field.abs2, (x, *others), {}
        )
        for x in (first, turn * first)
    ]
    torch.testing.assert_close(*variances)


@for_each_layer
def test_complex_with_zero_imaginary_parts_is_real(case, field):
    if field.name == "real" or case.complex_only:
        assert field.name == "real" or case.complex_only
        return
    wrapped, inputs = make(case, field, batch=2)
    real = argand.sparsify(case.make(nn, dtype=torch.float64))
    with torch.no_grad():
        for name, p in wrapped.named_parameters():
            if p.is_complex():
                p.imag.zero_()
            real.get_parameter(name).copy_(p.real)
    flat = [x.real.contiguous() for x in inputs]
    output = wrapped.eval()(*(x.to(field.dtype) for x in flat))
    torch.testing.assert_close(output, real.eval()(*flat).to(field.dtype), rtol=1e-12, atol=1e-14)
    variance = [
        w._linear(w.log_sigma2.exp(), argand.field.abs2, tuple(x.to(w.mean.weight.dtype) for x in flat), {})
        for w in (wrapped, real)
    ]
    torch.testing.assert_close(*variance)


@for_each_layer
def test_full_masks_change_nothing(case, field):
    wrapped, inputs = make(case, field, batch=2)
    wrapped.eval()
    before = wrapped(*inputs)
    masks = argand.masks(wrapped, kept=1.0)
    assert masks.count() == (wrapped.mean.weight.numel(),) * 2
    masks.apply_(wrapped)
    assert torch.equal(wrapped(*inputs), before)
    assert argand.report(wrapped, masks).compression == 1.0


@for_each_layer
def test_initial_weights_have_the_second_moment_of_the_real_layer(case, field):
    torch.manual_seed(3)
    bound = None
    squares = []
    for _ in range(400):
        layer = case.make(field.namespace, dtype=field.dtype)
        squares.append(layer.weight.detach().abs().square().mean())
        bound = 1 / _fan_in(layer) ** 0.5
    found, expected = torch.stack(squares), bound**2 / 3
    assert abs(found.mean() - expected) <= Z * found.std() / 400**0.5
    if layer.bias is not None:
        assert (layer.bias.abs() <= bound).all()
    assert layer.weight.real.abs().max() <= bound / real_dim(layer.weight) ** 0.5 + 1e-12


def _fan_in(layer):
    return layer.weight.shape[1] if isinstance(layer, nn.Bilinear) else layer.weight[0].numel()
