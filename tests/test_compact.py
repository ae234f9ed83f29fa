"""`compact`: which units go, and that the outputs stay."""

import copy
import warnings

import pytest
import torch
from forwards import Runs
from torch import Tensor, nn
from torch.nn.utils import parametrizations, prune

import argand
import argand.nn as ann

FIELDS = [pytest.param(nn, torch.float32, id="real"), pytest.param(ann, torch.complex64, id="complex")]


def close(a: Tensor, b: Tensor) -> bool:
    return bool((a - b).abs().max() <= 1e-5 * a.abs().max())


def check(net, *shapes, dtype=torch.float32, **options):
    """The compacted network, after its outputs were compared on random inputs and the original found untouched."""
    net.eval()
    before = copy.deepcopy(net.state_dict())
    small = argand.compact(net, **options)
    assert all(torch.equal(before[name], value) for name, value in net.state_dict().items())
    for _ in range(3):
        inputs = [torch.randn(4, *shape, dtype=dtype) for shape in shapes]
        with torch.no_grad():
            assert close(net(*inputs), small(*inputs))
    return small


def bias_(net):
    """Biases that are not zero."""
    torch.manual_seed(0)
    with torch.no_grad():
        for name, p in net.named_parameters():
            if name.endswith("bias"):
                p.copy_(torch.randn_like(p))
    return net


@torch.no_grad()
def drop(layer, rows=(), columns=()):
    weight = layer.weight.transpose(0, 1) if getattr(layer, "transposed", False) else layer.weight
    weight[list(rows)] = 0
    weight[:, list(columns)] = 0


def shapes_of(net):
    return [tuple(m.weight.shape) for m in net.modules() if hasattr(m, "weight") and m.weight is not None]


