"""top-k, random-k, one-bit, sign: by hand, statistics, bytes."""

from itertools import pairwise

import numpy as np
import pytest
from tests.gradients.helpers import CORNERS, check_corner, check_mean, check_variance, errors

from bitstep_gradients import BFloat16, Key, MessageError, majority_vote, make_codec
from bitstep_gradients.codecs.shares import choose, kept_of, share_code
from bitstep_gradients.codecs.sparse import RandomK, TopK
from bitstep_gradients.wire.header import pack_message, unpack_message

FC_300_100 = ((784, 300), (300,), (300, 100), (100,), (100, 10), (10,))
LENET = ((5, 5, 1, 32), (32,), (5, 5, 32, 64), (64,), (3136, 512), (512,), (512, 10), (10,))
KEY = Key(11, 3, 1, 4)
SETTINGS = [("top-k", {"share": 0.1}), ("random-k", {"share": 0.1}),
            ("random-k", {"share": 0.1, "unbiased": False}), ("one-bit", {}), ("sign", {})]


@pytest.mark.covering(1)
@pytest.mark.parametrize("bucket_size", [0, 1, 64, 100])
@pytest.mark.parametrize("name, options", SETTINGS)
def test_statistics(name, options, bucket_size):
    vector = np.random.default_rng(3).normal(size=300).astype(np.float32)
    vector[:40] = 0
    codec = make_codec(name, bucket_size=bucket_size, **options)
    found = errors(codec, vector, 3000 if name == "random-k" else 3)
    check_mean(codec, vector, found)
    check_variance(codec, vector, found)
    assert codec.expected_bits(vector) == 8 * len(codec.encode(vector, KEY))


@pytest.mark.parametrize("name, options", SETTINGS)
def test_corners(name, options):
    for bucket_size in (0, 4):
        codec = make_codec(name, bucket_size=bucket_size, **options)
        for vector in CORNERS:
            check_corner(codec, vector)
        rounded = BFloat16.rounded(np.array([1, -3, 0.5], np.float32))
        assert unpack_message(codec.encode(rounded, KEY))[0].dtype == "bfloat16"


@pytest.mark.parametrize("bucket_size", [0, 4])
def test_random_k_of_values_that_arrive_clipped(bucket_size):
    """Half of the values, doubled: 3e38 arrives as the largest number of float32, L."""
    vector = np.array([3e38, -1e38, 2.0, 0, -3.4e38, 1e38, 1e38, 1e38])
    codec, largest = RandomK(share=0.5, bucket_size=bucket_size), float(np.finfo(np.float32).max)
    assert codec.bias(vector) == pytest.approx(
        [largest / 2 - 3e38, 0, 0, 0, 3.4e38 - largest / 2, 0, 0, 0], rel=1e-6)
    received = np.clip(2 * vector, -largest, largest)       # if it is sent, at equal odds
    assert codec.expected_error(vector) == pytest.approx(
        np.sum((received - vector)**2 + vector**2) / 2)
    found = errors(codec, vector, 3000)
    check_mean(codec, vector, found)
    check_variance(codec, vector, found)


def test_top_k_by_hand():
    vector = np.array([1, -3, 3, 0, -3, 2, 0.5, -0.25], np.float32)
    decoded = make_codec("top-k", share=0.25).decode(
        make_codec("top-k", share=0.25).encode(vector, KEY), KEY)
    assert decoded.tolist() == [0, -3, 3, 0, 0, 0, 0, 0]        # of three equal ones the first two
    codec = make_codec("top-k", share=0.25, bucket_size=4)
    assert codec.decode(codec.encode(vector, KEY), KEY).tolist() == [0, -3, 0, 0, -3, 0, 0, 0]
    assert codec.expected_error(vector) == pytest.approx(10 + 4.3125)
    assert codec.variance_bound(vector) == pytest.approx(0.75 * np.sum(vector**2))
    codec = make_codec("top-k", share=0.25, bucket_size=6)      # 2 of 6 values, 1 of 2
    assert codec.decode(codec.encode(vector, KEY), KEY).tolist() == [0, -3, 3, 0, 0, 0, 0.5, 0]
    assert codec.expected_error(vector) == pytest.approx(1 + 9 + 4 + 0.0625)
    assert codec.variance_bound(vector) == pytest.approx(4 / 6 * 32 + 1 / 2 * 0.3125)


