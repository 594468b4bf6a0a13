"""NDQSG: the paper's example, equation 9, overloads and their probability, poor side information,
bytes.
"""

from math import log2

import numpy as np
import pytest
from tests.gradients.helpers import CORNERS, check_corner, check_mean, check_variance, errors

from bitstep_gradients import Key, MessageError, kernels, make_codec
from bitstep_gradients.codecs.ndqsg import Ndqsg, Nesting
from bitstep_gradients.codecs.nesting import fold, overload_probability, unfold
from bitstep_gradients.codecs.uniform import FRACTION, Uniform
from bitstep_gradients.wire.header import pack_message, unpack_message

FC_300_100 = ((784, 300), (300,), (300, 100), (100,), (100, 10), (10,))
KEY = Key(11, 3, 1, 4)
SETTINGS = [{}, {"levels": 7, "ratio": 4}, {"alpha": 0.9}, {"bits": 4, "ratio": 5, "alpha": 0.75}]


def vectors(count=300, deviation=0.05, seed=3):
    """A vector with the scale 1, and side information."""
    rng = np.random.default_rng(seed)
    vector = rng.uniform(-1, 1, count).astype(np.float32)
    vector[:3] = 1, -1, 0
    return vector, (vector + rng.normal(size=count) * deviation).astype(np.float32)


def test_example_of_the_paper(monkeypatch):
    """x = -4.2, u = 0.3, y = -3.4, steps 1 and 3: s = -1, x' = -4.3. First in tenths, then as
    messages, where a value of 5 sets the scale.
    """
    index = (2 * -42 + 2 * 3 + 10) // 20            # -3.9 rounded
    assert index == -4
    assert fold(np.array([index]), 3).tolist() == [-1]
    found = unfold(np.array([-1]), np.array([2 * -34 + 2 * 3]), 3, 10)
    assert found.tolist() == [-4]
    assert (found[0] * 10 - 3) / 10 == -4.3

    dither = round(0.3 * FRACTION + (FRACTION - 1) / 2)
    monkeypatch.setattr(Uniform, "_dither", lambda self, count, key: np.full(count, dither))
    monkeypatch.setattr(kernels, "find_kernels", lambda: None)      # they make their own dither
    codec = Ndqsg(levels=5, ratio=3, payload="radix")
    # Enough values to make nesting worth its checksum.
    vector, side = np.full(200, -4.2), np.full(200, -3.4)
    vector[0] = side[0] = 5
    message = codec.encode(vector, KEY, side)
    assert codec.nesting(message) == Nesting(True, 0)
    decoded = codec.decode(message, KEY, side)
    assert decoded[1:] == pytest.approx(np.full(199, -4.3), abs=1e-6)
    _, body = unpack_message(message)
    assert codec.coding.decode(body[13:], 200, 3)[1] - 1 == -1
    # With y = -2.2 the nearest value of that remainder is -1.3, but the sender knows.
    corrected = codec.encode(vector, KEY, np.where(side == 5, 5, -2.2))
    assert codec.nesting(corrected).nested is False
    side[7] = -2.2
    message = codec.encode(vector, KEY, side)
    assert codec.nesting(message) == Nesting(True, 1)
    assert codec.decode(message, KEY, side)[1:] == pytest.approx(np.full(199, -4.3), abs=1e-6)


@pytest.mark.parametrize("ratio", [3, 5, 7])
def test_fold_is_the_difference_of_two_quantizers(ratio):
    """Q1(t) - Q2(t) for odd ratios, Q2 having the step ratio times as wide."""
    numbers = np.arange(-500, 500)
    t = numbers / 10 + 0.05
    fine = np.rint(t).astype(int)
    assert fold(fine, ratio).tolist() == (fine - ratio * np.rint(t / ratio).astype(int)).tolist()


@pytest.mark.parametrize("ratio", [2, 3, 4, 9])
def test_unfold_inverts_within_half_a_coarse_step(ratio):
    indices, fraction = np.arange(-40, 41), 100
    for apart in range(-ratio * fraction, ratio * fraction):     # in units of 1 / (2 fraction)
        centres = 2 * indices * fraction + apart
        assert (unfold(fold(indices, ratio), centres, ratio, fraction) == indices).all()
    for apart, more in ((ratio * fraction, ratio), (-ratio * fraction - 1, -ratio)):
        beyond = 2 * indices * fraction + apart
        assert (unfold(fold(indices, ratio), beyond, ratio, fraction) == indices + more).all()


