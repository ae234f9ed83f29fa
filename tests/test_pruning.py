"""Masks: which weights stay, how they are pinned, counted, swept and stored."""

import copy

import pytest
import torch
from torch import nn

import argand
import argand.nn as ann
from argand import ArgandError, Masks
from argand.accounting import dead_units, stored_bytes


def complex_net():
    torch.manual_seed(0)
    net = nn.Sequential(
        ann.Conv1d(1, 3, 3), ann.BatchNorm1d(3), ann.ReLU(), nn.Flatten(), ann.Linear(18, 4), ann.Real()
    )
    argand.sparsify(net)
    with torch.no_grad():
        for layer in (net[0], net[4]):
            layer.log_sigma2.uniform_(-6, 2)
    return net


def test_threshold_is_inclusive_and_drops_zero_weights():
    net = argand.sparsify(nn.Linear(4, 1, bias=False), initial=0.0)
    with torch.no_grad():
        net.mean.weight.copy_(torch.tensor([[0.0, 1.0, 2.0, 0.5]]))
    assert argand.log_alpha(net)["weight"][0].tolist() == pytest.approx([float("inf"), 0.0, -1.386294, 1.386294])
    assert argand.masks(net, 0.0)["weight"].tolist() == [[False, True, True, False]]
    assert argand.masks(net)["weight"].tolist() == [[False, False, True, False]]  # the default, -0.5
    assert argand.masks(net, float("inf")).kept == 1.0


@pytest.mark.parametrize("kept", [0.0, 0.02, 1 / 3, 0.5, 1.0])
def test_kept_share_is_exact_and_global(kept):
    net = complex_net()
    masks = argand.masks(net, kept=kept)
    total = 9 + 72
    assert masks.count() == (round(kept * total), total)
    scores = torch.cat([s.flatten() for s in argand.log_alpha(net).values()])
    stay = torch.cat([m.flatten() for m in masks.values()])
    if 0 < kept < 1:
        assert scores[stay].max() <= scores[~stay].min()


def test_ties_go_by_position():
    net = argand.sparsify(nn.Sequential(nn.Linear(3, 2, bias=False), nn.Linear(2, 2, bias=False)))
    with torch.no_grad():
        for layer in net:
            layer.mean.weight.fill_(1.0)
    masks = argand.masks(net, kept=0.8)
    assert masks["0.weight"].all()
    assert masks["1.weight"].tolist() == [[True, True], [False, False]]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"threshold": float("nan")}, "must be a number"),
        ({"threshold": "low"}, "must be a number"),
        ({"kept": 1.5}, "between 0 and 1"),
        ({"kept": float("nan")}, "between 0 and 1"),
        ({"kept": 0.1, "threshold": 0.0}, "not both"),
    ],
)
def test_bad_choices_are_refused(options, words):
    with pytest.raises(ArgandError, match=words):
        argand.masks(complex_net(), **options)


def test_a_diverged_network_is_refused():
    net = complex_net()
    with torch.no_grad():
        net[0].mean.weight[0, 0, 0] = float("nan")
    with pytest.raises(ArgandError, match="diverged"):
        argand.masks(net)


def test_masks_fit_the_sparsified_and_the_collapsed_network():
    net = complex_net()
    masks = argand.masks(net)
    assert list(masks) == ["0.weight", "4.weight"]
    wrapped = copy.deepcopy(net)
    masks.apply_(wrapped)
    plain = masks.apply_(argand.collapse(net))
    assert torch.equal(plain[4].weight, wrapped[4].mean.weight)
    assert torch.equal(plain[4].weight != 0, masks["4.weight"])
    layer = argand.sparsify(nn.Linear(2, 2))
    Masks(weight=torch.zeros(2, 2, dtype=torch.bool)).apply_(layer)
    assert not layer.mean.weight.any()


