"""Compiled quantizing of bit-plane rows equals NumPy's."""

import itertools

import numpy as np
import pytest

from bitstep.pipeline.bit_planes import (
    BitPlaneLayout,
    from_bit_planes,
    to_bit_planes,
)
from bitstep.quantization import Scaler, bit_planes, quantize_bit_planes
from bitstep.quantization.bit_planes import BitPlaneEncoder, BitPlaneOptions

kernels = pytest.importorskip("bitstep.quantization.kernels")

# One value; a row less than a block, a block, and a row more; groups of 4 that are no bytes; rows
# around those whose sums have room in 32 bits; a column of a whole piece.
SHAPES = [(1, 1), (1023, 4), (1024, 4), (1025, 4), (129, 3), (640, 20), (200, 33), (31, 1000),
          (kernels.CHUNK - 1, 7), (kernels.CHUNK, 8), (kernels.CHUNK + 1, 9), (1 << 15, 1)]


def codes_of(kind, n_rows, n_features):
    if kind == "drawn":
        return np.random.default_rng(n_rows).integers(0, 1 << 16, (n_rows, n_features), np.uint16)
    return np.full((n_rows, n_features), {"least": 0, "largest": 65535, "middle": 32768}[kind],
                   np.uint16)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", ["least", "largest", "middle", "drawn"])
@pytest.mark.parametrize("weighted", [False, True])
def test_packs_as_numpy_does(kind, shape, weighted):
    codes = codes_of(kind, *shape)
    weights = codes_of(kind, shape[0], 1)[:, 0] if weighted else None
    blocks, sums = kernels.packed_planes(codes, BitPlaneLayout(shape[1]), weights)
    np.testing.assert_array_equal(blocks, to_bit_planes(codes))
    factors = np.ones((shape[0], 1), object) if weights is None \
        else weights[:, None].astype(object)
    for planes in (1, 2, *range(kernels.FEW - 1, kernels.FEW + 3), 15, 16):
        values = (codes >> np.uint16(16 - planes)).astype(object) - (1 << planes - 1)
        np.testing.assert_array_equal(
            sums[planes - 1], [(factors * values).sum(0), (factors * values * values).sum(0)])


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("weight", [None, 65535])
def test_largest_sums_of_a_piece(compiled, weight, monkeypatch):
    """All values at their least, in as many rows as a piece can have, and 3 pieces."""
    monkeypatch.setattr(bit_planes, "_compiled", lambda: compiled)
    n_rows = 3 << 17
    weights = None if weight is None else np.full(n_rows, weight, np.uint16)
    rows = quantize_bit_planes(np.full((n_rows, 1), -1.0), weights=weights,
                               scaler=Scaler("minmax", np.zeros(1), np.ones(1)))
    level = -65535
    np.testing.assert_array_equal(rows.moments, [[level / 65536], [0]])
    assert not rows.excess.any()


@pytest.mark.parametrize("shape", SHAPES)
def test_unpacks_as_numpy_does(shape):
    blocks = to_bit_planes(codes_of("drawn", *shape))
    parts = {(0, shape[0]), (shape[0] // 3, shape[0]), (shape[0] - 1, shape[0])}
    for planes, (first, end) in itertools.product(range(1, 17), parts):
        codes = np.empty((end - first, shape[1]), np.int16)
        kernels.unpacked_codes(blocks, planes, first, codes)
        np.testing.assert_array_equal(
            codes.astype(np.int64) + (1 << 15) >> 16 - planes,
            from_bit_planes(blocks, shape[1], planes, first, end), f"{planes} planes")


def test_scales_corners_by_hand():
    """u = -1, the value before 0, 0, 1, and beyond both ends; a quotient beyond float64."""
    values = np.array([[-3.0], [0.9999], [1.0], [5.0], [6.0], [-4.0], [1.7e308]])
    codes = kernels.scaled_rows(values, np.array([1.0]), np.array([4.0]))
    assert codes.ravel().tolist() == [0, 32767, 32768, 65535, 65535, 0, 65535]
    assert kernels.scaled_rows(values[-1:], np.zeros(1), np.array([1e-9])).item() == 65535


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int32])
@pytest.mark.parametrize("order", ["C", "F"])
def test_rows_are_those_of_numpy(kind, order, monkeypatch):
    features = np.asarray(1000 * np.random.default_rng(1).standard_normal((2600, 13)), kind,
                          order=order)
    ours = quantize_bit_planes(features, scaler="quantile")
    monkeypatch.setattr(bit_planes, "_compiled", lambda: False)
    theirs = quantize_bit_planes(features, scaler="quantile")
    np.testing.assert_array_equal(ours.stored[0], theirs.stored[0])
    np.testing.assert_array_equal(ours.excess, theirs.excess)
    assert ours.mean_square == theirs.mean_square


@pytest.mark.parametrize("threads", ["1", "2", "7"])
def test_threads_do_not_change_rows(threads, monkeypatch):
    features = np.random.default_rng(2).standard_normal((40_000, 5))
    one = quantize_bit_planes(features)
    monkeypatch.setattr("bitstep.machine.available_cores", lambda: int(threads))
    told: list[int] = []
    other = quantize_bit_planes(features, progress=told.append)
    np.testing.assert_array_equal(one.stored[0], other.stored[0])
    np.testing.assert_array_equal(one.excess, other.excess)
    assert told[-1] == 40_000
    assert told == sorted(told)


def test_values_beyond_a_given_scaler():
    scaler = Scaler("minmax", np.zeros(2), np.ones(2))
    encoder = BitPlaneEncoder(BitPlaneOptions(), scaler, 2)
    assert encoder.positions(np.array([[-2, 2], [0.5, -0.5]])).tolist() == [
        [0, 65535], [49152, 16384]]


def test_values_whose_sum_overflows_are_looked_at_once(monkeypatch):
    """A piece tells of itself: a search of all rows for each piece would take a square of time."""
    features = np.full((1000, 3), 3e38, np.float32)
    features[::2] = -3e38
    features[:, 2] = 3e38
    monkeypatch.setattr("bitstep.quantization.quantizing.check_finite", None)
    scaler = Scaler("minmax", np.zeros(3), np.full(3, 3e38))
    codes = quantize_bit_planes(features, scaler=scaler).codes()
    assert codes[:2].tolist() == [[0, 0, 65535], [65535, 65535, 65535]]
