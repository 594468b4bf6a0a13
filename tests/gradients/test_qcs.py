"""QCS: the transform, the theorem, statistics, equations that are wrong as printed, bytes."""

import numpy as np
import pytest
from tests.gradients.helpers import CORNERS, check_corner, check_mean, check_variance, errors

from bitstep_gradients import BFloat16, Key, MessageError, kernels, make_codec
from bitstep_gradients.codecs.gains import best_sketch, compression_gain
from bitstep_gradients.codecs.hadamard import PIECE, hadamard
from bitstep_gradients.codecs.qcs import FRACTION, Qcs, Qcs1Bit, QcsMmse, gamma
from bitstep_gradients.wire.header import unpack_message

KEY = Key(11, 3, 1, 4)
SETTINGS = [("qcs", {}), ("qcs", {"share": 0.25, "levels": 3}),
            ("qcs-mmse", {"share": 0.5, "levels": 2}), ("qcs-1bit", {"share": 0.5})]
KINDS = {"normal": np.random.default_rng(1).normal(size=128), "one": np.eye(128)[3],
         "equal": np.ones(128)}


def matrix(order):
    """Sylvester's construction."""
    found = np.ones((1, 1), np.int64)
    while len(found) < order:
        found = np.kron([[1, 1], [1, -1]], found)
    return found


@pytest.mark.covering(1)
@pytest.mark.parametrize("bucket_size", [0, 1, 64, 100])
@pytest.mark.parametrize("name, options", SETTINGS)
def test_statistics(name, options, bucket_size):
    vector = np.random.default_rng(3).normal(size=300).astype(np.float32)
    vector[:40] = 0
    codec = make_codec(name, bucket_size=bucket_size, **options)
    found = errors(codec, vector, 800)
    check_mean(codec, vector, found)
    check_variance(codec, vector, found)


def relative_errors(codec, vector, messages=20, buckets=200):
    """|g' - g|^2 / |g|^2 of many buckets that hold the same values, and their scales."""
    tiled, ratios, scales = np.tile(vector, buckets).astype(np.float32), [], []
    for step in range(messages):
        message = codec.encode(tiled, Key(8, step))
        wrong = (codec.decode(message, Key(8, step)) - tiled).astype(np.float64)
        ratios.append(np.sum(wrong.reshape(buckets, -1)**2, axis=1) / np.sum(vector**2))
        scales.append(np.frombuffer(unpack_message(message)[1], "<f4", buckets))
    return np.concatenate(ratios), np.concatenate(scales).astype(np.float64)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n, k, levels, bound", [
    (64, 64, 1, 1.056), (64, 32, 1, 2.79), (64, 16, 2, 3.74), (64, 2, 1, 42.1),
    (128, 128, 4, 0.0764), (64, 32, 0.5, 8.155)])
def test_theorem_2(kind, n, k, levels, bound):
    """E|e|^2 is within gamma |g|^2; and it is (n / k - 1) |g|^2 and what the dither of the scales
    that were sent adds, n / 12 E[s^2], within 3 % (4,000 buckets).
    """
    vector = KINDS[kind][:n]
    codec = Qcs1Bit(share=k / n, bucket_size=n) if levels < 1 else \
        Qcs(share=k / n, levels=levels, bucket_size=n)
    ratios, scales = relative_errors(codec, vector)
    assert gamma(n, k, levels) == pytest.approx(bound, rel=2e-3)
    assert ratios.mean() <= gamma(n, k, levels)
    assert codec.variance_bound(vector) == pytest.approx(gamma(n, k, levels) * np.sum(vector**2))
    steps = scales * n / np.sqrt(k) / levels
    exact = n / k - 1 + n / 12 * np.mean(steps**2) / np.sum(vector**2)
    noise = ratios.std() / np.sqrt(ratios.size)
    assert abs(ratios.mean() - exact) <= max(0.03 * exact, 4 * noise)


def test_one_row():
    """The paper prints gamma = n - 1 = 63 for k = 1. It is n - 1 + n / (12 Q^2) = 68.33."""
    assert gamma(64, 1, 1) == pytest.approx(68.333, abs=1e-3)
    ratios, _ = relative_errors(Qcs(share=1 / 64, bucket_size=64), KINDS["one"][:64])
    noise = ratios.std() / np.sqrt(ratios.size)
    assert abs(ratios.mean() - gamma(64, 1, 1)) <= 4 * noise
    assert ratios.mean() - 4 * noise > 63


def test_padding_costs_rows_not_error():
    """100 values of n = 128: (99 / 127) (n / k - 1) |g|^2 + 100 / 12 E[s^2]."""
    vector, n, k = KINDS["normal"][:100], 128, 32
    ratios, scales = relative_errors(Qcs(share=k / n, bucket_size=100), vector, 200, 20)
    steps = scales * n / np.sqrt(k)
    exact = 99 / 127 * (n / k - 1) + 100 / 12 * np.mean(steps**2) / np.sum(vector**2)
    assert ratios.mean() == pytest.approx(exact, rel=0.03)


