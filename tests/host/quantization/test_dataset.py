"""Quantized data sets: what a device reads means what the features and labels were."""

import dataclasses
import hashlib
import types

import numpy as np
import pytest

from bitstep.data import DataError
from bitstep.data.blocks import BLOCK_VALUES
from bitstep.golden import float32
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.levels import decode, unpack_codes
from bitstep.pipeline.parts.widths import BUS_WIDTHS
from bitstep.pipeline.registers import LabelFormat, Loss
from bitstep.quantization import (
    ENCODINGS,
    MAX_COPIES,
    Grid,
    QuantizedDataset,
    Scaler,
    encode,
    pack_codes,
    quantize,
    quantize_bit_planes,
    quantize_labels,
    quantize_rows,
    sign_labels,
)
from bitstep.quantization.labels import near_range

CHOICES = [(name, bits) for name, encoding in ENCODINGS.items()
           for bits in range(encoding.min_bits, 9)]


def sample(n_rows=50, n_features=7, seed=0):
    rng = np.random.default_rng(seed)
    features = rng.normal(3, 2, (n_rows, n_features))
    return features, features @ rng.normal(size=n_features)


def stored_labels(data):
    return data.stored_labels()


def test_by_hand():
    features = np.array([[0, 10], [4, 30], [3, 20]])
    data = quantize(features, np.array([1, 2, 5]), bits=4, encoding="nearest")
    # u = -1, 1, 0.5 and -1, 1, 0; seven levels to 1, and 3.5 goes up to 4.
    assert data.rows.stored[0].tolist() == [[0x99, *[0] * 7], [0x77, *[0] * 7], [0x04, *[0] * 7]]
    assert data.scaler.centre.tolist() == [2, 20]
    assert data.scaler.scale.tolist() == [2, 10]
    assert (data.label_offset, data.label_scale) == (3, 2 / 32767)
    assert stored_labels(data).tolist() == [-32767, -16384, 32767]      # -16383.5 goes to even
    assert (data.row_format, data.level_limit) == ("one_level", 7)
    assert (data.n_rows, data.n_features) == (3, 2)
    assert (data.rows.copies, data.task, data.classes, data.rows.seed) == (1, "regression", None, 0)
    assert data.variance.tolist() == [0, 0]