@pytest.mark.covering(1)
@pytest.mark.parametrize("deviation", [None, 0, 0.05, 1])
@pytest.mark.parametrize("bucket_size", [0, 1, 64, 100])
@pytest.mark.parametrize("options", SETTINGS)
def test_statistics(options, bucket_size, deviation):
    """Mean and error are the stated ones with no, exact, good and poor side information."""
    vector, side = vectors(deviation=deviation or 0)
    side = None if deviation is None else side
    codec = Ndqsg(bucket_size=bucket_size, **options)
    found = np.empty((400, vector.size))
    for step in range(len(found)):
        key = Key(0, step, rank=step % 3, tensor=5)
        decoded = codec.decode(codec.encode(vector, key, side), key, side)
        found[step] = decoded.astype(np.float64) - vector
    exact = codec.expected_error(vector, side)
    assert (found**2).sum(axis=1).mean() == pytest.approx(exact, rel=0.02, abs=1e-6)
    assert codec.variance_bound(vector, side) == exact
    rng = np.random.default_rng(7)
    for direction in rng.normal(size=(4, vector.size)):
        along = (found - codec.bias(vector, side)) @ direction
        noise = along.std(ddof=1) / np.sqrt(along.size)
        assert abs(along.mean()) <= 4 * noise + 1e-5


def test_statistics_without_side_by_the_common_checks():
    vector, _ = vectors()
    codec = make_codec("ndqsg", bucket_size=64)
    found = errors(codec, vector, 2000)
    check_mean(codec, vector, found)
    check_variance(codec, vector, found)


@pytest.mark.parametrize("deviation", [0, 0.1, 3])
def test_receives_what_dqsg_receives(deviation):
    """alpha = 1: the same values bit for bit, whatever the side information."""
    vector, side = vectors(20_000, deviation)
    for levels, ratio in ((3, 3), (7, 4), (127, 17), (2, 2)):
        codec, plain = Ndqsg(levels=levels, ratio=ratio), make_codec("dqsg", levels=levels)
        decoded = codec.decode(codec.encode(vector, KEY, side), KEY, side)
        assert (decoded == plain.decode(plain.encode(vector, KEY), KEY)).all()


@pytest.mark.parametrize("alpha, expected", [
    (1.0, 0.00926), (np.sqrt(1 - 1 / 108 / 0.01), 0.00926), (np.sqrt(1 - 1 / 216 / 0.01), 0.00711)])
def test_equation_9(alpha, expected):
    """D1 = 1/3, D2 = 1, deviation 0.1: alpha = 1 and sqrt(1 - D1^2 / (12 sz^2)) give D1^2 / 12;
    the least error is at alpha^2 = 1 - D1^2 / (24 sz^2).
    """
    rng = np.random.default_rng(6)
    vector = rng.uniform(-0.5, 0.5, 100_000)        # far from the scale, where y would be clipped
    vector[0] = 1
    side = vector + rng.normal(size=vector.size) * 0.1
    codec = Ndqsg(levels=3, ratio=3, alpha=float(alpha))
    message = codec.encode(vector, KEY, side)
    assert codec.nesting(message).nested
    error = np.mean((codec.decode(message, KEY, side).astype(np.float64) - vector)**2)
    assert error == pytest.approx(expected, rel=0.02)
    alpha_2 = codec.alpha**2
    assert expected == pytest.approx(alpha_2 / 108 + (1 - alpha_2)**2 * 0.01, abs=6e-6)


@pytest.mark.parametrize("alpha, deviation", [(1.0, 0.1), (1.0, 0.2), (0.75, 0.16), (0.5, 0.14)])
def test_overload_probability(alpha, deviation):
    """Pr(|alpha z + u| > D2 / 2) is the share that is corrected; Pr(|z| > D2 / 2) is not."""
    count = 200_000
    rng = np.random.default_rng(8)
    vector = rng.uniform(-0.3, 0.3, count)
    vector[0] = 1
    side = vector + rng.normal(size=count) * deviation
    codec = Ndqsg(levels=3, ratio=3, alpha=alpha)
    # The range of the side information is not cut off, nor is nesting given up for its error.
    codec._is_near = lambda *arguments: True        # type: ignore[method-assign]
    message = codec.encode(vector, KEY, side)
    assert codec.nesting(message).nested
    found = codec.nesting(message).overloads / count
    expected = overload_probability(deviation, 1 / 3, 1, codec.alpha)
    noise = 4 * np.sqrt(expected / count)
    assert abs(found - expected) <= noise
    assert codec.expected_overloads(vector, side) / count == pytest.approx(expected, abs=noise)
    printed = 2 * np.mean(rng.normal(size=10**6) * deviation > 0.5)
    assert abs(found - printed) > noise
    assert overload_probability(0, 1 / 3, 1) == 0


