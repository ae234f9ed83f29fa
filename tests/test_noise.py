"""Noise by counting: independent standard normal numbers, whoever computes them. Thresholds are z-scores."""

import math

import pytest
import scipy.stats
import torch

from argand.chunks import CHUNK
from argand.field import COUNTED, is_counted, noise_like, noise_parts_like
from argand.loops import can_compile, compiling
from argand.nn.kernels import to_channels_last
from argand.noise import draw_key, hashed, normal_pairs
from argand.sampling import perturbed

Z = 4.5  # for tests of a handful of numbers each, seven in a million
COUNT = 2**20
KEYS = [0, 1, 2, 2**31, 2**62 - 1]
for_each_dtype = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])


def score(values, expected=0.0):
    """How many standard errors the mean of independent values is from what it should be."""
    return float((values.double().mean() - expected) / (values.double().std() / len(values) ** 0.5))


def normal(count=COUNT, key=12345, dtype=torch.float32):
    """Two rows of `count` standard normal numbers."""
    return torch.stack(normal_pairs(torch.arange(count), torch.tensor(key), 2.0, dtype))


# the distribution


@for_each_dtype
@pytest.mark.parametrize("key", KEYS)
def test_moments_are_those_of_the_normal_distribution(key, dtype):
    for x in normal(key=key, dtype=dtype):
        for power, moment in ((1, 0), (2, 1), (3, 0), (4, 3), (6, 15), (8, 105)):
            assert abs(score(x.double() ** power, moment)) <= Z, power


@for_each_dtype
def test_the_distribution_is_normal(dtype):
    for x in normal(dtype=dtype):
        p = scipy.stats.kstest(x.double().numpy(), "norm").pvalue
        assert scipy.stats.norm.isf(p / 2) <= Z
        # in cells of equal probability up to the tails
        counts = torch.histc(torch.special.ndtr(x.double()), 1024, 0, 1)
        chi2 = ((counts - COUNT / 1024).square() / (COUNT / 1024)).sum().item()
        assert abs(chi2 - 1023) / (2 * 1023) ** 0.5 <= Z


def test_directions_and_lengths_are_independent():
    """The angle is uniform in every ring: neither half of a hash leans on the other."""
    x, y = normal(dtype=torch.float64)
    length = -torch.expm1(-(x.square() + y.square()) / 2)
    angle = torch.atan2(y, x) / (2 * math.pi) + 0.5
    counts = torch.bincount((length * 32).long().clamp_max(31) * 32 + (angle * 32).long().clamp_max(31), minlength=1024)
    chi2 = ((counts - COUNT / 1024).square() / (COUNT / 1024)).sum().item()
    assert abs(chi2 - 1023) / (2 * 1023) ** 0.5 <= Z


def test_numbers_do_not_depend_on_one_another():
    """Both of a pair, neighbours at several distances, and equal places under other keys: themselves, and squares."""
    x, y = normal(dtype=torch.float64)
    pairs = [(x, y)]
    for apart in (1, 2, 3, 16, 1024, 2**16):
        pairs += [(x[:-apart], x[apart:]), (x[:-apart], y[apart:])]
    for key in (0, 12344, 12346, 12345 + 2**32, 12345 ^ 2**61):
        pairs += [(x, normal(key=key, dtype=torch.float64)[part]) for part in (0, 1)]
    for a, b in pairs:
        assert abs(score(a * b)) <= Z
        assert abs(score((a.square() - 1) * (b.square() - 1))) <= Z


def test_drawn_keys_give_independent_numbers():
    """As the layers of a network and its steps take them, and equal places of consecutive seeds."""
    rows, seeds = [], range(5)
    for seed in seeds:
        torch.manual_seed(seed)
        rows += [normal_pairs(torch.arange(2**18), draw_key(), 2.0, torch.float64)[0] for _ in range(3)]
    stacked = torch.stack(rows)
    scores = stacked @ stacked.T / 2**9
    assert (scores - torch.diag(scores.diag())).abs().max() <= 5  # of 105 pairs
    assert (torch.cdist(stacked[:, :9], stacked[:, :9]) + 9 * torch.eye(len(rows)) > 0.1).all()


