"""Codecs with levels: rounding by hand, statistics, bounds, corners, options."""

import heapq
from typing import Any

import numpy as np
import pytest
from tests.gradients.helpers import check_mean, check_variance, errors

import bitstep_gradients as gradients
from bitstep_gradients import BFloat16, Key, MessageError, kernels
from bitstep_gradients.codecs.levels import bounds, rounding
from bitstep_gradients.codecs.levels.rounding import ONE, ROUNDING_STREAM
from bitstep_gradients.wire.header import pack_message, unpack_message

make_codec: Any = gradients.make_codec       # its codecs have more than a Codec
KEY = Key(11, 3, 1, 4)
RNG = np.random.default_rng(3)
VECTOR = RNG.normal(size=300)
VECTOR[:40] = 0
SETTINGS = [
    ("nuqsgd", {}), ("nuqsgd", {"zero": False, "bits": 2}), ("nuqsgd", {"norm": "linf", "bits": 4}),
    ("alq", {}), ("alq", {"zero": True, "levels": 5}), ("alq", {"symmetric": False, "bits": 4}),
    ("alq-n", {"payload": "radix"}), ("amq", {}), ("amq-n", {"zero": True}), ("alq-gd", {}),
    ("alq-n-gd", {"bits": 4}), ("alq-linf", {}), ("alq-linf", {"zero": True, "bits": 2}),
    ("alq-linf", {"symmetric": False, "levels": 6, "payload": "radix"}),
    ("optimal", {}), ("optimal", {"bits": 1}), ("optimal", {"per": "tensor", "levels": 5})]


def make(name, options, vector, bucket_size):
    """A codec that has seen the vector."""
    codec = make_codec(name, bucket_size=bucket_size, **options)
    if codec.adapts:
        codec.update([codec.statistics(vector)])
    return codec


@pytest.mark.by_day(2)
@pytest.mark.covering(1)
@pytest.mark.parametrize("bucket_size", [0, 1, 64, 100])
@pytest.mark.parametrize("name, options", [
    pytest.param(*one, marks=() if one in (("nuqsgd", {}), ("alq", {}), ("amq", {}))
                 else pytest.mark.slow) for one in SETTINGS])
def test_statistics(name, options, bucket_size):
    vector = VECTOR.astype(np.float32)
    if name == "optimal" and bucket_size == 1:
        vector = vector[25:50]                  # a search for each value
    codec = make(name, options, vector, bucket_size)
    found = errors(codec, vector, 1000 if name == "optimal" else 3000)
    check_mean(codec, vector, found)
    check_variance(codec, vector, found)
    message = codec.encode(vector, KEY)
    if codec.payload in ("fixed", "radix"):
        assert codec.expected_bits(vector) == 8 * len(message)


@pytest.mark.parametrize("name, options", [("nuqsgd", {}), ("alq", {"zero": True}),
                                           ("alq-linf", {"bits": 5}), ("optimal", {})])
def test_payloads_hold_the_same_symbols(name, options):
    """Their expected lengths, too: codes that learn may end some bytes beside them."""
    vector = np.random.default_rng(4).laplace(size=4000).astype(np.float32)
    expected = make(name, options, vector, 1000)
    for payload in expected.payloads:
        try:
            codec = make(name, options | {"payload": payload}, vector, 1000)
        except ImportError:
            continue                    # a payload whose package is not installed
        messages = [codec.encode(vector, Key(5, step)) for step in range(5)]
        for step, message in enumerate(messages):
            same = expected.encode(vector, Key(5, step))
            assert (codec.decode(message, Key(5, step))
                    == expected.decode(same, Key(5, step))).all()
        assert codec.expected_bits(vector) == \
            pytest.approx(8 * np.mean([len(message) for message in messages]), rel=0.02)


@pytest.mark.parametrize("name", ["nuqsgd", "alq", "optimal"])
def test_statistics_find_words_that_lack_a_bit(name, monkeypatch):
    """The level above comes up too often."""
    monkeypatch.setattr(kernels, "find_kernels", lambda: None)
    whole = rounding.rounded
    monkeypatch.setattr(rounding, "rounded", lambda numbers, fixed, words: whole(
        numbers, fixed, words & np.uint32(2**31 - 1)))
    vector = VECTOR.astype(np.float32)
    codec = make(name, {"bits": 4}, vector, 64)
    found = errors(codec, vector, 300)
    with pytest.raises(AssertionError):
        check_mean(codec, vector, found)
    with pytest.raises(AssertionError):
        check_variance(codec, vector, found)