def test_bytes_of_fc_300_100():
    """Equal error: DQSG with M = 3 takes 748.5 Kbit, nested (3, 1) 422.6, 43 % less; header,
    scales, checksums and radix groups come on top.
    """
    rng, nested, plain = np.random.default_rng(1), 0, 0
    coder, dqsg = Ndqsg(levels=3, ratio=3, payload="radix"), \
        make_codec("dqsg", levels=3, payload="radix")
    for tensor, shape in enumerate(FC_300_100):
        vector, key = rng.uniform(-1, 1, shape), Key(1, 2, 3, tensor)
        side = vector + rng.uniform(-0.3, 0.3, shape)       # within (D2 - D1) / 2: no overload
        message = coder.encode(vector, key, side)
        assert coder.nesting(message).overloads == 0
        assert coder.expected_bits(vector, side) == 8 * len(message)
        assert coder.expected_error(vector, side) == pytest.approx(dqsg.expected_error(vector))
        nested += 8 * len(message)
        plain += 8 * len(dqsg.encode(vector, key))
    least, most = 266_610 * log2(3), 266_610 * log2(7)
    assert (round(least / 1000, 1), round(most / 1000, 1)) == (422.6, 748.5)
    assert 1 - least / most == pytest.approx(0.435, abs=5e-4)
    assert least <= nested <= 428_200
    assert most <= plain <= 758_000
    assert 1 - nested / plain == pytest.approx(0.434, abs=2e-3)


def test_algorithm_2_of_the_paper():
    """8 workers with a common gradient and noise of their own. Four send plain messages; the
    others are nested beside the mean of all before them, which every rank finds from the messages.
    Equal bits on two ranks, 21.7 % fewer bits than DQSG on average, and the mean's error is that
    of 8 DQSG messages.
    """
    rng, count = np.random.default_rng(9), 40_000
    codec = Ndqsg(levels=3, ratio=3, payload="radix")
    common = rng.normal(size=count)
    gradients = [(common + 0.3 * rng.normal(size=count)).astype(np.float32) for _ in range(8)]
    keys = [Key(1, 5, rank) for rank in range(8)]

    def mean_of(vectors):
        return np.asarray(np.mean(np.stack(vectors), axis=0, dtype=np.float32))

    messages, decoded = [], []
    for rank, (gradient, key) in enumerate(zip(gradients, keys, strict=True)):
        side = mean_of(decoded) if rank >= 4 else None
        messages.append(codec.encode(gradient, key, side))
        decoded.append(codec.decode(messages[-1], key, side))
    other = [codec.decode(message, key) for message, key in zip(messages[:4], keys, strict=False)]
    for message, key in zip(messages[4:], keys[4:], strict=True):
        other.append(codec.decode(message, key, mean_of(other)))
    assert all((one == two).all() for one, two in zip(decoded, other, strict=True))
    facts = [codec.nesting(message) for message in messages]
    assert [fact.nested for fact in facts] == [False] * 4 + [True] * 4
    assert max(fact.overloads for fact in facts) < 0.001 * count
    bits = [len(message) for message in messages]
    assert 1 - np.mean(bits) / np.mean(bits[:4]) == pytest.approx(0.217, abs=0.002)
    expected = sum(codec.expected_error(gradient) for gradient in gradients) / 64
    error = np.sum((np.mean(decoded, axis=0) - np.mean(gradients, axis=0, dtype=np.float64))**2)
    assert error == pytest.approx(expected, rel=0.02)


def test_poor_side_information_costs_bits_alone():
    """Bits a value rise with the deviation and end at those of DQSG, but for 5
    bytes; the expected length is right within 1 %.
    """
    codec, plain = Ndqsg(payload="radix"), make_codec("dqsg", levels=3, payload="radix")
    found = []
    for deviation in (0, 0.1, 0.13, 0.16, 0.2, 0.3, 1, 10):
        vector, side = vectors(50_000, deviation)
        message = codec.encode(vector, KEY, side)
        found.append(len(message))
        assert codec.expected_bits(vector, side) == pytest.approx(8 * len(message), rel=0.01)
        assert codec.nesting(message).nested == (deviation <= 0.3)
    limit = len(plain.encode(vectors(50_000)[0], KEY))
    assert found == sorted(found)
    assert found[0] < 0.57 * limit
    assert found[-1] == limit + 5           # a parameter of 5 bytes in place of 1, and the mode


