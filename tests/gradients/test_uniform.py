"""Codecs with uniform levels: by hand, statistics, bytes of FC-300-100."""

import numpy as np
import pytest
from tests.gradients.helpers import check_mean, check_variance, errors

from bitstep_gradients import Key, kernels, make_codec
from bitstep_gradients.codecs.uniform import FRACTION, Qsgd, QsgdLinf
from bitstep_gradients.vectors import bucket_sums
from bitstep_gradients.wire.header import unpack_message

FC_300_100 = ((784, 300), (300,), (300, 100), (100,), (100, 10), (10,))
KEY = Key(11, 3, 1, 4)
SETTINGS = [("qsgd", {"levels": 4}), ("qsgd-linf", {"levels": 3}), ("qsgd-linf", {"bits": 8}),
            ("terngrad", {}), ("terngrad", {"clip": None}), ("dqsg", {"levels": 1}),
            ("dqsg", {"levels": 2})]


@pytest.mark.by_day(3)
@pytest.mark.covering(1)
@pytest.mark.parametrize("bucket_size", [0, 1, 64, 100])
@pytest.mark.parametrize("name, options", SETTINGS)
def test_statistics(name, options, bucket_size):
    vector = np.random.default_rng(3).normal(size=300)
    vector[:40] = 0
    codec = make_codec(name, bucket_size=bucket_size, **options)
    found = errors(codec, vector.astype(np.float32), 3000)
    check_mean(codec, vector, found)
    check_variance(codec, vector, found)


def test_by_hand():
    """Scale 2, M = 2: t = v F; k = floor(v + u / F)."""
    codec = QsgdLinf(levels=2)
    values = np.array([2, -2, 1, 0, 0.25, -0.75], np.float32)
    scales = codec.scales(values)
    assert scales.tolist() == [2]
    assert (codec.targets(values, scales) / FRACTION).tolist() == [2, -2, 1, 0, 0.25, -0.75]
    u = (KEY.words(6) >> 9) / FRACTION
    expected = np.floor(values + u)
    assert codec.decode(codec.encode(values, KEY), KEY).tolist() == expected.tolist()
    dithered = make_codec("dqsg", levels=2)
    assert dithered.decode(dithered.encode(values, KEY), KEY) == \
        pytest.approx(expected - u + 0.5, abs=2e-7)


@pytest.mark.parametrize("bucket_size", [0, 1000, 2**16, 100_000])
def test_sums_of_more_values_than_a_piece(bucket_size):
    """Norms of QSGD, and squares around centres, of a vector that is summed in pieces."""
    vector = (np.random.default_rng(2).normal(size=200_001) + 3).astype(np.float32)
    parts = np.split(vector.astype(np.float64), range(bucket_size or 200_001, 200_001,
                                                      bucket_size or 200_001))
    codec = Qsgd(bucket_size=bucket_size)
    assert codec.scales(vector) == pytest.approx(np.array([np.linalg.norm(one) for one in parts]))
    centres = np.array([one.mean() for one in parts])
    assert bucket_sums(vector, bucket_size) == pytest.approx(centres * [one.size for one in parts])
    assert bucket_sums(vector, bucket_size, centres) == \
        pytest.approx(np.array([one.var() * one.size for one in parts]))


@pytest.mark.parametrize("loops", [True, False])
def test_products_that_round_beyond_the_last_level(loops, monkeypatch):
    """s times f = M F / s can round to more than M F, and a dither near F then carries."""
    if not loops:
        monkeypatch.setattr(kernels, "find_kernels", lambda: None)
    most = np.float32(127 * FRACTION)
    scale = next(one for one in np.linspace(1, 2, 1000, dtype=np.float32)
                 if one * (most / one) > most)
    vector = np.full(2**20, scale)
    codec, key = make_codec("qsgd-linf", levels=127), Key(2)
    assert (key.words(vector.size) >> 9).max() >= FRACTION - 32
    assert (codec.decode(codec.encode(vector, key), key) == scale).all()
    assert (codec.decode(codec.encode(-vector, key), key) == -scale).all()


@pytest.mark.parametrize("levels, payload, kilobits", [(1, "radix", 428.0), (2, "radix", 623.6)])
def test_bytes_of_fc_300_100(levels, payload, kilobits):
    codec, rng = make_codec("dqsg", levels=levels, payload=payload), np.random.default_rng(1)
    messages = [codec.encode(rng.uniform(-1, 1, shape), KEY) for shape in FC_300_100]
    assert sum(8 * len(message) for message in messages) <= 1000 * kilobits
    assert [8 * len(message) for message in messages] == \
        [codec.expected_bits(np.ones(shape)) for shape in FC_300_100]