def test_rounding_by_hand():
    """Levels -1, -1/4, 1/4, 1 for the norm 2; the threshold is the offset's share of the gap."""
    codec = make_codec("nuqsgd", p=0.25, zero=False, bits=2, norm="linf")
    assert codec.levels.tolist() == [-1, -0.25, 0.25, 1]
    values = np.array([2, -2, 0.5, 0, 0.875, -0.625], np.float32)
    scales = codec.scales(values)
    numbers = rounding.targets(values, scales, 0)
    assert (numbers / ONE).tolist() == [1, -1, 0.25, 0, 0.4375, -0.3125]
    fixed = (codec.levels * ONE).astype(np.int64)
    lower, offsets, gaps = rounding.intervals(numbers, fixed)
    assert lower.tolist() == [2, 0, 2, 1, 2, 0]
    assert (offsets / gaps).tolist() == [1, 0, 0, 0.5, 0.25, 11 / 12]
    # A word below the share of 2**32 goes up.
    for word, expected in ((0, [3, 0, 2, 2, 3, 1]), (2**30 - 1, [3, 0, 2, 2, 3, 1]),
                           (2**30, [3, 0, 2, 2, 2, 1]), (2**31, [3, 0, 2, 1, 2, 1]),
                           (2**32 - 1, [3, 0, 2, 1, 2, 0])):
        words = np.full(6, word, np.uint32)
        assert rounding.rounded(numbers, fixed, words).tolist() == expected
    symbols = rounding.rounded(numbers, fixed, KEY.words(6, stream=ROUNDING_STREAM))
    assert codec.decode(codec.encode(values, KEY), KEY).tolist() == \
        (2 * codec.levels[symbols]).tolist()


def test_rounding_in_python_integers():
    """Products stay below 2**64, at the widest gap too."""
    rng = np.random.default_rng(1)
    for fixed in (np.array([-ONE, ONE]), np.array([-ONE, -3, 5, 6, ONE - 64, ONE])):
        numbers = np.append(rng.integers(-ONE, ONE, 500), [-ONE, ONE, ONE - 1, 5, 6])
        words = np.append(rng.integers(0, 2**32, 503), [0, 2**32 - 1]).astype(np.uint32)
        found = rounding.rounded(numbers, fixed, words)
        for t, u, symbol in zip(numbers.tolist(), words.tolist(), found.tolist(), strict=True):
            i = max(k for k in range(len(fixed) - 1) if fixed[k] <= t)
            gap, offset = int(fixed[i + 1] - fixed[i]), t - int(fixed[i])
            assert symbol == i + (u * gap < offset << 32)


# Their levels are long to find, and others have the same corners.
LONG = [("alq", {"bits": 8}), ("alq", {"symmetric": False, "bits": 4}),
        ("alq-n", {"payload": "radix"}), ("alq-n-gd", {"bits": 4})]


@pytest.mark.by_day(8)
@pytest.mark.parametrize("name, options", [
    pytest.param(*one, marks=pytest.mark.slow) if one in LONG else one for one in (
        *SETTINGS, ("alq", {"bits": 8}), ("amq", {"bits": 8, "zero": True}),
        ("nuqsgd", {"bits": 5}), ("alq", {"bits": 1}), ("amq", {"levels": 2}),
        ("alq", {"levels": 2, "symmetric": False}), ("optimal", {"bits": 8}))])
def test_corners(name, options):
    for vector in (np.zeros(0), np.zeros(7), np.full(9, 3e38), np.full(5, 1e-44), np.ones((2, 0)),
                   np.array(-2.5), np.array([0, 0, 0, 0, 3e-30, 1.0]), np.full(6, 0.7),
                   np.linspace(-1, 1, 9).astype(np.float16),
                   BFloat16.rounded(np.linspace(-3, 1, 6)), np.append(np.zeros(7), 1e20)):
        codec = make_codec(name, bucket_size=4, **options)
        shown = vector.values if isinstance(vector, BFloat16) else vector
        if float(np.max(shown, initial=0)) > 1e38 and getattr(codec, "norm", "") == "l2":
            with pytest.raises(ValueError, match="L2 norm"):
                codec.encode(vector, KEY)
            continue
        if codec.adapts:
            codec.update([codec.statistics(vector)] * 2)
        decoded = codec.decode(codec.encode(vector, KEY), KEY)
        assert decoded.shape == shown.shape
        assert np.isfinite(decoded).all()
        assert codec.expected_error(vector) <= codec.variance_bound(vector) * (1 + 1e-6)
        assert np.isfinite(codec.expected_bits(vector))
        assert unpack_message(codec.encode(vector, KEY))[0].dtype == \
            {"float16": "float16"}.get(str(getattr(vector, "dtype", "")),
                                       "bfloat16" if shown is not vector else "float32")