@for_each_dtype
def test_the_tail_is_as_long_as_it_should_be(dtype):
    """Of 10^7 numbers: the largest, and how many are beyond 4."""
    torch.manual_seed(0)
    size = noise_like(torch.empty(10**7, dtype=dtype)).abs_()
    assert 4.8 <= size.max() <= 6.8  # beyond 4.8 are 16 on average, and at 6.8 the 32 bits end
    for limit in (3, 4):
        expected = 10**7 * 2 * scipy.stats.norm.sf(limit)
        assert abs((size > limit).sum().item() - expected) <= Z * expected**0.5


@for_each_dtype
def test_the_extreme_hashes_are_finite(dtype, monkeypatch):
    bits = torch.tensor([0, -1, 2**32 - 1, -(2**32), 2**63 - 1, -(2**63)])
    monkeypatch.setattr("argand.noise.hashed", lambda counts, key: bits)
    x, y = normal_pairs(torch.arange(len(bits)), torch.tensor(0), 2.0, dtype)
    assert torch.stack([x, y]).isfinite().all()
    assert torch.hypot(x, y).max().item() == pytest.approx((2 * 33 * math.log(2)) ** 0.5, rel=1e-6)
    assert torch.hypot(x, y).min() < 1e-4


def test_every_bit_of_a_hash_is_even_and_none_repeats():
    words = hashed(torch.arange(COUNT), torch.tensor(7))
    assert len(words.unique()) == COUNT  # the hash is a bijection
    for bit in range(64):
        ones = ((words >> bit) & 1).sum().item()
        assert abs(ones - COUNT / 2) <= Z * COUNT**0.5 / 2


def test_every_bit_of_a_key_or_a_count_turns_half_of_the_hash():
    counts, key = torch.arange(2**14), torch.tensor(12345)
    words, places = hashed(counts, key), torch.arange(64)
    for bit in range(62):
        for others in (hashed(counts, key ^ (1 << bit)), hashed(counts ^ (1 << bit), key)):
            ones = (((words ^ others).unsqueeze(1) >> places) & 1).sum(0)
            assert ((ones - 2**13).abs() <= 6 * 2**6).all(), bit  # the largest of 8000 numbers


def test_lengths_and_angles_have_32_bits():
    """Of n numbers of 32 bits n²/2^33 are expected twice."""
    x, y = normal(dtype=torch.float64)
    length = torch.exp(-(x.square() + y.square()) / 2)
    angle = torch.atan2(y, x) / (2 * math.pi) % 1
    for whole in ((length * 2**32).floor(), (angle * 2**32).round()):
        twice, expected = COUNT - len(whole.unique()), COUNT**2 / 2**33
        assert abs(twice - expected) <= Z * expected**0.5


# what asks for it

DTYPES = [torch.float32, torch.float64, torch.complex64, torch.complex128]
for_each_type = pytest.mark.parametrize("dtype", DTYPES, ids=str)


def drawn(*shape, dtype=torch.float32, seed=0, last=False):
    x = torch.empty(*shape, dtype=dtype)
    torch.manual_seed(seed)
    return noise_like(to_channels_last(x) if last else x)


@for_each_type
def test_large_noise_has_unit_power_in_every_component(dtype):
    e = drawn(3, 5, 2**14, dtype=dtype)
    assert is_counted(e)
    assert abs(score(e.abs().square().flatten(), 1.0)) <= Z
    if dtype.is_complex:
        assert abs(score(e.real.square().flatten(), 0.5)) <= Z
        assert abs(score((e.real * e.imag).flatten())) <= Z


@for_each_type
def test_one_seed_gives_the_same_numbers_and_another_gives_others(dtype):
    first = drawn(COUNTED, dtype=dtype)
    assert torch.equal(first, drawn(COUNTED, dtype=dtype))
    assert not (first == drawn(COUNTED, dtype=dtype, seed=1)).any()
    torch.manual_seed(0)
    twice = [noise_like(first) for _ in range(2)]
    assert torch.equal(twice[0], first)
    assert not (twice[0] == twice[1]).any()