@pytest.mark.parametrize(
    ("mask", "words"),
    [
        ({"7.weight": torch.ones(3, 1, 3, dtype=torch.bool)}, "no such weight"),
        ({"0.weight": torch.ones(3, 3, dtype=torch.bool)}, r"shape \(3, 1, 3\)"),
        ({"0.weight": torch.ones(3, 1, 3)}, "bool tensor"),
        ({"0.weight": [True]}, "bool tensor"),
    ],
)
def test_masks_of_a_wrong_name_shape_or_type_are_refused(mask, words):
    net = complex_net()
    for call in (lambda: Masks(mask).apply_(net), lambda: argand.report(net, Masks(mask))):
        with pytest.raises(ArgandError, match=words):
            call()
    with pytest.raises(ArgandError, match=words), Masks(mask).pin(net, torch.optim.SGD(net.parameters())):
        pass


def test_apply_leaves_pruned_weights_out_of_reach_of_nothing_else():
    net = argand.collapse(complex_net())
    before = {name: p.clone() for name, p in net.named_parameters()}
    Masks({"4.weight": torch.zeros(4, 18, dtype=torch.bool)}).apply_(net)
    for name, p in net.named_parameters():
        assert torch.equal(p, before[name]) == (name != "4.weight")


OPTIMISERS = {
    "adam with decay": lambda net: torch.optim.Adam(net.parameters(), lr=0.05, weight_decay=0.1),
    "adamw": lambda net: torch.optim.AdamW(net.parameters(), lr=0.05),
    "sgd with momentum": lambda net: torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=0.1),
    "ours": lambda net: argand.optim.Adam(net, lr=0.05, weight_decay=0.1, max_norm=0.5),
}


@pytest.mark.parametrize("name", OPTIMISERS)
@pytest.mark.parametrize("accumulate", [1, 2])
def test_pinned_zeros_stay_zero(name, accumulate):
    net = argand.collapse(complex_net())
    opt = OPTIMISERS[name](net)
    x = torch.randn(8, 1, 8, dtype=torch.complex64)

    def step():
        opt.zero_grad()
        for _ in range(accumulate):
            (net(x) - 1).square().mean().backward()
        opt.step()

    for _ in range(3):
        step()  # momentum gathers before the masks come
    net_masks = Masks(
        {n: torch.rand(p.shape) < 0.3 for n, p in net.named_parameters() if n in ("0.weight", "4.weight")}
    )
    start = net[4].weight.detach().clone()
    with net_masks.pin(net, opt):
        for _ in range(10):
            step()
            for weight, mask in ((net[0].weight, net_masks["0.weight"]), (net[4].weight, net_masks["4.weight"])):
                assert not weight[~mask].any()
                assert not weight.grad[~mask].any()
        assert (net[4].weight[net_masks["4.weight"]] != start[net_masks["4.weight"]]).all()
    step()
    assert net[4].weight[~net_masks["4.weight"]].any()  # released


def test_clipping_under_pin_sees_the_kept_weights_only():
    layer = nn.Linear(2, 1, bias=False)
    opt = torch.optim.SGD(layer.parameters(), lr=0.1)
    with Masks(weight=torch.tensor([[True, False]])).pin(layer, opt):
        layer(torch.tensor([[3.0, 400.0]])).sum().backward()
        assert nn.utils.clip_grad_norm_(layer.parameters(), 100.0) == 3.0


def test_pin_takes_an_optimiser_and_survives_an_error_inside():
    net = argand.collapse(complex_net())
    with pytest.raises(ArgandError, match="torch optimizer"), Masks().pin(net, "adam"):
        pass
    masks, opt = Masks({"4.weight": torch.zeros(4, 18, dtype=torch.bool)}), torch.optim.SGD(net.parameters(), lr=1.0)
    with pytest.raises(ZeroDivisionError), masks.pin(net, opt):
        raise ZeroDivisionError
    assert not opt._optimizer_step_post_hooks
    assert not net[4].weight._backward_hooks