@pytest.mark.parametrize("norm", ["l2", "linf"])
@pytest.mark.parametrize("zero", [True, False])
@pytest.mark.parametrize("count", [1, 7, 300, 4096])
def test_variance_theorems(count, zero, norm):
    """Theorems 2 and 9 for any levels and vectors."""
    rng = np.random.default_rng(count)
    codec = make_codec("nuqsgd", zero=zero, norm=norm, levels=9 if zero else 8)
    vectors = (rng.normal(size=count), rng.standard_cauchy(count), np.ones(count),
               np.append(1.0, np.zeros(count - 1)) + 1e-3, rng.laplace(size=count)**3)
    for scale in (1e-3, 0.1, 0.5):
        magnitudes = np.append(np.sort(rng.uniform(0, scale, 3)), 1.0)
        codec.levels = np.concatenate([-magnitudes[::-1], [0.0] * zero, magnitudes])
        factor = bounds.variance_factor(codec.magnitudes, count, zero=zero)
        for vector in vectors:
            vector = vector.astype(np.float32)
            assert codec.expected_error(vector) <= \
                factor * np.sum(vector.astype(np.float64)**2) * (1 + 1e-5)


def test_variance_theorem_by_hand():
    """One free level of 1/2, d = 4: ratio 2 gives 1/8; K_p (l sqrt(d))**(2 - p) is least for p = 0,
    1/4, because l sqrt(d) = 1.
    """
    assert bounds.variance_factor(np.array([0.5, 1]), 4, zero=True) == pytest.approx(1 / 8 + 1 / 4)
    assert bounds.variance_factor(np.array([0.5, 1]), 4, zero=False) == pytest.approx(1 / 8 + 1)
    # With l sqrt(d) = 8 a greater p is better: K_p 8**(2 - p), and K_p goes to 1 for p = 1.
    many = bounds.variance_factor(np.array([1 / 8, 1]), 4096, zero=True)
    p = np.linspace(0.001, 0.999, 999)
    k = (1 / (2 - p)) * ((1 - p) / (2 - p))**(1 - p)
    assert many == pytest.approx(7**2 / 32 + np.min(k * 8**(2 - p)), rel=1e-3)


def huffman_bits(probabilities):
    """Mean length of Huffman's code."""
    heap, total = [(p, i) for i, p in enumerate(probabilities) if p > 0], 0.0
    heapq.heapify(heap)
    while len(heap) > 1:
        first, second = heapq.heappop(heap), heapq.heappop(heap)
        total += first[0] + second[0]
        heapq.heappush(heap, (first[0] + second[0], first[1]))
    return total


@pytest.mark.parametrize("name, options", [
    ("nuqsgd", {}), ("nuqsgd", {"zero": False}), ("alq", {"zero": True}), ("alq", {}),
    ("alq-linf", {"zero": True}), ("amq", {"bits": 5})])
def test_code_length_theorems(name, options):
    """Theorem 3: 32 bits for the norm, a sign for each level but 0, Huffman's code of magnitudes.
    Theorem 10, without a zero level: the code of all levels.
    """
    for size in (300, 5000):
        vector = np.random.default_rng(size).laplace(size=size).astype(np.float32)
        codec = make(name, options, vector, 0)
        found = codec.probabilities(vector)
        assert found.sum() == pytest.approx(1)
        signs, half = 0.0, codec.n_levels // 2
        if codec.zero:
            signs = size * (1 - found[half])
            assert signs <= bounds.nonzero_bound(codec.magnitudes[0], size, norm=codec.norm) + 1e-6
            found = np.array([found[half], *(found[half + k] + found[half - k]
                                             for k in range(1, half + 1))])
        length = 32 + signs + size * huffman_bits(found)
        assert length <= codec.code_length_bound(vector) <= 32 + size * (np.log2(len(found)) + 2)
        some = found[found > 0]
        most = bounds.nonzero_bound(codec.magnitudes[0], size, norm=codec.norm) if codec.zero else 0
        assert codec.code_length_bound(vector) == \
            pytest.approx(32 + most + size * (1 - some @ np.log2(some)))