@pytest.mark.parametrize("alpha, deviation, nested", [(0.9, 0.05, True), (0.9, 0.4, False)])
def test_alpha_is_given_up_for_poor_side_information(alpha, deviation, nested):
    """With a deviation of 0.4, equation 9 gives more than D1^2 / 12, so the message is plain."""
    vector, side = vectors(10_000, deviation)
    codec = Ndqsg(alpha=alpha, payload="radix")
    message = codec.encode(vector, KEY, side)
    assert codec.nesting(message).nested == nested
    assert codec.expected_error(vector, side) <= 10_000 / 108 + 1e-9
    if not nested:
        assert (codec.decode(message, KEY) == codec.decode(message, KEY, side)).all()


def test_side_that_helps_the_error_but_not_the_bits():
    """Few values: a checksum is longer than what nesting saves, but alpha < 1 still helps."""
    vector, side = vectors(8, 0.02)
    codec = Ndqsg(alpha=0.5)
    message = codec.encode(vector, KEY, side)
    assert codec.nesting(message) == Nesting(False, 0)
    assert codec.expected_error(vector, side) < 0.3 * codec.expected_error(vector)
    with pytest.raises(ValueError, match="give decode the side that encode got"):
        codec.decode(message, KEY)
    far = codec.decode(message, KEY, side) - vector
    assert np.sum(far**2) < 8 / 108


def test_other_side_information_is_refused():
    vector, side = vectors(1000)
    codec = Ndqsg()
    message = codec.encode(vector, KEY, side)
    with pytest.raises(ValueError, match="give decode the side that encode got"):
        codec.decode(message, KEY)
    for other in (side + 0.6, -side, np.zeros(1000)):
        with pytest.raises(MessageError, match="with other side information"):
            codec.decode(message, KEY, other)
    with pytest.raises(MessageError, match="or another key"):
        codec.decode(message, Key(12), side)


@pytest.mark.parametrize("count, settings, nested", [
    (5000, {"levels": 7, "alpha": 0.8, "payload": "radix"}, True), (8, {"alpha": 0.5}, False)])
def test_side_information_that_is_added(count, settings, nested):
    """With alpha < 1 one that gives the same indices gives other values, so it is refused, too."""
    vector, side = vectors(count, 0.02)
    codec = Ndqsg(**settings)
    message = codec.encode(vector, KEY, side)
    assert codec.nesting(message).nested == nested
    same = codec.decode(message, KEY, side)
    assert (codec.decode(message, KEY, np.where(side == 0, np.float32(-0.0), side)) == same).all()
    other = side.copy()
    other[-1] = np.nextafter(other[-1], np.float32(0))
    for wrong in (other, np.zeros_like(side)):
        with pytest.raises(MessageError, match="with other side information"):
            codec.decode(message, KEY, wrong)


def test_every_truncation_and_change_of_a_nested_message():
    vector, side = vectors(300, 0.15)
    codec = Ndqsg()
    message = codec.encode(vector, KEY, side)
    assert codec.nesting(message).nested
    assert codec.nesting(message).overloads > 0
    header, body = unpack_message(message)
    for place in range(len(message)):
        changed = bytearray(message)
        changed[place] ^= 0x41
        for wrong in (message[:place], bytes(changed)):
            with pytest.raises(MessageError):
                codec.decode(wrong, KEY, side)
    # Bodies that no codec wrote, under a checksum that fits.
    for place in range(len(body)):
        with pytest.raises(MessageError):
            codec.decode(pack_message(header, body[:place]), KEY, side)
    for wrong in (b"\x03" + body[1:], body[:5] + b"\xff" * 4 + body[9:], body + b"\0"):
        with pytest.raises(MessageError):
            codec.decode(pack_message(header, wrong), KEY, side)
    for wrong in (b"\x00", b"\x02"):
        with pytest.raises(MessageError):
            codec.decode(pack_message(header, wrong + body[1:]), KEY, side)
    with pytest.raises(MessageError, match="at most 300 corrections"):
        codec.decode(pack_message(header, body[:5] + b"\xff" * 4 + body[9:]), KEY, side)
    header, body = unpack_message(codec.encode(vector, KEY))
    with pytest.raises(MessageError, match="begin with 0, 1 or 2, but it begins with 3"):
        codec.decode(pack_message(header, b"\x03" + body[1:]), KEY, side)
    for wrong in (b"\x01", b"\x02"):
        with pytest.raises(MessageError, match="give decode the side that encode got"):
            codec.decode(pack_message(header, wrong + body[1:]), KEY)
    with pytest.raises(MessageError, match="codec"):
        codec.nesting(make_codec("dqsg").encode(vector, KEY))


