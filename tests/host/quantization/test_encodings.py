"""Encodings: codes by hand, the golden decoder, and the statistics of what is drawn."""

import copy
import pickle

import numpy as np
import pytest

from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.levels import decode
from bitstep.pipeline.parts.formats import level_limit
from bitstep.quantization import ENCODINGS, Grid, encode

CHOICES = [(name, bits) for name, encoding in ENCODINGS.items()
           for bits in range(encoding.min_bits, 9)]
DRAWN = [choice for choice in CHOICES if choice[0] != "nearest"]
assert {name for name, _ in CHOICES} == {*ENCODINGS} - {"float"}     # which has no levels


def generator(seed=0):
    return np.random.Generator(np.random.PCG64(seed))


def levels(u, encoding, bits, seed=0):
    """Decoded dot and gradient levels, and the level that stands for 1."""
    row_format = ENCODINGS[encoding].row_format
    codes = encode(np.asarray(u), bits=bits, encoding=encoding, rng=generator(seed))
    assert codes.dtype == np.uint8
    assert codes.max(initial=0) < 1 << bits
    return *decode(codes, bits=bits, row_format=row_format), level_limit(bits, row_format)


@pytest.mark.parametrize(("bits", "u", "codes"), [
    (1, [-1, -.01, 0, .01, 1], [0, 0, 1, 1, 1]),                            # a tie goes up
    (2, [-1, -.6, -.5, -.4, 0, .4, .5, 1], [3, 3, 0, 0, 0, 0, 1, 1]),       # levels -1, 0, 1
    (3, [-1, -2 / 3, -.5, 0, 1 / 3, .5, 1], [5, 6, 7, 0, 1, 2, 3]),         # levels in thirds
    (4, [-1, -1 / 7, 0, .2, .22, 1], [9, 15, 0, 1, 2, 7]),
    (8, [-1, -1 / 127, 0, 1 / 127, .5, 1], [129, 255, 0, 1, 64, 127]),
])
def test_nearest_by_hand(bits, u, codes):
    assert encode(np.array(u), bits=bits, encoding="nearest").tolist() == codes


@pytest.mark.parametrize("encoding", ["stochastic", "compensated"])
@pytest.mark.parametrize(("bits", "u", "codes"), [
    (1, [-1, 1], [0, 1]),
    (2, [-1, 0, 1], [3, 0, 1]),
    (3, [-1, -2 / 3, -1 / 3, 0, 1 / 3, 2 / 3, 1], [5, 6, 7, 0, 1, 2, 3]),
    (8, [-1, 0, 5 / 127, 1], [129, 0, 5, 127]),
])
def test_on_levels_nothing_is_drawn(encoding, bits, u, codes):
    for seed in range(20):
        assert encode(np.array(u), bits=bits, encoding=encoding,
                      rng=generator(seed)).tolist() == codes


@pytest.mark.parametrize(("bits", "u", "codes"), [
    (2, [-1, 1], [3, 1]),                           # one interval: its ends are levels -1 and 1
    (3, [-1, -1 / 3, 1 / 3, 1], [5, 7, 1, 3]),      # three intervals, levels -3, -1, 1, 3
    (8, [-1, 1], [129, 127]),
])
def test_double_symmetric_on_levels(bits, u, codes):
    for seed in range(20):
        assert encode(np.array(u), bits=bits, encoding="double-symmetric",
                      rng=generator(seed)).tolist() == codes


@pytest.mark.parametrize(("bits", "u", "codes"), [
    (2, [-1, 1], [0b00, 0b11]),
    (3, [-1, 0, 1], [0b100, 0b000, 0b011]),         # intervals -1 and 0
    (4, [-1, -.5, 0, .5, 1], [0b1000, 0b1100, 0b0000, 0b0100, 0b0111]),
    (8, [-1, 0, 31 / 32, 1], [0b10000000, 0, 0b01111100, 0b01111111]),
])
def test_double_on_levels(bits, u, codes):
    for seed in range(20):
        assert encode(np.array(u), bits=bits, encoding="double",
                      rng=generator(seed)).tolist() == codes