@pytest.mark.covering(1)
@pytest.mark.parametrize(("encoding", "bits"), CHOICES)
@pytest.mark.parametrize("bus_width", BUS_WIDTHS)
def test_decoded_levels_are_next_to_the_features(encoding, bits, bus_width):
    features, labels = sample(n_features=bus_width // bits + 1)
    data = quantize(features, labels, bits=bits, encoding=encoding, bus_width=bus_width)
    config = PipelineConfig(bus_width=bus_width, bits=bits, row_format=data.row_format)
    codes = unpack_codes(data.rows.stored[0], config.rows, data.n_features)
    np.testing.assert_array_equal(codes, data.rows.codes())
    np.testing.assert_array_equal(codes[3:9], data.rows.codes(start=3, stop=9))
    scaled = data.scaler.transform(features)
    interval = 2 / Grid(encoding, bits).intervals
    reach = interval / 2 if encoding == "nearest" else interval
    for level in decode(codes, bits=bits, row_format=data.row_format):
        assert (np.abs(level / data.level_limit - scaled) <= reach + 1e-6).all()
    assert np.abs(scaled).max(axis=0) == pytest.approx(1)


@pytest.mark.parametrize(("encoding", "bits"), CHOICES)
def test_variance_is_the_mean_over_rows(encoding, bits):
    features, labels = sample(3001, 11)     # several rows are joined, and blocks are not full
    data = quantize(features, labels, bits=bits, encoding=encoding)
    scaled, grid = data.scaler.transform(features), Grid(encoding, bits)
    step = 2 / grid.intervals
    place = (scaled + 1) / step
    above = place - np.floor(place)
    factor = {"nearest": 0, "double-symmetric": 0.5}.get(encoding, 1)
    expected = (above * (1 - above)).mean(axis=0) * step ** 2 * factor
    np.testing.assert_allclose(data.variance, expected, rtol=1e-6, atol=1e-15)
    # And it is what the levels really do, by the mean over all values.
    dot, _ = decode(data.rows.codes(), bits=bits, row_format=data.row_format)
    if factor:
        errors = ((dot / data.level_limit - scaled) ** 2).mean()
        assert errors == pytest.approx(data.variance.mean(), rel=0.06)


@pytest.mark.parametrize("n_features", [1, 5, 600, BLOCK_VALUES + 3])
def test_blocks_have_streams_of_their_own(n_features):
    size = max(1, BLOCK_VALUES // n_features)
    features, labels = sample(min(2 * size + 3, 70_000), n_features)
    data = quantize(features, labels, bits=3, encoding="double", copies=2, seed=9)
    scaled = data.scaler.transform(features)
    for copy, rows in enumerate(data.rows.stored):
        for block, start in enumerate(range(0, len(features), size)):
            sequence = np.random.SeedSequence(9, spawn_key=(copy, block))
            codes = encode(scaled[start:start + size], bits=3, encoding="double",
                           rng=np.random.Generator(np.random.PCG64(sequence)))
            np.testing.assert_array_equal(rows[start:start + size], pack_codes(codes, 3, 64))


def test_bytes_pinned():
    """The same on every machine and with every NumPy; integers, so that features are exact."""
    at = np.arange(3000 * 13, dtype=np.int64)
    features = (at * 2654435761 % 1009).reshape(3000, 13)
    data = quantize(features, features[:, 0], bits=3, encoding="compensated", copies=2, seed=5)
    digest = hashlib.sha256(b"".join(rows.tobytes() for rows in data.rows.stored))
    digest.update(data.labels.stored.tobytes())
    assert digest.hexdigest() == "a97a9e340966c6e0e5ea24090b95ae58aabe0650c80a74de00dc5fda23b72bd8"


@pytest.mark.parametrize("change", [
    np.asfortranarray, lambda a: np.repeat(a, 2, axis=1)[:, ::2], lambda a: a.astype(np.float32),
    lambda a: a.astype(np.int16), lambda a: a.astype(">f8")])
def test_layout_of_the_features_does_not_matter(change):
    features = np.random.default_rng(0).integers(-1000, 1000, (5000, 9)).astype(float)
    expected, data = (quantize(x, np.arange(5000), bits=2) for x in (features, change(features)))
    np.testing.assert_array_equal(data.rows.stored[0], expected.rows.stored[0])
    np.testing.assert_array_equal(data.variance, expected.variance)


@pytest.mark.parametrize("encoding", [name for name, kind in ENCODINGS.items() if kind.draws])
def test_seeds_and_copies(encoding):
    features, labels = sample()
    one, same, other = (quantize(features, labels, bits=3, encoding=encoding, copies=3, seed=seed)
                        for seed in (1, 1, 2))
    assert len({rows.tobytes() for data in (one, other) for rows in data.rows.stored}) == 6
    for rows, again in zip(one.rows.stored, same.rows.stored, strict=True):
        np.testing.assert_array_equal(rows, again)
    # A data set with fewer copies has the first ones.
    alone = quantize(features, labels, bits=3, encoding=encoding, seed=1)
    np.testing.assert_array_equal(alone.rows.stored[0], one.rows.stored[0])


def test_copies_of_nearest_share_memory():
    data = quantize(*sample(), bits=3, encoding="nearest", copies=MAX_COPIES)
    assert data.rows.copies == MAX_COPIES
    assert all(rows is data.rows.stored[0] for rows in data.rows.stored)


def test_input_is_kept():
    features, labels = sample()
    before = features.copy(), labels.copy()
    quantize(features, labels, bits=4)
    np.testing.assert_array_equal(features, before[0])
    np.testing.assert_array_equal(labels, before[1])


def test_constant_column():
    features, labels = sample()
    features[:, 2] = 7.5
    data = quantize(features, labels, bits=4)
    assert (data.rows.codes()[:, 2] == 0).all()
    assert data.variance[2] == 0
    assert data.scaler.scale[2] == 1


def test_progress():
    done = []
    quantize(*sample(100_000, 1), bits=1, progress=done.append)
    assert done == [32768, 65536, 98304, 100_000]


# Floating-point rows and fine rows

@pytest.mark.parametrize("bus_width", BUS_WIDTHS)
def test_float_rows(bus_width):
    features, labels = sample(5000, 7)
    data = quantize(features, labels, bits=32, encoding="float", bus_width=bus_width, copies=3)
    scaled = data.scaler.transform(features)
    assert data.rows.codes().dtype == np.float32
    np.testing.assert_array_equal(data.rows.codes(2, 3, 90), scaled[3:90].astype(np.float32))
    mantissas, exponents = float32.decode(data.rows.stored[0], make_view(data))
    np.testing.assert_allclose(mantissas * 2.0 ** (exponents - 150), scaled, atol=2.0 ** -25)
    assert (data.row_format, data.level_limit, data.rows.copies) == ("float32", 1 << 22, 3)
    assert all(rows is data.rows.stored[0] for rows in data.rows.stored)
    assert not data.variance.any()
    assert data.label_format == LabelFormat.INT32
    assert quantize(features, labels, bits=32, encoding="float",
                    label_bits=16).label_format == LabelFormat.INT16
    assert (data.fine_rows, data.rows.cell_half_levels) == (None, 0)


def make_view(data):
    """All that the golden decoder asks of a job."""
    return types.SimpleNamespace(n_features=data.n_features)


@pytest.mark.parametrize(("encoding", "bits", "cell"), [
    ("nearest", 1, 2), ("nearest", 2, 1), ("nearest", 8, 1), ("stochastic", 1, 4),
    ("stochastic", 2, 2), ("stochastic", 5, 2)])
def test_fine_rows(encoding, bits, cell):
    features, labels = sample(5000, 7)      # two blocks
    options = {"bits": bits, "encoding": encoding, "copies": 2}
    data = quantize(features, labels, fine_rows=True, **options)
    without = quantize(features, labels, **options)
    assert all((a == b).all() for a, b in zip(data.rows.stored, without.rows.stored, strict=True))
    assert data.fine_rows is not None
    assert (data.fine_rows.dtype, data.fine_rows.shape) == (np.dtype(np.int16), features.shape)
    assert data.rows.cell_half_levels == cell
    assert (without.fine_rows, without.rows.cell_half_levels) == (None, 0)
    fraction = data.rows.config.rows.fine_fraction
    np.testing.assert_allclose(data.fine_rows / (data.level_limit << fraction),
                               data.scaler.transform(features), atol=2.0 ** -14)
    for copy in range(2):
        levels, _ = decode(data.rows.codes(copy), bits=bits, row_format="one_level")
        apart = np.abs(2 * (data.fine_rows.astype(int) - (levels << fraction)))
        assert apart.max() <= cell << fraction


@pytest.mark.parametrize("encoding", ["compensated", "double-symmetric", "double", "float"])
def test_fine_rows_are_for_two_encodings(encoding):
    features, labels = sample()
    bits = 32 if encoding == "float" else 4
    with pytest.raises(ValueError,
                       match=f"fine_rows must be False for encoding {encoding!r}, not True"):
        quantize(features, labels, bits=bits, encoding=encoding, fine_rows=True)
    data = quantize(features, labels, bits=bits, encoding=encoding)
    with pytest.raises(ValueError, match=f"kept for the .*'stochastic', not for {encoding!r}"):
        dataclasses.replace(data.rows, fine_rows=np.zeros((50, 7), np.int16))


@pytest.mark.parametrize("fine_rows", [np.zeros((50, 7), np.int32), np.zeros((50, 6), np.int16)])
def test_fine_rows_of_another_shape(fine_rows):
    data = quantize(*sample(), bits=4, encoding="nearest")
    with pytest.raises(ValueError, match=r"fine_rows must be int16 of shape \(50, 7\), not int"):
        dataclasses.replace(data.rows, fine_rows=fine_rows)


# Labels

@pytest.mark.parametrize("label_bits", [16, 32])
@pytest.mark.parametrize("center", [True, False])
def test_regression_labels(label_bits, center):
    features, labels = sample()
    labels = labels + 1000
    data = quantize(features, labels, bits=2, label_bits=label_bits, center_labels=center)
    assert data.label_format == {16: LabelFormat.INT16, 32: LabelFormat.INT32}[label_bits]
    stored, limit = stored_labels(data), {16: (1 << 15) - 1, 32: (1 << 26) - 1}[label_bits]
    assert np.abs(stored).max() == limit
    assert data.label_offset == pytest.approx((labels.min() + labels.max()) / 2 if center else 0)
    restored = data.label_offset + data.label_scale * stored
    assert (np.abs(restored - labels) <= data.label_scale * 0.5001).all()


@pytest.mark.parametrize(("value", "center", "stored", "offset"), [
    (5.0, True, 0, 5), (0.0, False, 0, 0), (5.0, False, 32767, 0), (-5.0, False, -32767, 0)])
def test_constant_labels(value, center, stored, offset):
    data = quantize(sample()[0], np.full(50, value), bits=2, center_labels=center)
    assert (stored_labels(data) == stored).all()
    assert data.label_offset == offset
    assert data.label_offset + data.label_scale * stored == pytest.approx(value)


@pytest.mark.parametrize("kind", [float, np.int8, bool])
def test_two_classes(kind):
    values = np.array([0, 1, 1, 0, 1]).astype(kind)
    data = quantize(sample(5)[0], values, bits=2, task="classification")
    assert data.label_format == LabelFormat.SIGN
    assert data.classes is not None
    assert data.classes.tolist() == [0, 1]
    assert data.classes.dtype == np.float64
    assert stored_labels(data).tolist() == [-1, 1, 1, -1, 1]
    assert (data.label_scale, data.label_offset, data.task) == (1, 0, "classification")


def test_more_classes():
    values = np.array([7.5, -1, 3, 7.5, 3])
    data = quantize(sample(5)[0], values, bits=2, task="classification")
    assert data.label_format == LabelFormat.INT16
    assert data.classes is not None
    assert data.classes.tolist() == [-1, 3, 7.5]
    assert stored_labels(data).tolist() == [2, 0, 1, 2, 1]
    assert data.label_values().tolist() == values.tolist()
    assert data.task == "classification"
    two = quantize(sample(5)[0], values > 3, bits=2, task="classification")
    assert two.label_values().tolist() == [1, 0, 0, 1, 0]
    number = quantize(sample(5)[0], values, bits=2)
    np.testing.assert_allclose(number.label_values(), values, atol=1e-3)


def test_levels_of_two_samples_are_both_unbiased():
    """Each is an end of the interval around u, 5 of 6 times the lower one, by draws of its own."""
    scaler = Scaler("minmax", np.zeros(1), np.ones(1))
    rows = quantize_rows(np.full((4000, 1), 1 / 6), bits=3, encoding="double", scaler=scaler)
    one, other = rows.levels(slice(None))       # intervals end at -1, 0 and 1
    for found in (one, other):
        assert np.unique(found).tolist() == [0, 1]
        assert found.mean() == pytest.approx(1 / 6, abs=0.03)
    assert (one * other).mean() == pytest.approx(1 / 36, abs=0.02)


@pytest.mark.parametrize("variance", [np.array([1.0, -1e-9]), np.array([0, np.nan]),
                                      np.array([np.inf, 0]), np.zeros(3)])
def test_variance_that_is_none(variance):
    rows = quantize_rows(np.eye(2), bits=2)
    with pytest.raises(ValueError, match="variance must"):
        dataclasses.replace(rows, variance=variance)


@pytest.mark.parametrize("make", [
    quantize_bit_planes, lambda features, **options: quantize_rows(features, bits=3, **options),
    lambda features, **options: quantize_rows(features, bits=3, levels="optimal", **options)])
def test_rows_of_a_given_scaler(make):
    """Nothing is fitted, so rows are looked at while they are quantized."""
    scaler = Scaler("minmax", np.zeros(3), np.ones(3))
    for value in (np.nan, np.inf, -np.inf):
        features = np.zeros((30_000, 3), np.float32)
        features[29_000, 1] = value
        with pytest.raises(DataError, match=rf"finite, not {value} \(row 29000, column 1, counted"):
            make(features, scaler=scaler)
    with pytest.raises(ValueError, match="scaler must be for 2 features, as the rows have, not for "
                                         "3"):
        make(np.zeros((5, 2)), scaler=scaler)
    done: list[int] = []
    make(np.full((30_000, 3), 1e307), scaler=scaler, progress=done.append)
    assert done == sorted(set(done))
    assert done[-1] == 30_000


def test_spread_of_labels():
    """1.4826 times the median distance to the median; without one the standard deviation, or 1."""
    def spread(labels):
        labels = np.array(labels, np.float64)
        data = quantize(np.zeros((len(labels), 1)), labels, bits=2)
        return data.label_scale * data.label_spread

    # Median 2, distances 2, 1, 0, 1, 98: an outlier does not count.
    assert spread([0, 1, 2, 3, 100]) == pytest.approx(1.4826, rel=1e-2)
    assert spread([0, 0, 0, 0, 5]) == pytest.approx(2, rel=1e-4)
    alike = quantize(np.zeros((3, 1)), np.full(3, 7.0), bits=2)
    assert alike.label_spread == 1


def test_median_of_labels():
    for labels, median in (([0, 1, 2, 3, 100], 2), ([4, 1, 2, 3], 2.5), ([7, 7], 7)):
        data = quantize(np.zeros((len(labels), 1)), np.array(labels), bits=2)
        assert data.label_median == pytest.approx(median, abs=0.002)


@pytest.mark.parametrize("labels, alike", [
    ([0, 0, 0, 5], True), ([0, 1, 2, 3], False), ([0, 0, 1, 1, 1], True), ([7], True),
    ([*range(50), 1e7], True), ([*range(50), 100], False)])
def test_labels_that_are_alike_as_they_are_stored(labels, alike):
    data = quantize(np.zeros((len(labels), 1)), np.array(labels, np.float64), bits=2)
    assert data.labels_alike == alike


@pytest.mark.parametrize("labels, expected", [
    # Median 2, median distance 1: 500 * 1.4826 = 741.3 on either side.
    ([0, 1, 2, 3, 4], None), ([1, 2, 3, 743.3], None), ([0, 1, 2, 3, 744], (0, 743.3)),
    ([-740, 1, 2, 3, 744], (-739.3, 743.3)), ([-1e90, 1, 2, 3, 4], (-739.3, 4)),
    # Half are alike: the spread is the standard deviation, 4e5 of 1e6 here.
    ([7, 7, 7, 7, 1e6], None), ([7, 7, 7], None), ([5], None)])
def test_labels_far_from_the_others(labels, expected):
    assert near_range(np.array(labels), Loss.HUBER) == (expected and pytest.approx(expected))
    assert near_range(np.array(labels), Loss.LEAST_SQUARES) is None


@pytest.mark.parametrize("n_rows, stride", [(65_536, 1), (65_537, 2), (150_000, 3)])
def test_spread_is_that_of_rows_evenly_spaced(n_rows, stride):
    labels = np.random.default_rng(0).normal(0, 1000, n_rows)
    labels[::stride] = np.arange(len(labels[::stride])) % 7 - 3     # 2 of 7 at each distance
    data = quantize(np.zeros((n_rows, 1)), labels, bits=2, label_bits=32)
    assert data.label_scale * data.label_spread == pytest.approx(2 * 1.4826, rel=1e-3)


def test_no_rows_have_no_labels():
    data = quantize(*sample(5), bits=2)
    assert data.label_values(0, 0).shape == data.label_values(5).shape == (0,)
    np.testing.assert_array_equal(data.label_values(1, 3), data.label_values()[1:3])


def test_streams_of_labels_share_rows():
    features, labels = sample(6)
    rows = quantize_rows(features, bits=3, copies=2)
    kinds = np.array([3, 4, 5, 3, 4, 5])
    for kind in (3, 4, 5):
        data = QuantizedDataset(rows, quantize_labels(kinds == kind, 6, task="classification"))
        assert stored_labels(data).tolist() == [1 if k == kind else -1 for k in kinds]
        signs = sign_labels(np.where(kinds == kind, 1, -1))
        np.testing.assert_array_equal(signs.stored, data.labels.stored)
    whole = quantize(features, labels, bits=3, copies=2)
    for mine, theirs in zip(rows.stored, whole.rows.stored, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    np.testing.assert_array_equal(quantize_labels(labels, 6).stored, whole.labels.stored)
    assert sign_labels(np.ones(6)).integers(6).tolist() == [1] * 6      # a class may be missing
    with pytest.raises(DataError, match=r"labels must have shape \(6,\), one a row"):
        quantize_labels(labels[:5], 6)
    with pytest.raises(ValueError, match=r"labels must be uint8 of shape \(16,\), not uint8"):
        QuantizedDataset(rows, quantize_labels(np.arange(20), 20))


# What is refused

def bad(array, row, value, column=None):
    array = array.copy()
    array[row if column is None else (row, column)] = value
    return array


X, Y = sample(20, 3)


@pytest.mark.parametrize(("features", "labels", "options", "message"), [
    (bad(X, 4, np.nan, 2), Y, {}, "features must be finite, not nan (row 4, column 2, counted"),
    (bad(X, 4, np.nan, 2), Y, {"bits": 32, "encoding": "float"},
     "features must be finite, not nan (row 4, column 2, counted"),
    (bad(X, 4, np.inf, 2), Y, {"bits": 32, "encoding": "float"},
     "features must be finite, not inf (row 4, column 2, counted"),
    (bad(X, 0, -np.inf, 0), Y, {}, "features must be finite, not -inf (row 0, column 0"),
    (X[:0], Y[:0], {}, "at least one row and 1 to 1048576 columns, not shape (0, 3)"),
    (X[:, :0], Y, {}, "at least one row and 1 to 1048576 columns, not shape (20, 0)"),
    (X[0], Y, {}, "features must be numbers of shape (n_rows, n_features), not float64 of shape"),
    (X.astype(str), Y, {}, "features must be numbers of shape"),
    (X.astype(complex), Y, {}, "features must be numbers of shape"),
    (X, Y[:5], {}, "labels must have shape (20,), one a row of the features, not (5,)"),
    (X, Y[:, None], {}, "labels must have shape (20,), one a row of the features, not (20, 1)"),
    (X, Y.astype(str), {}, "labels must be numbers, not <U"),
    (X, bad(Y, 3, np.nan), {}, "labels must be finite, not nan (row 3, counted from 0)"),
    (X, bad(Y, 3, np.inf), {"task": "classification"}, "labels must be finite, not inf (row 3"),
    (X, Y * 0 + 5e-324 * (Y > 1), {}, "labels must have a range that fits 64-bit floating point"),
    (X, np.ones(20), {"task": "classification"}, "two classes, but every label is 1;"),
    (np.ones((300, 3)), np.arange(300), {"task": "classification"},
     "at most 256 classes, but the labels take 300 values; train a regression"),
])
def test_data_errors(features, labels, options, message):
    with pytest.raises(DataError) as error:
        quantize(features, labels, **{"bits": 4, **options})
    assert message in str(error.value)


@pytest.mark.parametrize(("options", "message"), [
    ({"bits": 0}, "bits must be an integer from 1 to 8 for encoding 'compensated', not 0"),
    ({"bits": 1, "encoding": "double"}, "from 2 to 8 for encoding 'double', not 1"),
    ({"encoding": "x"}, "encoding must be one of nearest, stochastic, compensated"),
    ({"bits": 32}, "bits must be an integer from 1 to 8 for encoding 'compensated', not 32; 32"),
    ({"encoding": "float"}, "bits must be 32 for encoding 'float', not 4"),
    ({"encoding": "double", "fine_rows": True},
     "fine_rows must be False for encoding 'double', not True"),
    ({"bus_width": 32}, "bus_width must be one of 64, 128, 256, 512, not 32"),
    ({"scaler": "x"}, "scaler must be one of quantile, minmax, maxabs, not 'x'"),
    ({"copies": 0}, "copies must be an integer from 1 to 255, not 0"),
    ({"copies": 256}, "copies must be an integer from 1 to 255, not 256"),
    ({"copies": 1.5}, "copies must be an integer from 1 to 255, not 1.5"),
    ({"seed": -1}, "seed must be an integer of at least 0, not -1"),
    ({"seed": None}, "seed must be an integer of at least 0, not None"),
    ({"task": "ranking"}, "task must be one of regression, classification, not 'ranking'"),
    ({"label_bits": 8}, "label_bits must be 16 or 32, not 8"),
])
def test_argument_errors(options, message):
    with pytest.raises(ValueError, match="must be") as error:
        quantize(X, Y, **{"bits": 4, **options})
    assert message in str(error.value)
    assert not isinstance(error.value, DataError)