def test_nonzeros_by_monte_carlo():
    """Lemma 3, where it is less than the number of values."""
    vector = np.zeros(4000, np.float32)
    vector[:9] = np.arange(1, 10)
    codec = make_codec("nuqsgd", levels=5)
    counts = [np.count_nonzero(codec.decode(codec.encode(vector, Key(1, step)), Key(1, step)))
              for step in range(50)]
    bound = bounds.nonzero_bound(0.5, 4000, norm="l2")
    assert bound == pytest.approx(4 + 4000**0.5 / 0.5)
    assert np.mean(counts) <= bound


def test_best_levels_of_each_bucket_or_of_all():
    """Of a bucket, exact for few values; shared levels pay for buckets of other shapes."""
    rng = np.random.default_rng(2)
    vector = np.concatenate([rng.normal(size=64), rng.exponential(size=64)]).astype(np.float32)
    own = make_codec("optimal", bucket_size=64)
    shared = make_codec("optimal", bucket_size=64, per="tensor")
    assert own.expected_error(vector) < shared.expected_error(vector)
    assert len(own.encode(vector, KEY)) == len(shared.encode(vector, KEY)) + 32
    few = np.tile(np.array([-1.5, 0.25, 3], np.float32), 20)
    assert own.decode(own.encode(few, KEY), KEY) == pytest.approx(few, abs=1e-8)


def test_shared_levels_by_hand():
    """A bucket of scale 1 with thirty values .5, and one of scale 10 with a -3: between -1 and 1
    there is one level. At -.3 the first loses 30 x .8 x .5, at .5 the other 100 x .7 x .8.
    """
    vector = np.full(66, 0.5, np.float32)
    vector[[30, 31, 32]] = 1, 1, -1
    vector[33:] = 10
    vector[[40, 50]] = -3, -10
    codec = make_codec("optimal", levels=3, bucket_size=33, per="tensor")
    decoded = codec.decode(codec.encode(vector, KEY), KEY)
    assert decoded[30:] == pytest.approx(vector[30:], abs=1e-6)
    assert codec.expected_error(vector) == pytest.approx(12, rel=1e-6)


def test_message_of_shared_levels_is_none_of_own_ones():
    """With one bucket they have the same length, and mean the same."""
    message = make_codec("optimal", per="tensor").encode(np.ones(3), KEY)
    with pytest.raises(MessageError, match=r"parameter 17, and this codec .* has 16"):
        make_codec("optimal").decode(message, KEY)


def test_bound_of_two_levels_is_near_for_values_in_the_middle():
    """Levels at both ends, and 98 values half a range from each."""
    vector = np.zeros(100, np.float32)
    vector[[3, 70]] = -3, 3
    codec = make_codec("optimal", levels=2)
    assert codec.expected_error(vector) == pytest.approx(98 * 9)
    assert 98 * 9 <= codec.variance_bound(vector) <= 103 * 9


def test_levels_of_a_message_that_do_not_rise():
    codec = make_codec("optimal", bits=1)
    message = codec.encode(np.ones(3), KEY)
    header, body = unpack_message(message)
    for wrong in (body[:4] + np.array([5, 4], "<i4").tobytes() + body[12:],
                  body[:4] + np.array([5, ONE + 1], "<i4").tobytes() + body[12:], body[:9]):
        with pytest.raises(MessageError, match="levels"):
            codec.decode(pack_message(header, wrong), KEY)


@pytest.mark.parametrize("name, options, text", [
    ("alq", {"levels": 8, "bits": 3}, "levels and bits say the same"),
    ("alq", {"levels": 7}, "levels must be even where they are symmetric without a zero"),
    ("alq", {"levels": 6, "zero": True}, "levels must be odd"),
    ("alq", {"levels": 257}, "levels must be an integer from 2 to 256"),
    ("alq", {"bits": 1, "zero": True}, "bits must be an integer from 2 to 8"),
    ("alq", {"symmetric": False, "zero": True}, "zero=True needs symmetric=True"),
    ("alq", {"norm": "linf"}, "alq has no option 'norm'"),
    ("amq", {"symmetric": False}, "amq has no option 'symmetric'"),
    ("alq-linf", {"samples": 0}, "samples must be an integer from 1 to 350"),
    ("nuqsgd", {"p": 1}, "p must be between 0 and 1"),
    ("nuqsgd", {"bits": 8}, r"the least level p\*\*126 must be at least"),
    ("nuqsgd", {"p": 1 - 1e-12}, "levels must be 7 rising integers"),
    ("nuqsgd", {"norm": "l1"}, "norm must be one of l2, linf"),
    ("optimal", {"per": "value"}, "per must be one of bucket, tensor")])
def test_bad_options(name, options, text):
    with pytest.raises(ValueError, match=text):
        make_codec(name, **options)
