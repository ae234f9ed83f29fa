"""sparsify and collapse on whole networks: what they convert, keep, and refuse."""

import copy

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize

import argand
import argand.nn as ann
from argand import ArgandError, Variational


def small():
    return nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2)))


def kinds(net):
    return [name for name, m in net.named_modules() if isinstance(m, Variational)]


def test_public_names_are_there_after_import():
    for name in argand.__all__:
        assert hasattr(argand, name), name
    assert argand.nn is ann
    assert argand.optim.Adam
    assert argand.priors.PRIORS["vd"].kl(torch.zeros(1), 2).item() == pytest.approx(0.796599599297)
    assert issubclass(ArgandError, ValueError)


def test_in_place_and_returned_and_the_wrapper_of_a_bare_layer():
    net = small()
    assert argand.sparsify(net) is net
    layer = nn.Linear(3, 2)
    wrapped = argand.sparsify(layer)
    assert isinstance(wrapped, Variational)
    assert wrapped.mean is layer
    assert list(argand.log_alpha(wrapped)) == ["weight"]
    assert argand.collapse(wrapped) is layer


def test_skip_and_only_cover_subtrees_and_priors_can_differ():
    assert kinds(argand.sparsify(small(), skip=["2"])) == ["0"]
    assert kinds(argand.sparsify(small(), only=["2"])) == ["2.0", "2.1"]
    net = argand.sparsify(small(), "vd", only=["2"], skip=["2.1"])
    assert kinds(net) == ["2.0"]
    argand.sparsify(net, "ard")
    assert [str(m.prior) for m in net.modules() if isinstance(m, Variational)] == ["ard", "vd", "ard"]
    assert list(argand.log_alpha(net)) == ["0.weight", "2.0.weight", "2.1.weight"]


def test_a_name_that_only_begins_alike_is_not_covered():
    net = nn.ModuleDict({"head": nn.Linear(2, 2), "head2": nn.Linear(2, 2)})
    assert kinds(argand.sparsify(net, skip=["head"])) == ["head2"]


def test_mode_dtype_device_and_hooks_stay():
    net = small().double().eval()
    calls = []
    net[0].register_forward_hook(lambda *_: calls.append(1))
    argand.sparsify(net)
    assert net[0].log_sigma2.dtype == torch.float64
    assert not net[0].training
    net.train()(torch.ones(1, 4, dtype=torch.float64))
    assert calls == [1]  # once for the mean, never for the variance
    meta = argand.sparsify(nn.Linear(2, 2, device="meta"))
    assert meta.log_sigma2.is_meta


def test_an_optimiser_carries_on():
    net = small()
    opt = torch.optim.Adam(net.parameters())
    net(torch.ones(1, 4)).sum().backward()
    opt.step()
    moments = opt.state[net[0].weight]["exp_avg"].clone()
    argand.sparsify(net)
    opt.add_param_group({"params": [p for name, p in net.named_parameters() if name.endswith("log_sigma2")]})
    assert torch.equal(opt.state[net[0].mean.weight]["exp_avg"], moments)
    (net(torch.ones(1, 4)).sum() + argand.divergence(net)).backward()
    opt.step()


def test_only_what_is_linear_in_its_weight_is_converted():
    class Scaled(nn.Linear):
        def forward(self, x):
            return super().forward(x).tanh()

    class Renamed(nn.Linear):
        pass

    net = nn.ModuleDict({"own": Scaled(2, 2), "kept": Renamed(2, 2), "norm": nn.BatchNorm1d(2), "rnn": nn.LSTM(2, 2)})
    assert kinds(argand.sparsify(net)) == ["kept"]


def test_complex_layers_of_torch_are_converted_too():
    net = argand.sparsify(nn.Sequential(nn.Linear(4, 3, dtype=torch.complex64)), initial=0.0)
    x = torch.randn(2000, 4, dtype=torch.complex64)
    noise = net(x) - net.eval()(x)
    assert noise.is_complex()
    assert noise.abs().square().mean().item() == pytest.approx(4.0, rel=0.1)