def test_mmse_bound():
    """E|e|^2 <= (1 - alpha) |g|^2 (Lemma 3), where the unbiased form has more than |g|^2."""
    vector = KINDS["normal"][:64]
    for k in (1, 4, 16, 64):
        codec = QcsMmse(share=k / 64, bucket_size=64)
        bound = 1 - codec.alpha(64, k)
        assert relative_errors(codec, vector)[0].mean() <= bound < 1
        assert codec.variance_bound(vector) == pytest.approx(bound * np.sum(vector**2))
        noisy = relative_errors(Qcs(share=k / 64, bucket_size=64), vector)[0].mean()
        assert noisy > bound * 1.3 or k == 64


def test_one_bit_equations_as_printed():
    """sign(v / s + u) and s (q - u), equations 5 and 6, have the mean 2 v; s (q / 2 - u) has the
    mean v and the variance s^2 / 12.
    """
    v, scale = np.array([0.9, -0.4, 0.1, 0, -1]), 2.0
    u = np.random.default_rng(2).uniform(-0.5, 0.5, (200_000, 5))
    q = np.sign(v / scale + u)
    noise = 4 * scale / np.sqrt(u.shape[0])
    printed, correct = scale * (q - u), scale * (q / 2 - u)
    assert np.abs(printed.mean(axis=0) - 2 * v).max() < noise
    assert np.abs(printed.mean(axis=0) - v).max() > 0.9
    assert np.abs(correct.mean(axis=0) - v).max() < noise
    assert correct.var(axis=0) == pytest.approx(np.full(5, scale**2 / 12), rel=0.02)
    # The codec's numbers are the correct ones: with one value, v = g, whatever the sign.
    codec = Qcs1Bit(bucket_size=1)
    vector = np.full(20_000, 0.7, np.float32)
    decoded = codec.decode(codec.encode(vector, KEY), KEY)
    assert decoded.mean() == pytest.approx(0.7, abs=4 * 1.4 / np.sqrt(12 * 20_000))
    assert decoded.var() == pytest.approx(1.4**2 / 12, rel=0.03)