@for_each_type
@pytest.mark.parametrize("chunk", [2**3, 1000, 2**40])
def test_pieces_are_of_the_whole(chunk, dtype, monkeypatch):
    size = 3 * COUNTED + 14
    whole = drawn(size, dtype=dtype)
    monkeypatch.setattr("argand.field.CHUNK", chunk)
    torch.testing.assert_close(drawn(size, dtype=dtype), whole, rtol=1e-6, atol=1e-6)
    monkeypatch.setattr("argand.field.CHUNK", CHUNK)
    longer = drawn(size + 100, dtype=dtype)
    torch.testing.assert_close(longer[:size], whole, rtol=1e-6, atol=1e-6)


@for_each_type
def test_noise_does_not_depend_on_the_number_of_threads(dtype):
    results = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        results.append(drawn(5 * CHUNK + 6, dtype=dtype))
    assert all(torch.equal(results[0], other) for other in results[1:])


@pytest.mark.parametrize("field", ["real", "complex"])
def test_single_precision_is_double_precision_rounded(field):
    """Squared lengths to 2^-22, where the 32 bits lose 8, hence small lengths to their root."""
    single, double = (
        drawn(COUNT, dtype=t if field == "real" else t.to_complex()) for t in (torch.float32, torch.float64)
    )
    error = (single - double).abs()
    assert error.max() <= 2.0**-11
    assert error.median() <= 2.0**-22
    pairs = [x if field == "complex" else torch.view_as_complex(x.view(-1, 2)) for x in (single, double)]
    squares = [x.to(torch.complex128).abs().square() for x in pairs]
    assert ((squares[0] - squares[1]).abs() <= 2.0**-21 * squares[1].clamp_min(1.0)).all()


@pytest.mark.skipif(not can_compile("cpu"), reason="needs a C++ compiler")
@pytest.mark.parametrize("size", [COUNTED, COUNTED + 2, 3 * CHUNK + 14])
@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64], ids=str)
def test_compiled_samples_have_the_same_noise(size, dtype):
    torch._dynamo.reset()
    y, variance = torch.zeros(size, dtype=dtype), torch.ones(size)
    with compiling(True):
        torch.manual_seed(0)
        sample = perturbed(y, variance)
    error = (sample - drawn(size, dtype=dtype)).abs()
    assert error.max() <= 2.0**-11
    assert error.median() <= 2.0**-22
    assert (error > 0).any()  # or it was not compiled


@for_each_type
def test_noise_lies_in_memory_as_what_it_is_for(dtype):
    e = drawn(4, 6, 30, 20, dtype=dtype, last=True)
    assert e.movedim(1, -1).is_contiguous()
    assert torch.equal(e.movedim(1, -1).flatten(), drawn(4 * 6 * 30 * 20, dtype=dtype))


def test_few_or_odd_numbers_come_from_torch():
    for size in (0, 1, 2, 3, COUNTED - 1):
        assert not is_counted(torch.empty(size))
        torch.manual_seed(0)
        expected = torch.empty(size).normal_()
        assert torch.equal(drawn(size), expected)
    assert is_counted(torch.empty(COUNTED))
    assert not is_counted(torch.empty(COUNTED + 1))
    assert is_counted(torch.empty(COUNTED + 1, dtype=torch.complex64))
    odd = drawn(COUNTED + 1)
    assert abs(score(odd.square(), 1.0)) <= Z
    assert abs(score(drawn(COUNTED + 1, dtype=torch.complex64).abs().square(), 1.0)) <= Z


@for_each_dtype
@pytest.mark.parametrize("size", [0, 1, 5, COUNTED, COUNTED + 1])
def test_parts_are_those_of_complex_noise(size, dtype):
    torch.manual_seed(0)
    re, im = noise_parts_like(torch.empty(size, dtype=dtype))
    wanted = drawn(size, dtype=dtype.to_complex())
    torch.testing.assert_close(torch.complex(re, im), wanted, rtol=1e-6, atol=1e-7)