def test_double_between_levels():
    codes = encode(np.full(400, 0.25), bits=3, encoding="double", rng=generator())
    assert set(codes.tolist()) == {0b000, 0b001, 0b010, 0b011}
    codes = encode(np.full(400, -0.25), bits=3, encoding="double", rng=generator())
    assert set(codes.tolist()) == {0b100, 0b101, 0b110, 0b111}


@pytest.mark.parametrize(("encoding", "bits"), CHOICES)
def test_ends_and_beyond(encoding, bits):
    ends = np.array([-1, 1, -1 - 1e-12, 1 + 1e-12, -3, 3])
    dot, gradient, limit = levels(ends, encoding, bits)
    assert dot.tolist() == [-limit, limit] * 3
    assert gradient.tolist() == dot.tolist()


@pytest.mark.parametrize(("encoding", "bits"), DRAWN)
def test_drawn_levels_are_unbiased_with_the_variance_stated(encoding, bits):
    grid, draws = Grid(encoding, bits), 20_000
    u = np.array([-0.999, -0.7, -0.123, 0, 1e-3, 0.31, 0.5, 0.98])
    dot, gradient, limit = levels(np.tile(u, (draws, 1)), encoding, bits, seed=bits)
    variance = grid.variance(grid.positions(u.copy()))
    for sample in (dot / limit, gradient / limit):
        # Five standard errors; the mean of 20,000 draws is nearly normal, or exact without any.
        error = np.abs(sample.mean(axis=0) - u)
        assert (error <= 5 * np.sqrt(variance / draws) + 2.0 ** -24).all()
        # (high - u)(u - low) by the sample: the fourth moment is at most that of a coin toss.
        step = 2 / grid.intervals
        tolerance = 5 * np.sqrt(variance / draws) * step + 1e-9
        assert (np.abs(((sample - u) ** 2).mean(axis=0) - variance) <= tolerance).all()


@pytest.mark.parametrize(("encoding", "bits", "u", "variance"), [
    ("nearest", 4, .3, 0), ("stochastic", 1, 0, 1), ("compensated", 1, .5, .75),
    ("compensated", 2, .25, .1875), ("compensated", 3, .5, 1 / 36), ("compensated", 3, 1, 0),
    ("double-symmetric", 2, 0, .5), ("double-symmetric", 3, 0, 1 / 18),
    ("double", 2, 0, 1), ("double", 3, .5, .25), ("double", 4, .25, 1 / 16), ("double", 8, 1, 0)])
def test_variance_by_hand(encoding, bits, u, variance):
    grid = Grid(encoding, bits)
    assert grid.variance(grid.positions(np.array([float(u)])))[0] == pytest.approx(variance,
                                                                                 abs=1e-7)


@pytest.mark.parametrize("bits", range(2, 9))
def test_the_two_samples_are_independent(bits):
    u = np.full(20_000, 0.5 / max(1, 1 << bits >> 3))       # the middle of an interval
    dot, gradient, _ = levels(u, "double", bits)
    step = 1 if bits > 2 else 2
    covariance = ((dot - dot.mean()) * (gradient - gradient.mean())).mean()
    assert abs(covariance) < 5 * step ** 2 / 4 / np.sqrt(len(u))


@pytest.mark.parametrize("bits", range(2, 9))
def test_double_symmetric_is_a_mean_of_two(bits):
    grid = Grid("double-symmetric", bits)
    assert grid.intervals == level_limit(bits, "one_level")
    middle = np.full(20_000, 1 / grid.intervals)
    shifted = (1 - middle[0]) % (2 / grid.intervals)        # into the middle of an interval
    dot, *_ = levels(middle + shifted - 1 / grid.intervals, "double-symmetric", bits)
    values, counts = np.unique(dot, return_counts=True)
    assert np.ptp(values) == 2
    np.testing.assert_allclose(counts / len(middle), [.25, .5, .25], atol=0.02)