def test_top_k_is_the_largest_of_many():
    vector = np.random.default_rng(1).normal(size=(300, 200)).astype(np.float32)
    codec = TopK(share=0.01)
    decoded = codec.decode(codec.encode(vector, KEY), KEY)
    assert np.count_nonzero(decoded) == 600
    assert np.abs(decoded[decoded != 0]).min() >= np.abs(vector[decoded == 0]).max()


def test_random_k_positions():
    """Every rank makes the same; steps, tensors and buckets make others; every place has its
    share.
    """
    codec = RandomK(share=0.1, bucket_size=100)
    first = codec.positions(1000, Key(1, 2, 0, 3))
    assert first.tolist() == codec.positions(1000, Key(1, 2, 7, 3)).tolist()
    assert first.tolist() != codec.positions(1000, Key(1, 3, 0, 3)).tolist()
    assert first.tolist() != codec.positions(1000, Key(1, 2, 0, 4)).tolist()
    rows = first.reshape(10, 10)
    assert (rows // 100 == np.arange(10)[:, None]).all()
    assert len({tuple(row % 100) for row in rows}) == 10
    counts = np.bincount(np.concatenate([choose(Key(2, step), 40, 20, 5).reshape(-1)
                                         for step in range(250)]), minlength=20)
    assert np.abs(counts - 2500).max() <= 4.5 * np.sqrt(10_000 * 0.25 * 0.75)


def test_random_k_of_a_shorter_bucket():
    """3 of 4 values arrive 4 / 3 times as large; of 2, which is 1.5 to the even integer, both."""
    codec, vector = RandomK(share=0.75, bucket_size=4), np.array([3, 3, 3, 3, 5, 7], np.float32)
    decoded = codec.decode(codec.encode(vector, KEY), KEY)
    assert sorted(decoded[:4].tolist()) == [0, 4, 4, 4]
    assert decoded[4:].tolist() == [5, 7]
    assert codec.expected_error(vector) == pytest.approx(1 / 3 * 36)


@pytest.mark.parametrize("share, code, kept", [
    (1.0, 2**24, 10), (0.25, 2**22, 3), (0.2, 3355443, 2), (0.149, 2499805, 1),
    (2.0**-24, 1, 1), (1e-9, 1, 1)])
def test_shares(share, code, kept):
    """Rounded to 24 bits; half a value of 10 rounds up, and one is sent at least."""
    assert share_code(share) == code
    assert kept_of(code, 10) == kept
    assert kept_of(code, 0) == 0
    vector = np.arange(10.0)
    codec = make_codec("top-k", share=share)
    assert np.count_nonzero(codec.decode(codec.encode(vector + 1, KEY), KEY)) == kept


def test_choice_by_the_definition():
    words = KEY.words(14, stream=3).reshape(2, 7)
    assert choose(KEY, 2, 7, 3).tolist() == [sorted(np.argsort(row, kind="stable")[:3])
                                             for row in words]


def test_sums_of_random_k_over_ranks_stay_sparse():
    codec, rng = make_codec("random-k", share=0.01), np.random.default_rng(3)
    total = np.zeros(10_000)
    for rank in range(8):
        key = Key(5, 6, rank)
        total += codec.decode(codec.encode(rng.normal(size=10_000), key), key)
    assert np.count_nonzero(total) == 100


def test_one_bit_by_hand():
    matrix = np.array([[1, 3, -2], [0, -1, -4]], np.float32)
    codec = make_codec("one-bit")
    assert codec.decode(codec.encode(matrix, KEY), KEY).tolist() == [[2, 2, -2], [0, -2.5, -2.5]]
    assert codec.decode(codec.encode(matrix.reshape(-1), KEY), KEY) == \
        pytest.approx(np.array([4 / 3, 4 / 3, -7 / 3, 4 / 3, -7 / 3, -7 / 3]))
    assert codec.expected_error(matrix) == pytest.approx(1 + 1 + 2.25 + 2.25)


@pytest.mark.parametrize("shapes, n, rows", [
    (FC_300_100, 266_610, 784 + 300 + 100 + 3), (LENET, 1_663_370, 5 + 5 + 3136 + 512 + 4)])
def test_one_bit_bytes(shapes, n, rows):
    """n + 64 rows bits: 342.578 Kbit of FC-300-100, 1,897.738 of LeNet (Table 1 of the DQSG paper:
    342.6 and 1,897.8), and the last bytes of the tensors.
    """
    codec, rng = make_codec("one-bit"), np.random.default_rng(1)
    messages = [codec.encode(rng.normal(size=shape), KEY) for shape in shapes]
    bodies = sum(8 * len(unpack_message(message)[1]) for message in messages)
    assert n + 64 * rows in (342_578, 1_897_738)
    assert n + 64 * rows <= bodies <= n + 64 * rows + 7 * len(shapes)
    assert sum(8 * len(message) for message in messages) == \
        sum(codec.expected_bits(np.ones(shape)) for shape in shapes)


def test_sign_by_hand():
    codec = make_codec("sign", bucket_size=3)
    vector = np.array([1.0, -2, 0, -5, -1])
    assert codec.decode(codec.encode(vector, KEY), KEY).tolist() == [1, -1, 1, -3, -3]
    assert codec.expected_error(vector) == pytest.approx(0 + 1 + 1 + 4 + 4)


@pytest.mark.parametrize("name, numbers, text", [
    ("one-bit", [0.5, 1], "below zero that are not positive"),
    ("one-bit", [-1, -0.5], "others that are not negative"),
    ("one-bit", [-1, np.inf], "all finite"), ("one-bit", [-1], "must have 2"),
    ("sign", [-1], "scales that are not negative"), ("sign", [np.nan], "all finite")])
def test_centres_and_scales_that_cannot_be(name, numbers, text):
    codec = make_codec(name)
    header, _ = unpack_message(codec.encode(np.ones(3), KEY))
    body = np.array(numbers, "<f4").tobytes() + b"\7" * (len(numbers) > 1 or name == "sign")
    with pytest.raises(MessageError, match=text):
        codec.decode(pack_message(header, body), KEY)


def test_majority_vote():
    votes = [np.array([2, -1, 3, 0, 0], np.float32), np.array([1, -1, -1, 2, 0], np.float32)]
    assert majority_vote(votes).tolist() == [1, -1, 0, 1, 0]
    assert majority_vote([*votes, -votes[0]]).tolist() == [1, -1, -1, 1, 0]
    assert majority_vote(votes, scaled=True).tolist() == [1.5, -1, 0, 1, 0]
    for wrong in ([], [np.ones(2), np.ones(3)]):
        with pytest.raises(ValueError, match="at least one, and of one shape"):
            majority_vote(wrong)
    with pytest.raises(ValueError, match="finite"):
        majority_vote([np.ones(2), np.array([1, np.nan])])


def test_majority_is_right_more_often_with_more_ranks():
    """Each rank has a wrong sign in 31 % of the places; of 1, 9 and 33 votes fewer are wrong."""
    rng, codec, wrong = np.random.default_rng(2), make_codec("sign"), []
    for ranks in (1, 9, 33):
        keys = [Key(1, 0, rank) for rank in range(ranks)]
        gradients = [codec.decode(codec.encode(0.5 + rng.normal(size=20_000), key), key)
                     for key in keys]
        wrong.append(np.mean(majority_vote(gradients) < 0))
    assert wrong[0] == pytest.approx(0.3085, abs=0.01)
    assert all(later < 0.5 * earlier for earlier, later in pairwise(wrong))


@pytest.mark.parametrize("share", [0, -1, 1.01, np.nan, True, "all", None])
def test_bad_shares(share):
    for name in ("top-k", "random-k"):
        with pytest.raises(ValueError, match="share must be a number above 0 and at most 1"):
            make_codec(name, share=share)


def test_bad_settings():
    with pytest.raises(ValueError, match="unbiased must be True or False"):
        make_codec("random-k", unbiased=1)
    message = make_codec("random-k", share=0.5).encode(np.ones(4), KEY)
    with pytest.raises(MessageError, match="parameter"):
        make_codec("random-k", share=0.5, unbiased=False).decode(message, KEY)
    with pytest.raises(MessageError, match="parameter"):
        make_codec("random-k", share=0.25).decode(message, KEY)