@pytest.mark.parametrize(("n", "dtype"), FIELDS)
class TestChains:
    def test_unread_and_constant_units_go_to_a_fixed_point(self, n, dtype):
        net = bias_(nn.Sequential(n.Linear(6, 5), n.ReLU(), n.Linear(5, 4), n.ReLU(), n.Linear(4, 3)))
        drop(net[4], columns=[0])  # so row 0 of the second goes,
        with torch.no_grad():
            net[2].weight[1:, 2] = 0  # and then nothing reads unit 2 of the first
        drop(net[0], rows=[1])  # a constant
        small = check(net, (6,), dtype=dtype)
        assert shapes_of(small) == [(3, 6), (3, 3), (3, 3)]

    def test_inputs_and_outputs_stay(self, n, dtype):
        net = bias_(nn.Sequential(n.Linear(6, 5)))
        drop(net[0], rows=[0, 1], columns=[2])
        assert shapes_of(check(net, (6,), dtype=dtype)) == [(5, 6)]

    def test_one_unit_stays_where_all_could_go(self, n, dtype):
        net = bias_(nn.Sequential(n.Linear(6, 5), n.ReLU(), n.Linear(5, 4), n.ReLU(), n.Linear(4, 3)))
        drop(net[2], rows=range(4))
        assert shapes_of(check(net, (6,), dtype=dtype)) == [(1, 6), (1, 1), (3, 1)]

    def test_constants_make_a_bias_where_there_was_none(self, n, dtype):
        net = bias_(nn.Sequential(n.Linear(6, 5), n.ReLU(), n.Linear(5, 4, bias=False)))
        drop(net[0], rows=[0, 3])
        small = check(net, (6,), dtype=dtype)
        assert shapes_of(small) == [(3, 6), (4, 3)]
        assert small[2].bias is not None

    def test_convolutions_norms_pools_and_flatten(self, n, dtype):
        net = bias_(
            nn.Sequential(
                n.Conv2d(2, 6, 3), n.BatchNorm2d(6), n.ReLU(), n.AvgPool2d(2), n.Conv2d(6, 5, 2, stride=1),
                n.ReLU(), n.MaxPool2d(2), nn.Flatten(), n.Linear(20, 7), n.BatchNorm1d(7), n.ReLU(), n.Linear(7, 3),
            )
        )  # fmt: skip
        for _ in range(3):
            net(torch.randn(4, 2, 12, 12, dtype=dtype))
        drop(net[0], rows=[1])
        drop(net[4], rows=[0, 2], columns=[4])
        drop(net[8], rows=[6], columns=range(16, 20))
        small = check(net, (2, 12, 12), dtype=dtype)
        norms = [m.num_features for m in small if hasattr(m, "num_features")]
        assert (small[0].out_channels, small[4].out_channels, small[8].in_features, norms) == (4, 2, 8, [4, 6])

    @pytest.mark.parametrize(("padding", "mode", "left"), [(1, "zeros", 4), (1, "circular", 3), (0, "zeros", 3)])
    def test_constants_at_padded_borders(self, n, dtype, padding, mode, left):
        net = bias_(nn.Sequential(n.Conv2d(2, 4, 3), n.Conv2d(4, 3, 3, padding=padding, padding_mode=mode)))
        drop(net[0], rows=[1])
        assert check(net, (2, 8, 8), dtype=dtype)[0].out_channels == left

    def test_a_constant_of_zero_goes_through_padding_and_transposed_convolutions(self, n, dtype):
        net = bias_(nn.Sequential(n.Conv2d(2, 4, 3), n.ReLU(), n.ConvTranspose2d(4, 3, 3, stride=2), n.Conv2d(3, 2, 3)))
        drop(net[0], rows=[1])
        with torch.no_grad():
            net[0].bias[1] = -1 - 1j if dtype.is_complex else -1
        small = check(net, (2, 6, 6), dtype=dtype)
        assert shapes_of(small)[:2] == [(3, 2, 3, 3), (3, 3, 3, 3)]

    def test_transposed_convolutions(self, n, dtype):
        net = bias_(nn.Sequential(n.ConvTranspose1d(3, 6, 3, groups=3), n.ReLU(), n.ConvTranspose1d(6, 4, 3, groups=2)))
        drop(net[2], columns=[])
        with torch.no_grad():
            net[2].weight[[0, 4]] = 0  # one input of each group
        small = check(net, (3, 8), dtype=dtype)
        # 3 groups of 2 outputs cannot lose one each; nothing else may break
        assert small[2].in_channels == small[0].out_channels

    def test_groups_stay_equal(self, n, dtype):
        net = bias_(nn.Sequential(n.Conv1d(2, 8, 3), n.ReLU(), n.Conv1d(8, 4, 3, groups=2), n.Conv1d(4, 2, 1)))
        with torch.no_grad():
            net[2].weight[:2, [0, 1]] = 0  # units 0 and 1 of the first group,
            net[2].weight[2:, [3]] = 0  # and 7 of the second
        small = check(net, (2, 12), dtype=dtype)
        assert (small[2].in_channels, small[2].groups) == (6, 2)

    def test_depthwise_channels_go_with_their_group(self, n, dtype):
        net = bias_(nn.Sequential(n.Conv1d(2, 4, 1), n.Conv1d(4, 4, 3, groups=4), n.Conv1d(4, 2, 1)))
        drop(net[2], columns=[1, 2])
        small = check(net, (2, 12), dtype=dtype)
        assert [small[i].out_channels for i in range(3)] == [2, 2, 2]
        assert small[1].groups == 2

    def test_residual_sums_tie_units(self, n, dtype):
        class Residual(nn.Module):
            def __init__(self):
                super().__init__()
                self.first, self.inner = n.Conv2d(2, 5, 3, padding=1), n.Conv2d(5, 5, 3, padding=1)
                self.act, self.head = n.ReLU(), n.Conv2d(5, 3, 1)

            def forward(self, x):
                x = self.first(x)
                return self.head(self.act(x + self.inner(x)))

        net = bias_(Residual())
        drop(net.head, columns=[0, 1])
        with torch.no_grad():
            net.inner.weight[2:, 1] = 0  # unit 1 is read only by what goes as well; unit 0 still feeds the inner layer
            net.inner.weight[0, 1] = 0
        small = check(net, (2, 6, 6), dtype=dtype)
        assert shapes_of(small) == [(4, 2, 3, 3), (4, 4, 3, 3), (3, 4, 1, 1)]

    def test_concatenation_keeps_track(self, n, dtype):
        class Both(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b, self.head = n.Conv1d(2, 3, 1), n.Conv1d(2, 4, 3, padding=1), n.Conv1d(7, 2, 1)

            def forward(self, x):
                return self.head(torch.cat([self.a(x), self.b(x)], dim=1))

        net = bias_(Both())
        drop(net.head, columns=[2, 3, 4])
        small = check(net, (2, 9), dtype=dtype)
        assert (small.a.out_channels, small.b.out_channels, small.head.in_channels) == (2, 2, 4)

    def test_bilinear(self, n, dtype):
        class Form(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b, self.form = n.Linear(3, 4), n.Linear(3, 5), n.Bilinear(4, 5, 2)

            def forward(self, x):
                return self.form(self.a(x), self.b(x))

        net = bias_(Form())
        with torch.no_grad():
            net.form.weight[:, 1] = 0
            net.form.weight[:, :, [0, 4]] = 0
        small = check(net, (3,), dtype=dtype)
        assert tuple(small.form.weight.shape) == (2, 3, 3)

    def test_batch_norm_is_folded(self, n, dtype):
        net = bias_(nn.Sequential(n.Conv2d(2, 4, 3, padding=1, bias=False), n.BatchNorm2d(4), n.ReLU(),
                                  n.ConvTranspose2d(4, 6, 3, groups=2), n.BatchNorm2d(6)))  # fmt: skip
        for _ in range(5):
            net(torch.randn(8, 2, 6, 6, dtype=dtype) * 3 + 1)
        small = check(net, (2, 6, 6), dtype=dtype, fold_batchnorm=True)
        kinds = [type(small[1]), type(small[4])]
        assert kinds == ([ann.Affine] * 2 if dtype.is_complex else [nn.Identity] * 2)


def test_a_complex_norm_that_is_a_complex_number_is_folded_away():
    net = bias_(nn.Sequential(ann.Conv1d(2, 3, 3), ann.BatchNorm1d(3)))
    with torch.no_grad():
        net[1].running_var.copy_(torch.eye(2) * torch.tensor([0.5, 2.0, 3.0])[:, None, None])
        net[1].weight.copy_(torch.tensor([[0.6, -0.8], [0.8, 0.6]]))
        net[1].running_mean.copy_(torch.randn(3, dtype=torch.complex64))
    small = check(net, (2, 9), dtype=torch.complex64, fold_batchnorm=True)
    assert isinstance(small[1], nn.Identity)


def test_per_channel_activations_and_fields():
    net = bias_(
        nn.Sequential(ann.ToComplex(), ann.Conv1d(1, 4, 3), ann.ModReLU(4), ann.Concatenate(), nn.Conv1d(8, 3, 1),
                      nn.PReLU(3), nn.Flatten(), nn.Linear(30, 2))
    )  # fmt: skip
    drop(net[1], rows=[1])
    drop(net[4], columns=[2, 6], rows=[0])
    small = check(net, (1, 12))
    assert (small[1].out_channels, small[2].num_parameters, small[4].in_channels) == (2, 2, 4)
    assert (small[5].num_parameters, small[7].in_features) == (2, 20)


def test_softmax_and_unknown_steps_are_left_alone():
    net = bias_(nn.Sequential(nn.Linear(4, 5), nn.Softmax(-1), nn.Linear(5, 3)))
    drop(net[2], columns=[1])
    assert shapes_of(check(net, (4,))) == [(5, 4), (3, 5)]


class Loops(nn.Module):
    """Its control flow depends on the data."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 4))

    def forward(self, x):
        while x.norm() > 100:
            x = x / 2
        return self.inner(x)


def test_what_cannot_be_read_is_left_alone_and_named():
    net = bias_(nn.Sequential(nn.Linear(4, 4), Loops(), nn.Linear(4, 2)))
    drop(net[1].inner[2], columns=[0, 5])
    drop(net[2], columns=[0])
    with pytest.warns(argand.ArgandWarning, match='The forward of "1" is left as it is'):
        small = check(net, (4,))
    assert shapes_of(small) == [(4, 4), (4, 4), (4, 4), (2, 4)]
    with pytest.warns(argand.ArgandWarning, match="own forward"):
        assert shapes_of(check(net[1], (4,))) == [(4, 4), (4, 4)]


def test_layers_that_compact_does_not_know_are_named():
    class Attends(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.norm, self.b = nn.Linear(4, 4), nn.LayerNorm(4), nn.Linear(4, 2)

        def forward(self, x):
            return self.b(torch.exp(self.norm(self.a(x))))

    net = Attends()
    drop(net.b, columns=[1])
    with pytest.warns(argand.ArgandWarning, match=r'"norm" \(LayerNorm\), exp'):
        assert shapes_of(check(net, (4,))) == [(4, 4), (4,), (2, 4)]


def test_shared_layers_stay_as_they_are():
    layer = nn.Linear(5, 5)
    net = bias_(nn.Sequential(nn.Linear(4, 5), layer, nn.ReLU(), layer, nn.Linear(5, 2)))
    drop(net[4], columns=[1])
    assert shapes_of(check(net, (4,)))[:2] == [(5, 4), (5, 5)]


@pytest.mark.parametrize(("n", "dtype"), FIELDS)
@pytest.mark.parametrize("fold", [False, True])
def test_training_mode_is_no_obstacle_and_stays(n, dtype, fold):
    net = bias_(nn.Sequential(n.Linear(4, 5), n.BatchNorm1d(5), n.ReLU(), n.Linear(5, 2)))
    net(torch.randn(9, 4, dtype=dtype))
    drop(net[0], rows=[1])
    before = copy.deepcopy(net.state_dict())
    small = argand.compact(net, fold_batchnorm=fold)
    assert all(m.training for m in [*net.modules(), *small.modules()])
    assert all(torch.equal(before[name], value) for name, value in net.state_dict().items())
    assert small[0].out_features == 4
    x = torch.randn(6, 4, dtype=dtype)
    assert close(net.eval()(x), small.eval()(x))


def test_norms_of_the_batch_at_hand_are_left_alone():
    net = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5, track_running_stats=False), nn.Linear(5, 2))
    drop(net[2], columns=[1])
    assert shapes_of(check(net, (4,)))[0] == (5, 4)


@pytest.mark.parametrize("inner", [nn.Softmax(-1), nn.LogSoftmax(-1), nn.PReLU(5)])
def test_a_split_may_mix_units(inner):
    net = bias_(nn.Sequential(nn.Linear(4, 5), ann.ToComplex(), ann.Split(inner), ann.Linear(5, 2)))
    if isinstance(inner, nn.PReLU):
        inner.weight.data = torch.rand(5)
    drop(net[3], columns=[1])
    assert shapes_of(check(net, (4,)))[0] == (5, 4)


def test_an_example_tells_the_axes():
    for middle in (nn.BatchNorm1d(5), nn.PReLU(5)):
        net = bias_(nn.Sequential(nn.Linear(3, 5), middle, nn.Linear(5, 2)))
        net(torch.randn(6, 5, 3))
        drop(net[2], columns=[1])
        example = torch.randn(6, 5, 3)
        assert shapes_of(check(net, (5, 3), fold_batchnorm=True, example=example))[-1] == (2, 5)


def test_outputs_are_compared_on_an_example():
    inner = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 3))
    drop(inner[2], columns=[0])

    def loops(self, x):
        return self.inner[0](x)[:, :3] if x.norm() < 1e9 else self.inner(x)  # a part of what is made smaller as a whole

    with pytest.warns(argand.ArgandWarning), pytest.raises(argand.ArgandError, match="not the original's"):
        argand.compact(Runs(loops, inner=inner), example=torch.randn(5, 3))


def test_tied_weights_are_not_scaled_twice():
    a, b = nn.Linear(4, 4), nn.Linear(4, 4)
    b.weight = a.weight
    net = bias_(nn.Sequential(a, nn.BatchNorm1d(4), nn.ReLU(), b))
    for _ in range(3):
        net(torch.randn(9, 4) * 3)
    check(net, (4,), fold_batchnorm=True)


def test_a_weight_that_the_forward_reads_stays():
    def reads(self, x):
        return nn.functional.linear(torch.relu(self.b(torch.relu(self.a(x)))), self.b.weight.t())

    net = bias_(Runs(reads, a=nn.Linear(3, 5), b=nn.Linear(5, 4)))
    drop(net.b, columns=[1])
    with pytest.warns(argand.ArgandWarning):
        assert shapes_of(check(net, (3,))) == [(5, 3), (4, 5)]


def test_a_layer_inside_an_unknown_module_stays():
    class Attends(nn.Module):
        def __init__(self, layer):
            super().__init__()
            self.layer = layer

        def forward(self, x):
            return self.layer(x) if x.sum() < 1e9 else x

    layer = nn.Linear(4, 4)
    net = bias_(Runs(lambda s, x: s.head(s.b(s.a(x)) + s.o(s.a(x))), a=nn.Linear(3, 4), b=layer, o=Attends(layer),
                     head=nn.Linear(4, 2)))  # fmt: skip
    drop(net.head, columns=[1])
    with pytest.warns(argand.ArgandWarning):
        assert shapes_of(check(net, (3,)))[:2] == [(4, 3), (4, 4)]


def test_pools_over_channels_and_squeezes_that_do_nothing():
    net = bias_(nn.Sequential(nn.Conv2d(1, 4, 3), nn.MaxPool3d((2, 1, 1)), nn.Flatten(), nn.Linear(72, 2)))
    drop(net[0], rows=[1, 3])
    check(net, (1, 8, 8))
    net = bias_(Runs(lambda s, x: s.b(s.a(x).squeeze(2)), a=nn.Conv1d(1, 4, 3), b=nn.Linear(4, 2)))
    drop(net.b, columns=[1])
    check(net, (1, 6))


def test_computed_weights_are_left_alone():
    net = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), parametrizations.weight_norm(nn.Linear(5, 2)))
    with pytest.warns(argand.ArgandWarning, match='"2"'):
        small = argand.compact(net)
    x = torch.randn(3, 4)
    assert torch.equal(net(x), small(x))
    prune.l1_unstructured(net[0], "weight", 0.8)
    with pytest.raises(argand.ArgandError, match=r"prune\.remove"):
        argand.compact(net)


def test_a_loaded_network_is_folded_and_stored_again(tmp_path):
    net = bias_(nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 2)))
    net(torch.randn(9, 4))
    argand.save(net.eval(), tmp_path / "a")
    small = argand.compact(argand.load(tmp_path / "a"), fold_batchnorm=True)
    argand.save(small, tmp_path / "b")
    x = torch.randn(3, 4)
    assert close(net(x), argand.load(tmp_path / "b")(x))


def test_misuse():
    with pytest.raises(argand.ArgandError, match="was given str"):
        argand.compact("net")
    with pytest.raises(argand.ArgandError, match="collapse"):
        argand.compact(argand.sparsify(nn.Sequential(nn.Linear(2, 2), nn.ReLU())))


@pytest.mark.parametrize("seed", range(12))
def test_random_networks_keep_their_outputs(seed):
    generator = torch.Generator().manual_seed(seed)

    def number(low, high):
        return int(torch.randint(low, high, (1,), generator=generator))

    n, dtype = (ann, torch.complex64) if seed % 2 else (nn, torch.float32)
    channels, body = 2, []
    for _ in range(4):
        groups = 2 if channels % 2 == 0 and number(0, 3) == 0 else 1
        out = 2 * number(2, 6)
        kind = n.Conv1d if number(0, 3) else n.ConvTranspose1d
        options = {"groups": groups, "stride": number(1, 3), "padding": number(0, 2), "bias": bool(number(0, 2))}
        body.append(kind(channels, out, 3, **options))
        body += [[n.BatchNorm1d(out)], [n.AvgPool1d(2, padding=1)], [], []][number(0, 4)]
        body.append(n.ReLU())
        channels = out
    net = bias_(nn.Sequential(*body, n.Conv1d(channels, 3, 1))).eval()
    with torch.no_grad():
        for p in net.parameters():
            if p.dim() == 3 and p.shape[-1] != 2:
                p.mul_(torch.rand(p.shape, generator=generator) < 0.25)
    for fold in (False, True):
        small = check(net, (2, 40), dtype=dtype, fold_batchnorm=fold)
        assert sum(p.numel() for p in small.parameters()) <= sum(p.numel() for p in net.parameters())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = argand.compact(small)
    assert shapes_of(again) == shapes_of(small)