@pytest.mark.parametrize("loops", [True, False])
@pytest.mark.parametrize("order", [1, 2, 4, 64, 256])
def test_transform_by_matrix(order, loops, monkeypatch):
    if not loops:
        monkeypatch.setattr(kernels, "find_kernels", lambda: None)
    for rows in (0, 1, 3, 2 * PIECE // order + 1):
        values = np.random.default_rng(order).integers(-2**24, 2**24, (rows, order))
        before = values.copy()
        assert (hadamard(values) == values @ matrix(order)).all()
        assert (hadamard(hadamard(values)) == order * values).all()
        assert (values == before).all()
    values = np.random.default_rng(order).integers(-2**24, 2**24, (2, 2 * PIECE))
    assert (hadamard(hadamard(values)) == 2 * PIECE * values).all()


@pytest.mark.parametrize("levels", [0.5, 1, 5])
def test_by_the_definition(levels):
    """Algorithm 1 of the paper in float64, with the random words of the key."""
    n, k, rng = 64, 24, np.random.default_rng(4)
    g = rng.normal(size=50).astype(np.float32)
    codec = Qcs1Bit(share=k / n) if levels < 1 else Qcs(share=k / n, levels=levels)
    words = KEY.words(2, stream=2)
    r = np.array([1 - 2 * (int(words[i // 32]) >> i % 32 & 1) for i in range(50)])
    rows = sorted(np.argsort(KEY.words(n, stream=3), kind="stable")[:k])
    transform = matrix(n)[rows][:, :50] * r / np.sqrt(k)
    v = transform @ g
    scale = np.abs(v).max() / levels
    u = ((KEY.words(k, stream=0) >> 9) - (FRACTION - 1) / 2) / FRACTION
    q = np.sign(v / scale + u) / 2 if levels < 1 else np.rint(v / scale + u)
    expected = transform.T @ (scale * (q - u))
    assert codec.decode(codec.encode(g, KEY), KEY) == pytest.approx(expected, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("name, options", SETTINGS)
def test_corners(name, options):
    for bucket_size in (0, 4):
        codec = make_codec(name, bucket_size=bucket_size, **options)
        for vector in CORNERS:
            check_corner(codec, vector)
    rounded = BFloat16.rounded(np.array([1, -3, 0.5], np.float32))
    assert unpack_message(make_codec(name).encode(rounded, KEY))[0].dtype == "bfloat16"


def test_small_and_large_values_as_others():
    """The scale is a power of two apart: so is every value that arrives."""
    vector, codec = KINDS["normal"], Qcs(share=0.5, levels=4)
    decoded = codec.decode(codec.encode(vector, KEY), KEY)
    for exponent in (-60, 90):
        far = codec.decode(codec.encode(vector * 2.0**exponent, KEY), KEY)
        assert (far == decoded * np.float32(2.0**exponent)).all()


def test_fixed_point_keeps_what_the_bias_says():
    """1 and 2**-30 in one bucket: the small one is rounded to 0, a multiple of 2**-23."""
    vector = np.array([1, 2.0**-30, 3 * 2.0**-24, 0], np.float32)
    bias = Qcs().bias(vector)
    assert bias is not None
    assert bias.tolist() == [0, -2.0**-30, 2.0**-24, 0]


@pytest.mark.parametrize("n, k, levels", [(512, 512, 1), (512, 128, 2), (256, 64, 0.5)])
def test_bytes_and_compression_gain(n, k, levels):
    """A vector of 2**18 values in radix groups: the printed gain but for header, scales and what
    the groups lose, at most 1.3 % each.
    """
    codec = Qcs1Bit(share=k / n, bucket_size=n) if levels < 1 else \
        Qcs(share=k / n, levels=levels, bucket_size=n, payload="radix")
    message = codec.encode(np.random.default_rng(5).normal(size=2**18), KEY)
    scales = 32 * 2**18 // n
    gain = 32 * 2**18 / (8 * len(message) - scales)
    assert gain <= compression_gain(n, k, levels)
    assert gain == pytest.approx(compression_gain(n, k, levels), rel=0.013)


@pytest.mark.parametrize("name, options", SETTINGS)
def test_probabilities_of_symbols(name, options):
    """Of one key as of others, as far as a vector of 40,000 values tells."""
    vector = np.random.default_rng(5).normal(size=40_000)
    codec = make_codec(name, **options)
    assert isinstance(codec, Qcs)
    counts, sent = np.zeros(codec.n_symbols), codec.sent(vector.size)
    for step in range(20):
        _, body = unpack_message(codec.encode(vector, Key(1, step)))
        symbols = codec.coding.decode(body[4 * codec.n_buckets(vector.size):], sent,
                                      codec.n_symbols)
        counts += np.bincount(symbols, minlength=codec.n_symbols)
    found = codec.probabilities(vector)
    assert found.sum() == pytest.approx(1)
    assert np.abs(counts / counts.sum() - found).max() < 5 * np.sqrt(0.25 / sent)


def test_best_settings_of_a_gain():
    """Least gamma at a gain: fewer rows with more levels beat k = n, Q = 1."""
    assert compression_gain(64, 64, 1) == pytest.approx(20.19, abs=0.005)
    assert compression_gain(64, 64, 0.5) == 32
    table = {20.19: (0.85, 0.89, 0.95, 1.01), 32: (1.88, 1.92, 2.02, 2.12),
             64: (4.72, 4.75, 4.84, 5.03), 100: (7.95, 7.95, 7.99, 8.28)}
    for gain, row in table.items():
        for n, expected in zip((64, 128, 256, 512), row, strict=True):
            found, k, levels = best_sketch(n, gain)
            assert found == pytest.approx(expected, abs=0.01)
            assert compression_gain(n, k, levels) >= gain * (1 - 1e-9)
            assert found == gamma(n, k, levels)
    assert best_sketch(64, 20.19)[0] < gamma(64, 64, 1)
    assert best_sketch(64, 1)[1:] == (64, 31)
    for gain in (0, 32 * 64 + 1, np.nan):
        with pytest.raises(ValueError, match="gain must be a positive number, at most 32 n"):
            best_sketch(64, gain)


@pytest.mark.parametrize("levels", [0.5, 1, 2, 3, 4, 7, 15, 31])
@pytest.mark.parametrize("n", [1, 4, 64])
def test_best_settings_are_no_worse_than_any_of_the_same_gain(n, levels):
    for k in range(1, n + 1):
        found, rows, steps = best_sketch(n, compression_gain(n, k, levels))
        assert 1 <= rows <= n
        assert found == gamma(n, rows, steps) <= gamma(n, k, levels)


def test_bad_settings_and_other_messages():
    for options, text in (({"levels": 0}, "levels must be"), ({"levels": 128}, "levels must be"),
                          ({"share": 0}, "share must be"), ({"payload": "morse"}, "payload must")):
        with pytest.raises(ValueError, match=text):
            make_codec("qcs", **options)
    with pytest.raises(ValueError, match="qcs-1bit has no option 'levels'; it has share, bucket"):
        make_codec("qcs-1bit", levels=1)
    message = make_codec("qcs").encode(np.ones(9), KEY)
    for name, options, what in (("qcs", {"levels": 2}, "parameter"), ("qcs-mmse", {}, "codec"),
                                ("qcs", {"share": 0.5}, "parameter")):
        with pytest.raises(MessageError, match=what):
            make_codec(name, **options).decode(message, KEY)


@pytest.mark.parametrize("name", ["qcs", "qcs-mmse", "qcs-1bit"])
def test_buckets_of_tiny_values_are_sent_as_zeros(name):
    """Below 2^-64, as docs/gradients.md says; other codecs reach 2^-96."""
    codec, key = make_codec(name, bucket_size=4), Key(1)
    vector = np.float32(2.0**-64) * np.array([1, -0.5, 0, 0.25, 0.99, -0.99, 0.5, 0], np.float32)
    found = codec.decode(codec.encode(vector, key), key)
    assert np.abs(found[:4]).max() > 0
    assert not found[4:].any()
