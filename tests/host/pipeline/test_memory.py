"""Packing: bytes by hand, and the golden model's unpacking for every width."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.levels import unpack_codes, unpack_labels
from bitstep.pipeline.memory import pack_packed
from bitstep.pipeline.parts.widths import BUS_WIDTHS
from bitstep.pipeline.registers import LabelFormat
from bitstep.pipeline.shapes import row_label_bits
from bitstep.quantization import pack_codes, pack_floats, pack_labels, unpack_floats


def test_codes_by_hand():
    codes = np.array([[1, 2, 3], [15, 0, 9]], np.uint8)
    assert pack_codes(codes, 4, 64).tolist() == [[0x21, 3, *[0] * 6], [0x0F, 9, *[0] * 6]]
    # Three bits: 1 + (2 << 3) + (7 << 6) = 0x1D1.
    assert pack_codes(np.array([[1, 2, 7]], np.uint8), 3, 64).tolist() == [[0xD1, 1, *[0] * 6]]
    # Seven bits: nine codes in 63 bits, the tenth in a beat of its own.
    stored = pack_codes(np.full((1, 10), 127, np.uint8), 7, 64)
    assert stored.tolist() == [[*[255] * 7, 127, 127, *[0] * 7]]
    assert pack_codes(np.arange(9, dtype=np.uint8)[None], 8, 64).tolist() == \
        [[*range(9), *[0] * 7]]
    assert pack_codes(np.ones((1, 10), np.uint8), 1, 128).tolist() == [[255, 3, *[0] * 14]]


@pytest.mark.parametrize("bits", range(1, 9))
@pytest.mark.parametrize("bus_width", BUS_WIDTHS)
@settings(max_examples=12)
@given(data=st.data())
def test_unpacking_undoes_it(bits, bus_width, data):
    lanes = bus_width // bits
    n_features = data.draw(st.sampled_from([1, lanes - 1, lanes, lanes + 1, 2 * lanes,
                                            3 * lanes + 5]) | st.integers(1, 4 * lanes))
    n_rows = data.draw(st.integers(1, 5))
    seed = data.draw(st.integers(0, 1 << 32))
    codes = np.random.default_rng(seed).integers(0, 1 << bits, (n_rows, n_features), np.uint8)
    config = PipelineConfig(bus_width=bus_width, bits=bits, max_features=n_features)
    rows = pack_codes(codes, bits, bus_width)
    assert rows.dtype == np.uint8
    assert rows.shape == (n_rows, config.rows.beats(n_features) * config.rows.beat_bytes)
    assert rows.flags.c_contiguous
    np.testing.assert_array_equal(unpack_codes(rows, config.rows, n_features), codes)
    # All bits that hold a code, and no others, can be set: what is left is padding.
    ones = pack_codes(np.full((1, n_features), (1 << bits) - 1, np.uint8), bits, bus_width)
    assert np.unpackbits(ones).sum() == bits * n_features
    assert not (rows & ~ones).any()


@pytest.mark.parametrize(("codes", "bits", "bus_width", "message"), [
    (np.zeros((2, 3), np.int64), 4, 64, "codes must be uint8 of shape"),
    (np.zeros(3, np.uint8), 4, 64, r"n_features\), not uint8 of shape \(3,\)"),
    (np.zeros((2, 0), np.uint8), 4, 64, r"not uint8 of shape \(2, 0\)"),
    (np.zeros((2, 3), np.uint8), 9, 64, "bits must be from 1 to 8 .*, not 9 and 64"),
    (np.zeros((2, 3), np.uint8), 4, 96, "bus_width one of 64, 128, 256, 512, not 4 and 96"),
])
def test_codes_refused(codes, bits, bus_width, message):
    with pytest.raises(ValueError, match=message):
        pack_codes(codes, bits, bus_width)


def test_labels_by_hand():
    assert pack_labels(np.array([1, -1, 1, 1]), LabelFormat.SIGN).tolist() == [0b1101, *[0] * 7]
    assert pack_labels(np.array([-2, 258]), LabelFormat.INT16).tolist() == \
        [0xFE, 0xFF, 2, 1, *[0] * 4]
    assert pack_labels(np.array([-2]), LabelFormat.INT32).tolist() == [0xFE, *[255] * 3, *[0] * 4]


@pytest.mark.parametrize("label_format", LabelFormat)
@pytest.mark.parametrize("n_rows", [1, 2, 3, 4, 5, 63, 64, 65, 1000])
def test_unpacking_undoes_labels(label_format, n_rows):
    rng = np.random.default_rng(n_rows)
    if label_format == LabelFormat.SIGN:
        labels = rng.choice([-1, 1], n_rows)
    else:
        range_ = np.iinfo(np.int16 if label_format == LabelFormat.INT16 else np.int32)
        labels = rng.integers(range_.min, range_.max, n_rows, endpoint=True)
        labels[0] = range_.min
    stored = pack_labels(labels, label_format)
    assert len(stored) % 8 == 0
    np.testing.assert_array_equal(unpack_labels(stored, label_format, n_rows), labels)


@pytest.mark.parametrize(("labels", "label_format", "message"), [
    ([1, 0], LabelFormat.SIGN, r"labels must be \+1 or -1 for the 1-bit format"),
    ([0, 32768], LabelFormat.INT16, "from -32768 to 32767 for format INT16, not 0 to 32768"),
    ([-1 - (1 << 31), 0], LabelFormat.INT32, "for format INT32, not -2147483649 to 0"),
])
def test_labels_refused(labels, label_format, message):
    with pytest.raises(ValueError, match=message):
        pack_labels(np.array(labels), label_format)


def test_floats_by_hand():
    # 1.0 is 0x3F800000, -0.5 is 0xBF000000, two to a beat of 64 bits.
    rows = pack_floats(np.array([[1, -0.5, 0.25]], np.float32), 64)
    assert rows.tobytes().hex() == "0000803f000000bf0000803e00000000"


@pytest.mark.parametrize("bus_width", BUS_WIDTHS)
@pytest.mark.parametrize("n_features", [1, 2, 3, 16, 17])
def test_floats_there_and_back(bus_width, n_features):
    values = np.random.default_rng(0).uniform(-1, 1, (5, n_features)).astype(np.float32)
    rows = pack_floats(values, bus_width)
    beats = PipelineConfig(bus_width=bus_width, bits=32,
                           row_format="float32").rows.beats(n_features)
    assert rows.shape == (5, beats * bus_width // 8)
    np.testing.assert_array_equal(unpack_floats(rows, n_features), values)
    assert not rows[:, 4 * n_features:].any()


def test_floats_are_refused():
    with pytest.raises(ValueError, match=r"must be float32 of .*, not float64 of shape \(1, 1\)"):
        pack_floats(np.ones((1, 1)), 64)
    with pytest.raises(ValueError, match="bus_width must be one of 64, 128, 256, 512, not 32"):
        pack_floats(np.ones((1, 1), np.float32), 32)


@pytest.mark.parametrize("bits, n_features", [(4, 7), (4, 6), (3, 7), (1, 5), (8, 3), (2, 2)])
def test_packed_rows_follow_each_other(bits, n_features):
    """Bit for bit, as a long number: a row's first bit after the last one of the row before, as
    many as a beat holds whole.
    """
    config = PipelineConfig(bits=bits, max_features=n_features, lookahead=0, packed=True)
    per_beat, width = 64 // (bits * n_features), bits * n_features
    assert config.rows.rows_per_beat == per_beat
    codes = np.random.default_rng(0).integers(0, 1 << bits, (2 * per_beat + 1, n_features),
                                              np.uint8)
    found = pack_packed(pack_codes(codes, bits, 64), config)
    assert found.shape == (3, 8)
    for beat, stored in enumerate(found):
        number = sum(int(code) << width * row + bits * feature
                     for row, some in enumerate(codes[beat * per_beat:(beat + 1) * per_beat])
                     for feature, code in enumerate(some))
        assert int.from_bytes(stored.tobytes(), "little") == number


@pytest.mark.parametrize("label_format, streams, alone, weighted", [
    (LabelFormat.SIGN, 1, 1, 32), (LabelFormat.SIGN, 16, 16, 32), (LabelFormat.INT16, 1, 16, 32),
    (LabelFormat.INT16, 2, 32, 64), (LabelFormat.INT32, 1, 32, 64)])
def test_bits_of_a_row_s_labels(label_format, streams, alone, weighted):
    """A weight of 16 bits has the highest ones of twice as many, at least 32."""
    assert row_label_bits(label_format, streams, False) == alone
    assert row_label_bits(label_format, streams, True) == weighted