def test_a_shared_layer_is_converted_once_and_counted_once():
    layer = nn.Linear(3, 3)
    net = argand.sparsify(nn.Sequential(layer, nn.ReLU(), layer))
    assert net[0] is net[2]
    assert len(argand.log_alpha(net)) == 1
    assert argand.report(net).total.weights == 9
    argand.collapse(net)
    assert net[0] is layer
    assert net[2] is layer


# state


def test_plain_weights_load_into_a_sparsified_network():
    plain, net = small(), argand.sparsify(small())
    with torch.no_grad():
        net[0].log_sigma2.fill_(-3.0)
    net.load_state_dict(plain.state_dict(), strict=True)
    assert torch.equal(net[0].mean.weight, plain[0].weight)
    assert (net[0].log_sigma2 == -3).all()
    bare, wrapped = nn.Linear(3, 2), argand.sparsify(nn.Linear(3, 2))
    wrapped.load_state_dict(bare.state_dict())
    assert torch.equal(wrapped.mean.weight, bare.weight)


def test_incomplete_states_are_still_refused():
    net = argand.sparsify(small())
    state = net.state_dict()
    del state["0.log_sigma2"]
    with pytest.raises(RuntimeError, match=r"0\.log_sigma2"):
        net.load_state_dict(state)


# refusals


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: argand.sparsify(nn.ReLU()), "nothing to sparsify"),
        (lambda: argand.sparsify(argand.sparsify(small())), "variational already"),
        (lambda: argand.sparsify(argand.sparsify(nn.Linear(2, 2))), "variational already"),
        (lambda: argand.sparsify("not a module"), "torch.nn.Module"),
        (lambda: argand.sparsify(small(), "vb"), '"vd", "ard"'),
        (lambda: argand.sparsify(small(), posterior="round"), '"circular"'),
        (lambda: argand.sparsify(small(), skip=["3"]), "names '3'"),
        (lambda: argand.sparsify(small(), only=["2.5"]), "2.0"),
        (lambda: argand.sparsify(small(), skip="2"), r'skip=\["2"\]'),
        (lambda: argand.sparsify(small(), skip=["0", "2"]), "skip="),
        (lambda: argand.sparsify(small(), "vd", "relation"), "ard"),
        (lambda: argand.sparsify(small(), "ard", "relation"), 'Layer "0".*real'),
        (lambda: argand.sparsify(nn.Bilinear(2, 2, 2, dtype=torch.complex64)), "argand.nn.Bilinear"),
        (lambda: argand.sparsify(nn.Sequential(nn.LazyLinear(2))), "lazy"),
        (lambda: argand.sparsify(nn.Sequential(parametrizations.weight_norm(nn.Linear(2, 2)))), 'Layer "0".*skip='),
        (lambda: argand.collapse(small()), "no variational layers"),
        (lambda: argand.divergence(small()), "no variational layers"),
        (lambda: argand.divergence_backward(small(), 1.0), "no variational layers"),
        (lambda: argand.divergence_backward(argand.sparsify(small()), float("nan")), "finite"),
        (lambda: argand.log_alpha(small()), "no variational layers"),
        (lambda: argand.masks(small()), "no variational layers"),
        (lambda: argand.predict(small(), torch.ones(1, 4)), "no variational layers"),
        (lambda: argand.predict(argand.sparsify(small()), torch.ones(1, 4), samples=0), "at least one"),
    ],
)
@pytest.mark.filterwarnings("ignore:Lazy modules")
def test_misuse_is_refused_in_words(call, words):
    with pytest.raises(ArgandError, match=words) as caught:
        call()
    assert str(caught.value).endswith(".")


def test_refusal_changes_nothing():
    net = nn.ModuleDict({"fine": nn.Linear(2, 2), "attention": nn.MultiheadAttention(4, 2)})
    before = list(net.modules())
    with pytest.raises(ArgandError, match=r"attention\.out_proj.*MultiheadAttention"):
        argand.sparsify(net)
    assert list(net.modules()) == before