@pytest.mark.parametrize("options", SETTINGS)
def test_corners(options):
    for bucket_size in (0, 4):
        codec = Ndqsg(bucket_size=bucket_size, **options)
        for vector in CORNERS:
            shape = np.shape(vector)
            for side in (None, vector, -vector, np.full(shape, 3e38), np.zeros(shape)):
                check_corner(codec, vector, side)
                assert np.isfinite(codec.bias(vector, side)).all()
                assert codec.bias(vector, side).shape == shape


@pytest.mark.parametrize("options, text", [
    ({"levels": 1}, "levels must be an integer of at least 2"),
    ({"ratio": 7}, "ratio must be an integer from 2 to 6, not 7"),
    ({"levels": 127, "ratio": 255}, "ratio must be an integer from 2 to 254"),
    ({"alpha": 0}, "alpha must be a number above 0 and at most 1"),
    ({"alpha": np.nan}, "alpha must be"), ({"alpha": "1"}, "alpha must be"),
    ({"levels": 3, "bits": 3}, "levels and bits say the same")])
def test_bad_options(options, text):
    with pytest.raises(ValueError, match=text):
        make_codec("ndqsg", **options)


@pytest.mark.parametrize("other", [{"levels": 4}, {"ratio": 2}, {"alpha": 0.5}])
def test_message_of_another_setting(other):
    message = make_codec("ndqsg").encode(np.ones(9), KEY)
    with pytest.raises(MessageError, match="parameter"):
        make_codec("ndqsg", **other).decode(message, KEY)


@pytest.mark.parametrize("count, nested", [(64, False), (72, True)])
def test_nested_indices_that_save_nothing(count, nested):
    """64 indices take 3 bits or, with 8 bytes of corrections and checksum, 2: 24 bytes both."""
    codec, vector = Ndqsg(levels=2, ratio=4), np.linspace(-1, 1, count).astype(np.float32)
    assert codec.nesting(codec.encode(vector, KEY, vector)).nested == nested


def test_facts_of_a_message_of_another_setting():
    """With other buckets they would be read at another place."""
    message = make_codec("ndqsg", bucket_size=3).encode(np.ones(9), KEY, np.ones(9))
    with pytest.raises(MessageError, match="bucket_size 3"):
        Ndqsg().nesting(message)
    with pytest.raises(MessageError, match="codec 6"):
        Ndqsg().nesting(make_codec("dqsg", levels=3).encode(np.ones(9), KEY))


def test_bias_of_side_information_by_hand():
    """(1 - alpha^2) (y - x) with alpha = 1/2. A y beyond the scale counts as the scale; a bucket
    that is sent as zeros loses all, whatever y is.
    """
    codec = Ndqsg(levels=2, ratio=4, alpha=0.5, bucket_size=4)
    values = np.array([1, -1, 0.5, 0.25, 2.0**-97, 0, -2.0**-97, 0])
    side = np.array([9, -2, 0.5, 0.5, 1, 1, 1, 1])
    bias = codec.bias(values, side)
    assert bias.tolist() == [0, 0, 0, 0.75 * 0.25, -2.0**-97, 0, 2.0**-97, 0]
    errors = codec.decode(codec.encode(values, KEY, side), KEY, side)[4:] - values[4:]
    assert (errors == bias[4:]).all()
    assert codec.expected_error(values, side) == pytest.approx(4 * 0.25 / 48 + (0.75 * 0.25)**2)


def test_bias_near_the_largest_number():
    """Differences of values near it are beyond float32."""
    codec = Ndqsg(levels=2, ratio=4, alpha=0.99)
    values = np.array([3e38, -3e38, 3e38, 1e38], np.float32)
    side = np.array([2.9e38, -3e38, -3e38, 1e38], np.float32)
    bias = codec.bias(values, side)
    assert np.isfinite(bias).all()
    assert bias[1] == pytest.approx(0, abs=1e32)