# files


def test_masks_survive_a_file(tmp_path):
    masks = argand.masks(complex_net())
    masks.save(tmp_path / "m.safetensors")
    back = Masks.load(str(tmp_path / "m.safetensors"))
    assert isinstance(back, Masks)
    assert set(back) == set(masks)
    assert all(torch.equal(back[name], masks[name]) for name in masks)
    assert [p.name for p in tmp_path.iterdir()] == ["m.safetensors"]


def test_hostile_mask_files_are_refused(tmp_path):
    path = tmp_path / "m.safetensors"
    masks = argand.masks(complex_net())
    masks.save(path)
    whole = path.read_bytes()
    broken = [
        b"",
        whole[:4],
        whole[:-1],
        b"\xff" * 64,
        (2**60).to_bytes(8, "little") + whole[8:],
        b"PK\x03\x04" + whole,
    ]
    for content in broken:
        path.write_bytes(content)
        with pytest.raises(ArgandError, match=r"m\.safetensors.*Expected masks"):
            Masks.load(path)
    with pytest.raises(ArgandError, match=r"absent.*can't be read"):
        Masks.load(tmp_path / "absent")
    from safetensors.torch import save_file

    save_file({"0.weight": torch.zeros(3)}, path)
    with pytest.raises(ArgandError, match=r"'0\.weight' as float32"):
        Masks.load(path)


def test_writing_is_atomic(tmp_path, monkeypatch):
    path = tmp_path / "m.safetensors"
    masks = argand.masks(complex_net())
    masks.save(path)
    before = path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(ArgandError, match="No space left"):
        Masks().save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["m.safetensors"]
    with pytest.raises(ArgandError, match="can't be written"):
        masks.save(tmp_path / "no" / "folder" / "m")


# accounting


def test_report_counts_floats_as_the_paper_does():
    """A complex weight is two floats and its zeros are two; biases and the 6 floats of a norm channel count."""
    net = argand.collapse(complex_net())
    masks = Masks({"4.weight": torch.arange(72).view(4, 18) < 10})
    report = argand.report(net, masks, torch.zeros(1, 1, 8, dtype=torch.complex64))
    floats = 2 * (9 + 3) + 6 * 3 + 2 * (72 + 4)
    assert report.total.floats == floats
    assert report.compression == floats / (floats - 2 * 62)
    assert report.total.kept == 9 + 10
    linear = report.layers[2]
    assert (linear.name, linear.field, linear.weights, linear.kept) == ("4", "complex", 72, 10)
    assert (linear.dense_macs, linear.macs) == (4 * 72, 4 * 10)
    assert (linear.dead_outputs, linear.dead_inputs) == (3, 8)
    conv = report.layers[0]
    assert conv.dense_macs == 4 * 9 * 6  # six positions
    statistics = 4 * (2 * 3 + 4 * 3)
    assert report.layers[1].bytes == 6 * 3 * 4 + statistics
    assert "compression" in str(report)


def test_report_of_a_sparsified_network_ignores_the_spread_and_sees_zeros():
    net = complex_net()
    assert argand.report(net).compression == 1.0
    floats = argand.report(net).total.floats
    masks = argand.masks(net)
    masks.apply_(net)
    assert argand.report(net).total == argand.report(net, masks).total
    assert argand.report(argand.collapse(net)).total.floats == floats


def test_report_of_real_networks_and_networks_without_parameters():
    report = argand.report(nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2), nn.Embedding(5, 2)))
    assert [row.floats for row in report.layers] == [8, 4, 10]
    assert report.total.field == "real"
    with pytest.raises(ArgandError, match="no parameters"):
        argand.report(nn.ReLU())