def test_rounding_is_unbiased_to_float_precision():
    """The fraction that decides is u's place in 24 bits: exact, not a sample."""
    for encoding, bits in DRAWN:
        grid = Grid(encoding, bits)
        u = np.random.default_rng(bits).uniform(-1, 1, 1000)
        place = (u + 1) / 2 * grid.intervals
        positions = grid.positions(u.copy())
        np.testing.assert_allclose(positions / 2.0 ** 24, place, atol=2.0 ** -25 + 1e-12)


@pytest.mark.parametrize(("encoding", "bits"), DRAWN)
def test_seeds(encoding, bits):
    u = np.random.default_rng(0).uniform(-1, 1, (30, 7))
    first, same, other = (encode(u, bits=bits, encoding=encoding, rng=generator(seed))
                          for seed in (1, 1, 2))
    assert first.shape == u.shape
    np.testing.assert_array_equal(first, same)
    assert not np.array_equal(first, other)


PINNED = {
    "nearest": [5, 6, 6, 7, 7, 0, 0, 1, 1, 2, 2, 3],
    "stochastic": [5, 6, 6, 7, 7, 0, 1, 1, 1, 2, 2, 3],
    "compensated": [5, 6, 6, 7, 7, 0, 1, 1, 1, 2, 2, 3],
    "double-symmetric": [5, 5, 7, 7, 7, 1, 0, 1, 1, 1, 3, 3],
    "double": [4, 4, 5, 7, 5, 7, 0, 0, 2, 0, 3, 3],
}


def test_codes_pinned():
    """The same on every machine and with every NumPy: raw words of PCG64, and integers."""
    u = np.linspace(-1, 1, 12)
    codes = {name: encode(u, bits=3, encoding=name, rng=generator(7)).tolist()
             for name in PINNED}
    assert codes == PINNED
    assert codes["stochastic"] == codes["compensated"]


def test_input_is_kept_and_may_be_empty():
    u = np.array([0.3, -0.2])
    encode(u, bits=4, encoding="compensated", rng=generator())
    assert u.tolist() == [0.3, -0.2]
    assert encode(np.zeros((0, 3)), bits=4, encoding="double", rng=generator()).shape == (0, 3)


@pytest.mark.parametrize(("options", "message"), [
    ({"encoding": "triple", "bits": 4}, "encoding must be one of nearest, .*float, not 'triple'"),
    ({"encoding": "nearest", "bits": 0}, "bits must be an integer from 1 to 8 .*, not 0"),
    ({"encoding": "nearest", "bits": 9}, "bits must be an integer from 1 to 8 .*, not 9"),
    ({"encoding": "nearest", "bits": 2.0}, r"bits must be an integer .*, not 2\.0"),
    ({"encoding": "nearest", "bits": True}, "bits must be an integer .*, not True"),
    ({"encoding": "double", "bits": 1}, "from 2 to 8 for encoding 'double', not 1"),
    ({"encoding": "double-symmetric", "bits": 1}, "for encoding 'double-symmetric', not 1"),
    ({"encoding": "compensated", "bits": 4}, "rng must be a numpy.random.Generator .* not None"),
])
def test_refused(options, message):
    with pytest.raises(ValueError, match=message):
        encode(np.zeros(3), **options)


def test_words_of_32_bits_are_refused():
    rng = np.random.Generator(np.random.MT19937(0))
    with pytest.raises(ValueError, match="rng must draw words of 64 bits, which MT19937 does not"):
        encode(np.zeros(3), bits=2, encoding="stochastic", rng=rng)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_not_finite(value):
    with pytest.raises(ValueError, match="u must be finite"):
        encode(np.array([0, value]), bits=4, encoding="nearest")


# Fine rows

