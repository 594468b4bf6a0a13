"""Messages: every truncation and every changed byte is refused; payloads come back."""

import zlib
from dataclasses import replace
from math import log2

import numpy as np
import pytest

from bitstep_gradients import BFloat16, Key, MessageError, list_codecs, make_codec
from bitstep_gradients.registry import CODECS, option_names
from bitstep_gradients.wire.header import Header, bound, pack_message, read_varint, unpack_message
from bitstep_gradients.wire.payloads import PAYLOADS, radix_group

KEY = Key(1)
VECTOR = np.random.default_rng(5).normal(size=(5, 7)).astype(np.float32)


@pytest.mark.parametrize("name", list_codecs())
def test_truncated_changed_and_longer_messages(name):
    codec = make_codec(name)
    message = codec.encode(VECTOR, KEY)
    for place in range(len(message)):
        changed = bytearray(message)
        changed[place] ^= 0x41
        for wrong in (message[:place], bytes(changed)):
            with pytest.raises(MessageError):
                codec.decode(wrong, KEY)
    with pytest.raises(MessageError):
        codec.decode(message + b"\0", KEY)


@pytest.mark.by_day(10)
@pytest.mark.parametrize("name", list_codecs())
def test_the_vector_stays_as_it_is(name):
    codec, vector = make_codec(name), VECTOR.copy()
    vector.flags.writeable = False
    message = codec.encode(vector, KEY)
    assert codec.decode(message, KEY).flags.writeable
    codec.bias(vector)
    codec.expected_error(vector)
    codec.variance_bound(vector)
    codec.expected_bits(vector)
    assert (vector == VECTOR).all()


@pytest.mark.parametrize("name", list_codecs())
def test_vectors_of_both_byte_orders(name):
    codec = make_codec(name)
    for dtype in ("f2", "f4", "f8"):
        little, big = (VECTOR.astype(f"{order}{dtype}") for order in "<>")
        assert codec.encode(little, KEY, little) == codec.encode(big, KEY, big)
        assert codec.expected_bits(little) == codec.expected_bits(big)
        assert codec.variance_bound(little) == codec.variance_bound(big)


@pytest.mark.parametrize("other, what", [
    (make_codec("qsgd-linf", levels=2), "codec"), (make_codec("dqsg", levels=3), "parameter 2"),
    (make_codec("dqsg", levels=2, bucket_size=5), "bucket_size 0"),
    (make_codec("dqsg", levels=2, payload="radix"), "payload 1")])
def test_message_of_another_setting(other, what):
    with pytest.raises(MessageError, match=what):
        other.decode(make_codec("dqsg", levels=2).encode(VECTOR, KEY), KEY)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,) * 64, (127, 128), (2**20,)])
def test_header(shape):
    header = Header(200, "bfloat16", 15, 2**32 - 1, 77, 2**31, shape)
    assert unpack_message(pack_message(header, b"body")) == (header, b"body")


def test_as_many_dimensions_as_numpy_has():
    most = 64 if np.lib.NumpyVersion(np.__version__) >= "2.0.0b1" else 32
    vector = VECTOR.reshape((1,) * (most - 2) + (5, 7))
    assert (make_codec("none").decode(make_codec("none").encode(vector, KEY), KEY) == vector).all()


def test_number_of_more_bytes_than_it_may_have():
    assert read_varint(b"\xff\xff\xff\xff\x0f", 0) == (2**32 - 1, 5)
    for coded in (b"\x80" * 5 + b"\0", b"\x80" * 9, b"\x80", b""):
        with pytest.raises(MessageError, match="a number without end"):
            read_varint(coded, 0)


def test_bound_messages():
    """Bound twice a message is itself; to other numbers, it has a wrong checksum."""
    codec = make_codec("none")
    message = codec.encode(VECTOR, KEY)
    assert bound(bound(message, 1, 2**32 - 1, 0), 1, 2**32 - 1, 0) == message
    assert len(bound(message, 1)) == len(message)
    for numbers in ((2, 1), (1, 3), (1,), (1, 2, 0), (129,)):
        with pytest.raises(MessageError, match="of another rank, step or tensor"):
            codec.decode(bound(bound(message, 1, 2), *numbers), KEY)
    assert bound(b"bg\x01abc", 1) == b"bg\x01abc"


def test_header_of_a_checksum_that_fits_but_no_sense():
    message = pack_message(Header(6, "float32", 1, 1, 0, 0, (2**16, 2**18)), b"")
    with pytest.raises(MessageError, match="at most"):
        unpack_message(message)
    message = pack_message(Header(6, "float32", 1, 1, 0, 0, (1,) * 65), b"")
    with pytest.raises(MessageError, match="65 dimensions"):
        unpack_message(message)
    message = bytearray(pack_message(Header(6, "float32", 1, 1, 0, 0, (10,)), b""))
    message[8] |= 3                                 # float32 is type 0, and there are three
    message[3:7] = zlib.crc32(message[7:]).to_bytes(4, "little")
    with pytest.raises(MessageError, match="the type 3 of values"):
        unpack_message(bytes(message))
    header = Header(6, "float32", 1, 1, 0, 0, (10,))
    with pytest.raises(MessageError, match="1 scales"):
        make_codec("dqsg").decode(pack_message(header, b"abc"), KEY)
    with pytest.raises(MessageError, match="3 bytes"):
        make_codec("dqsg").decode(pack_message(header, bytes(5)), KEY)
    with pytest.raises(MessageError, match="symbol 3"):
        make_codec("dqsg").decode(pack_message(header, bytes(4) + b"\xff\xff\x0f"), KEY)