@pytest.mark.parametrize("name, options", SETTINGS)
def test_corners(name, options):
    codec = make_codec(name, bucket_size=4, **options)
    for vector in (np.zeros(0), np.zeros(7), np.full(9, 3e38), np.full(5, 1e-44), np.ones((2, 0)),
                   np.array(-2.5), np.linspace(-1, 1, 9).astype(np.float16)):
        if name == "qsgd" and np.max(vector, initial=0) > np.float32(1e38):
            with pytest.raises(ValueError, match="L2 norm"):
                codec.encode(vector, KEY)
            continue
        decoded = codec.decode(codec.encode(vector, KEY), KEY)
        assert decoded.shape == np.shape(vector)
        assert np.isfinite(decoded).all()
        header, _ = unpack_message(codec.encode(vector, KEY))
        assert header.dtype == ("float16" if np.asarray(vector).dtype == np.float16 else "float32")


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e39])
def test_values_that_are_not_finite(value):
    with pytest.raises(ValueError, match="1 of 3 values are not"):
        make_codec("dqsg").encode(np.array([1, value, 2]), KEY)


@pytest.mark.parametrize("options, text", [
    ({"levels": 0}, "levels must be an integer from 1 to 127, not 0"),
    ({"levels": 3, "bits": 3}, "levels and bits say the same"),
    ({"bits": 9}, "bits must be an integer from 2 to 8"),
    ({"bucket_size": -1}, "bucket_size must be"), ({"bucket_size": 2**32}, "bucket_size must be"),
    ({"payload": "morse"}, "payload must be one of fixed"),
    ({"clip": 3}, "dqsg has no option 'clip'; it has levels, bits, bucket_size, payload")])
def test_bad_options(options, text):
    with pytest.raises(ValueError, match=text):
        make_codec("dqsg", **options)


@pytest.mark.parametrize("name", ["qsgd", "qsgd-linf", "terngrad", "dqsg", "ndqsg", "nuqsgd", "alq",
                                  "alq-linf", "optimal"])
def test_least_scale(name):
    """A bucket whose scale is below 2^-96 is sent as zeros; one at it is not."""
    codec, least = make_codec(name), np.float32(2.0**-96)
    for value, is_sent in ((least, True), (np.nextafter(least, np.float32(0)), False)):
        vector = np.array([value, 0, 0], np.float32)
        decoded = codec.decode(codec.encode(vector, KEY), KEY)
        assert decoded.any() == is_sent
        assert (codec.bias(vector) == 0).all() == is_sent
        if not is_sent:
            assert codec.expected_error(vector) == float(value)**2 <= codec.variance_bound(vector)


def test_terngrad_does_not_clip_what_does_not_deviate():
    codec = make_codec("terngrad", bucket_size=4)
    vector = np.repeat(np.array([5, -3], np.float32), 4)
    assert (codec.decode(codec.encode(vector, KEY), KEY) == vector).all()
    assert (codec.bias(vector) == 0).all()


@pytest.mark.parametrize("clip", [2.5, 0.5, 1.0])
def test_terngrad_clips_at_standard_deviations_of_the_bucket(clip):
    """On both sides of zero, wherever the mean is."""
    vector = np.random.default_rng(5).normal(size=2000).astype(np.float32)
    vector *= np.repeat(np.array([1, 30, 0.1, 4], np.float32), 500)
    vector += 2
    codec = make_codec("terngrad", bucket_size=600, **({} if clip == 2.5 else {"clip": clip}))
    limits = np.concatenate([np.full(part.size, clip * part.std(dtype=np.float64))
                             for part in np.split(vector, [600, 1200, 1800])])
    bias = np.clip(vector, -limits, limits) - vector
    assert np.count_nonzero(bias) > 30
    assert codec.bias(vector) == pytest.approx(bias, rel=1e-5, abs=1e-5)
    scales = np.array([np.abs(part).max() for part in np.split(vector + bias, [600, 1200, 1800])])
    sent = np.abs(vector + bias) / np.repeat(scales, [600, 600, 600, 200])
    variance = np.sum(sent * (1 - sent) * np.repeat(scales, [600, 600, 600, 200])**2)
    assert codec.expected_error(vector) == pytest.approx(variance + np.sum(bias**2), rel=1e-4)


@pytest.mark.parametrize("clip", [0, -1, np.nan])
def test_terngrad_clips_at_a_positive_number(clip):
    with pytest.raises(ValueError, match="clip must be a positive number or None"):
        make_codec("terngrad", clip=clip)


def test_terngrad_has_three_levels():
    with pytest.raises(ValueError, match="terngrad has no option 'levels'; it has clip, bucket_si"):
        make_codec("terngrad", levels=2)