@pytest.mark.parametrize("bits", range(1, 9))
@pytest.mark.parametrize("encoding", ["nearest", "stochastic"])
def test_fine_rows_lies_in_every_cell_of_its_position(encoding, bits):
    """Around every level and half-way point, for every code that could be drawn."""
    grid, fraction = Grid(encoding, bits), PipelineConfig(bits=bits).rows.fine_fraction
    near = [0, 1, 2, 127, 128, 129, 255, 256, 257, 511, 512, 513, 1 << 15, 1 << 22]
    offsets = np.array([-place for place in near] + near)
    ties = np.arange(2 * grid.intervals + 1)[:, None] << 23
    places = np.unique(np.clip(ties + offsets, 0, grid.intervals << 24))
    positions = places.astype(np.uint32)
    values = grid.fine_values(positions, fraction)
    assert values.dtype == np.int16
    values = values.astype(np.int64)
    limit = level_limit(bits, "one_level")
    width = 2 * limit // grid.intervals         # levels in an interval: 2 for a bit, else 1
    # In units of 2^-24 of a level, the value is within half of its last bit, ties up.
    exact = width * places - (limit << 24)
    error = (values << 24 - fraction) - exact
    assert (-(1 << 23 - fraction) < error).all()
    assert (error <= 1 << 23 - fraction).all()
    assert np.abs(values).max() == limit << fraction
    if encoding == "nearest":
        drawn = [decode(grid.codes(positions, None), bits=bits, row_format="one_level")[0]]
        cell = width
    else:
        low, high = places >> 24, -(-places >> 24)
        drawn = [width * end - limit for end in (low, high)]
        cell = 2 * width
    for levels in drawn:
        assert (np.abs(2 * (values - (levels << fraction))) <= cell << fraction).all()
    # The cell is no wider than it must be.
    assert max(np.abs(2 * (values - (levels << fraction))).max() for levels in drawn) \
        > (cell << fraction) - 4


def test_fine_rows_by_hand():
    # 4 bits: 7 levels to 1, 12 fraction bits; one bit: levels -1 and 1, 14 fraction bits.
    grid = Grid("nearest", 4)
    u = np.array([-1, 0, 1 / 7, 0.5, 1])
    assert grid.fine_values(grid.positions(u), 12).tolist() == \
        [-7 << 12, 0, 1 << 12, 7 << 11, 7 << 12]
    one = Grid("stochastic", 1)
    u = np.array([-1, -0.25, 0, 0.5, 1])
    assert one.fine_values(one.positions(u), 14).tolist() == [-16384, -4096, 0, 8192, 16384]


@pytest.mark.parametrize("encoding", ["compensated", "double-symmetric", "double", "float"])
def test_fine_rows_is_refused(encoding):
    grid = Grid(encoding, 32 if encoding == "float" else 4)
    with pytest.raises(ValueError, match=f"'nearest' and 'stochastic', not for {encoding!r}"):
        grid.fine_values(np.zeros(1, np.uint32), 12)


# Floating-point values

def test_float_values():
    u = np.array([-1, 0.1, 1 / 3, 2.0 ** -140, 1 + 1e-12, -7])
    codes = encode(u, bits=32, encoding="float")
    assert codes.dtype == np.float32
    assert codes.tolist() == [-1, np.float32(0.1), np.float32(1 / 3), 2.0 ** -140, 1, -1]
    grid = Grid("float", 32)
    assert grid.row_format == "float32"
    assert grid.variance(grid.positions(u)).tolist() == [0] * 6


@pytest.mark.parametrize(("encoding", "bits", "message"), [
    ("float", 8, "bits must be 32 for encoding 'float', not 8"),
    ("float", 32.0, r"bits must be 32 for encoding 'float', not 32\.0"),
    ("nearest", 32, "from 1 to 8 for encoding 'nearest', not 32; 32 bits have encoding 'float'"),
    ("double", 32, "from 2 to 8 for encoding 'double', not 32; 32 bits have encoding 'float'")])
def test_bits_of_float(encoding, bits, message):
    with pytest.raises(ValueError, match=message):
        Grid(encoding, bits)


@pytest.mark.parametrize("encoding", sorted(ENCODINGS))
def test_grids_by_the_names_of_their_parameters(encoding):
    """Whatever class an encoding has, through copies and pickles, too."""
    bits = 32 if encoding == "float" else 4
    grid = Grid(encoding=encoding, bits=bits)
    for same in (Grid(encoding, bits), pickle.loads(pickle.dumps(grid)), copy.deepcopy(grid)):
        assert (type(same), same) == (type(grid), grid)