@pytest.mark.parametrize("payload", PAYLOADS)
@pytest.mark.parametrize("name", list_codecs())
def test_bodies_of_another_length(name, payload):
    """Under a checksum that fits."""
    known = option_names(CODECS[name])
    if payload not in (CODECS[name].payloads or ["fixed"]):
        return
    for options in ({"payload": payload}, {"payload": payload, "bucket_size": 12}):
        codec = make_codec(name, **{one: options[one] for one in options if one in known})
        header, body = unpack_message(codec.encode(VECTOR, KEY))
        others = [body[:place] for place in range(len(body))]
        for wrong in (*others, *(body + bytes(more) for more in range(1, 9)), body + body[-1:]):
            with pytest.raises(MessageError):
                codec.decode(pack_message(header, wrong), KEY)


@pytest.mark.parametrize("name", list_codecs())
def test_numbers_that_no_codec_sends(name):
    """NaN and infinity for a value or a scale, and a scale below 0."""
    codec = make_codec(name)
    header, body = unpack_message(codec.encode(VECTOR, KEY))
    place = {"ndqsg": 1, "top-k": len(body) - 4}.get(name, 0)
    has_scales = name not in ("none", "fp16", "bf16", "one-bit", "top-k", "random-k")
    for number in (np.nan, np.inf, -np.inf, *[-1] * has_scales):
        wrong = np.array(number, "<f2" if name == "fp16" else "<f4").tobytes()
        wrong = wrong[2:] if name == "bf16" else wrong
        changed = body[:place] + wrong + body[place + len(wrong):]
        with pytest.raises(MessageError, match=r"finite|not negative"):
            codec.decode(pack_message(header, changed), KEY)


@pytest.mark.parametrize("name", list_codecs())
def test_short_message_claims_no_memory(name):
    """Of as many values, rows and buckets as a message can have."""
    codecs = [make_codec(name)]
    if name not in ("none", "fp16", "bf16"):
        codecs.append(make_codec(name, bucket_size=1))
    for codec in codecs:
        message = codec.encode(np.ones((1, 1)), KEY)
        header, body = unpack_message(message)
        with pytest.raises(MessageError):
            codec.decode(pack_message(replace(header, shape=(2**33, 1)), body), KEY)


@pytest.mark.parametrize("name", list_codecs())
def test_no_values_in_a_shape_that_no_array_has(name):
    """NumPy multiplies the sizes other than 0."""
    codec = make_codec(name)
    header, body = unpack_message(codec.encode(np.zeros((0, 2)), KEY))
    with pytest.raises(MessageError, match="at most"):
        codec.decode(pack_message(replace(header, shape=(0, *[2**34] * 5)), body), KEY)


@pytest.mark.parametrize("n_symbols", [2, 3, 5, 7, 9, 15, 16, 31, 128, 255])
@pytest.mark.parametrize("name", PAYLOADS)
def test_payloads(name, n_symbols):
    rng, payload = np.random.default_rng(n_symbols), PAYLOADS[name]
    for count in (0, 1, 2, 3, 4, 5, 16, 17, 255, 256, 4097):
        for symbols in (rng.integers(0, n_symbols, count), np.full(count, n_symbols - 1)):
            coded = payload.encode(symbols, n_symbols)
            assert payload.decode(coded, count, n_symbols).tolist() == symbols.tolist()


def test_groups_by_the_definition():
    """Within 56 bits, the smallest that takes at most 1 % more than the logarithm, or least."""
    for n_symbols in range(2, 257):
        loss = [(n_symbols**size - 1).bit_length() / (size * log2(n_symbols))
                for size in range(1, 57) if (n_symbols**size - 1).bit_length() <= 56]
        group, width = radix_group(n_symbols)
        assert width == (n_symbols**group - 1).bit_length()
        assert loss[group - 1] == min(loss) or loss[group - 1] <= 1.01
        assert min(loss[:group - 1], default=2) > max(1.01, loss[group - 1])


def test_groups_by_hand():
    assert [radix_group(symbols) for symbols in (2, 3, 4, 5, 7)] == \
        [(1, 1), (5, 8), (1, 2), (3, 7), (6, 17)]
    assert PAYLOADS["radix"].encode(np.array([1, 2, 0, 1, 2]), 3) == bytes([1 + 6 + 27 + 162])


def test_bfloat16():
    values = np.array([1, -2.5, 3.14159, 1e-40, 3e38], np.float32)
    rounded = BFloat16.rounded(values)
    assert rounded.bits[:2].tolist() == [0x3F80, 0xC020]
    assert np.abs(rounded.values / values - 1)[:3].max() < 2**-8
    codec = make_codec("bf16")
    assert (codec.decode(codec.encode(rounded, KEY), KEY) == rounded.values).all()
    header, _ = unpack_message(codec.encode(rounded, KEY))
    assert header.dtype == "bfloat16"


@pytest.mark.parametrize("side, text", [
    (np.zeros((7, 5)), r"side must have the shape \(5, 7\)"), (np.full((5, 7), np.nan), "35 of 35"),
    (np.full((5, 7), 1e39), "35 of 35")])
def test_bad_side_information(side, text):
    codec = make_codec("dqsg")
    with pytest.raises(ValueError, match=text):
        codec.encode(VECTOR, KEY, side)
    with pytest.raises(ValueError, match=text):
        codec.decode(codec.encode(VECTOR, KEY), KEY, side)