def test_macs_of_every_kind_of_layer():
    def macs(layer, *shapes, dtype=torch.float32):
        example = tuple(torch.zeros(1, *shape, dtype=dtype) for shape in shapes)
        return argand.report(layer, example=example).total.macs

    assert macs(nn.Conv2d(2, 4, 3, stride=2, groups=2), (2, 7, 7)) == 9 * 4 * 9
    assert macs(nn.ConvTranspose1d(3, 2, 4, stride=2), (3, 5)) == 3 * 2 * 4 * 5
    assert macs(nn.Bilinear(2, 3, 4), (2,), (3,)) == 24
    assert macs(ann.Linear(3, 2), (5, 3), dtype=torch.complex64) == 4 * 6 * 5


@pytest.mark.parametrize("module", [nn, ann])
def test_dead_units_of_every_kind_of_layer(module):
    conv = module.Conv1d(4, 6, 3, groups=2)
    mask = torch.zeros(6, 2, 3, dtype=torch.bool)
    mask[4, 1, 2] = True  # second group: output 4 reads input 3
    assert dead_units(conv, mask) == (5, 3)
    transposed = module.ConvTranspose1d(4, 6, 3, groups=2)
    mask = torch.zeros(4, 3, 3, dtype=torch.bool)
    mask[3] = True  # input 3 feeds the three outputs of the second group
    assert dead_units(transposed, mask) == (3, 3)
    bilinear = module.Bilinear(2, 3, 4)
    mask = torch.zeros(4, 2, 3, dtype=torch.bool)
    mask[1, 0, 2] = True
    assert dead_units(bilinear, mask) == (3, 1 + 2)


def test_stored_bytes_takes_the_smallest_encoding():
    dense, empty = torch.ones(1000, dtype=torch.bool), torch.zeros(1000, dtype=torch.bool)
    assert stored_bytes(dense, 1) == 4000
    assert stored_bytes(empty, 2) == 0
    half = torch.arange(1000) % 2 == 0
    assert stored_bytes(half, 1) == 500 * 4 + 125  # a bitmask
    rare = torch.zeros(100_000, dtype=torch.bool)
    rare[[0, 254, 1000, 70_000]] = True
    # one-byte gaps 0, 253, 745 (two escapes), 68,999 (270 escapes); two-byte ones with a single escape are smaller
    assert stored_bytes(rare, 2) == 4 * 8 + min(4 + 2 + 270, 2 * (4 + 1))
    assert stored_bytes(half, 2, value_bytes=1) == 500 * 2 + 125


# sweep


def test_sweep_leaves_the_network_alone_and_scores_pruned_copies():
    net = complex_net().train()
    before = copy.deepcopy(net.state_dict())
    seen = []

    def evaluate(pruned):
        assert not pruned.training
        assert not torch.is_grad_enabled()
        seen.append(int((pruned[4].weight != 0).sum() + (pruned[0].weight != 0).sum()))
        return seen[-1]

    table = argand.sweep(net, evaluate, [3.0, -4.0, 0.0])
    assert [row.threshold for row in table.rows] == [-4.0, 0.0, 3.0]
    assert [row.score for row in table.rows] == seen
    assert seen == [argand.masks(net, t).count()[0] for t in (-4.0, 0.0, 3.0)]
    assert net.training
    assert all(torch.equal(net.state_dict()[key], value) for key, value in before.items())
    assert table.rows[0].compression == argand.report(net, argand.masks(net, -4.0)).compression
    assert table.histogram.sum() == 81
    assert str(table).count("\n") == 3


def test_sweep_plots(tmp_path):
    figure = argand.sweep(complex_net(), lambda pruned: 1.0).plot(tmp_path / "sweep.png")
    assert (tmp_path / "sweep.png").read_bytes().startswith(b"\x89PNG")
    assert len(figure.axes) == 3


def test_sweep_refuses_nan_and_nothing():
    for thresholds, words in (([0.0, float("nan")], "must be a number"), ([], "at least one")):
        with pytest.raises(ArgandError, match=words):
            argand.sweep(complex_net(), lambda pruned: 0.0, thresholds)