@pytest.mark.parametrize(
    ("make", "path"),
    [
        (lambda: nn.MultiheadAttention(4, 2), "out_proj"),
        (lambda: nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), "self_attn.out_proj"),
        (lambda: nn.TransformerDecoderLayer(4, 2, 8), "self_attn.out_proj"),
    ],
)
def test_layers_whose_weight_the_parent_reads_are_refused(make, path):
    with pytest.raises(ArgandError, match=path):
        argand.sparsify(nn.ModuleDict({"block": make()}))


def test_the_fused_path_of_a_transformer_layer_is_refused_and_skipping_works():
    net = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True, dropout=0.0)
    with pytest.raises(ArgandError, match=r'"linear1".*fused'):
        argand.sparsify(net, skip=["self_attn"])
    decoder = nn.TransformerDecoderLayer(4, 2, 8, batch_first=True, dropout=0.0)
    argand.sparsify(decoder, skip=["self_attn", "multihead_attn"])
    assert kinds(decoder) == ["linear1", "linear2"]
    x = torch.randn(1, 3, 4)
    assert decoder.eval()(x, x).isfinite().all()


def test_tied_parameters_are_refused_naming_both():
    net = nn.ModuleDict({"embed": nn.Embedding(5, 4), "head": nn.Linear(4, 5, bias=False)})
    net["head"].weight = net["embed"].weight
    with pytest.raises(ArgandError, match=r'"embed\.weight" and "head\.weight"'):
        argand.sparsify(net)
    pair = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    pair[1].weight = pair[0].weight
    with pytest.raises(ArgandError, match=r'"0\.weight" and "1\.weight"'):
        argand.sparsify(pair)


def test_parametrised_layers_can_be_skipped():
    net = small()
    parametrize.register_parametrization(net[0], "weight", nn.Identity())
    with pytest.raises(ArgandError, match=r'Layer "0" computes its weight'):
        argand.sparsify(net)
    assert kinds(argand.sparsify(net, skip=["0"])) == ["2.0", "2.1"]


def test_compiled_script_modules_and_ddp_are_refused():
    with pytest.raises(ArgandError, match="ScriptModule"):
        argand.sparsify(nn.Sequential(traced(nn.Linear(2, 2))))


def traced(module):
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.jit.trace(module, torch.ones(1, 2))


# prediction


def test_predict_samples_the_weights_and_nothing_else():
    torch.manual_seed(0)
    net = nn.Sequential(ann.Linear(4, 3), ann.Dropout(0.9), ann.BatchNorm1d(3), ann.Linear(3, 2), ann.Real()).train()
    argand.sparsify(net, skip=["0"], initial=-1.0)
    modes = [m.training for m in net.modules()]
    statistics = copy.deepcopy(net[2].state_dict())
    x = torch.randn(5, 4, dtype=torch.complex64)
    prediction = argand.predict(net, x, samples=3000)
    assert [m.training for m in net.modules()] == modes
    assert all(torch.equal(net[2].state_dict()[key], value) for key, value in statistics.items())
    exact = net.eval()(x)
    error = prediction.std / 3000**0.5
    assert ((prediction.mean - exact).abs() <= 5 * error).all()
    hidden = net[2](net[1](net[0](x)))
    spread = (hidden.abs().square() @ torch.exp(net[3].log_sigma2).t() / 2).sqrt()  # the real part has half
    torch.testing.assert_close(prediction.std, spread, rtol=0.1, atol=0)
    assert prediction.samples.shape == (3000, 5, 2)


def test_predict_of_several_inputs_restores_modes_after_an_error():
    net = argand.sparsify(nn.Bilinear(2, 3, 2)).train()
    assert argand.predict(net, (torch.ones(4, 2), torch.ones(4, 3)), samples=2).samples.shape == (2, 4, 2)
    with pytest.raises(TypeError):
        argand.predict(net, torch.ones(4, 2))
    assert net.training
    assert net.mean.training
