"""Weights of rows as 16 bits hold them, and what of the rows counts by them."""

from dataclasses import replace

import numpy as np
import pytest

from bitstep.pipeline.memory import pack_weighted_labels
from bitstep.pipeline.registers import LabelFormat
from bitstep.quantization import (
    BitPlaneOptions,
    Scaler,
    load_quantized,
    quantize_bit_planes,
    quantize_labels,
    quantize_rows,
    quantizing,
    save_quantized,
)
from bitstep.quantization.bit_planes import BitPlaneEncoder
from bitstep.quantization.dataset import QuantizedDataset
from bitstep.quantization.weights import merged_sums, stored_weights, weight_sums

RNG = np.random.default_rng(5)


@pytest.mark.parametrize("weights, stored", [
    ([1, 2, 3], [16384, 32768, 49152]), ([0.5, 1.5], [16384, 49152]), ([7], [32768]),
    ([1, 65535], [1, 65535]), ([877 / 2, 123 / 2], [56128, 7872]),
    ([1, 65534], [1, 65534]), ([1e-9, 1], [1, 65535]), ([3, np.pi], [62581, 65535]),
    (range(1, 17), [2048 * number for number in range(1, 17)]),         # of 17 none is looked for
    ([*range(1, 17), 32], [*[round(65535 / 32 * number) for number in range(1, 17)], 65535]),
    ([1e-9, *range(1, 18)], [1, *[round(65535 / 17 * number) for number in range(1, 18)]])])
def test_by_hand(weights, stored):
    assert stored_weights(np.array(weights, float)).tolist() == stored


def test_error_of_any_weights():
    weights = RNG.uniform(1e-6, 3, 4000)
    found = stored_weights(weights)
    assert np.abs(found / found.max() - weights / weights.max()).max() <= 2.0 ** -16


@pytest.mark.parametrize("stored, bits", [(None, 0), ([16384, 49152], 2), ([32768], 1), ([3], 16),
                                          ([48, 16], 12)])
def test_bits_that_a_mantissa_must_not_have(stored, bits):
    sums = weight_sums(None if stored is None else np.array(stored, np.uint16), 1)
    assert sums.fraction_bits == bits


def test_means():
    sums = weight_sums(np.array([16384, 49152], np.uint16), 2)
    assert sums.mean == 0.5
    assert sums.largest_of_mean == 1.5
    assert sums.weighted
    assert weight_sums(np.array([1, 65535], np.uint16), 2).weighted
    none = weight_sums(None, 2)
    assert none.mean == none.largest_of_mean == 1.0
    assert not none.weighted


def test_sums_of_parts_are_those_of_all_rows():
    stored = RNG.integers(1, 1 << 16, 90).astype(np.uint16)
    parts = [weight_sums(part, len(part)) for part in np.split(stored, [20, 21])]
    assert merged_sums(parts) == weight_sums(stored, 90)
    parts = [weight_sums(np.array([one], np.uint16), 1) for one in (16, 32, 256)]
    assert merged_sums(parts) == (3, 304, 256, 304)


@pytest.mark.parametrize("quantize", [
    quantize_bit_planes,
    lambda features, **options: quantize_rows(features, bits=3, encoding="compensated", **options)])
def test_sums_over_rows_count_them_by_weight(quantize):
    """As sums over rows that are repeated, of which only the draws differ."""
    features = RNG.standard_normal((3000, 12))      # two blocks
    whole = RNG.integers(1, 5, 3000)
    weighted = quantize(features, weights=stored_weights(whole.astype(float)))
    repeated = quantize(np.repeat(features, whole, axis=0))
    plain = quantize(features)
    for name in ("moments", "excess", "shifts", "variance"):
        if hasattr(weighted, name) and getattr(weighted, name).any():
            np.testing.assert_allclose(getattr(weighted, name), getattr(repeated, name),
                                       rtol=1e-9, atol=1e-15)
            assert not np.allclose(getattr(weighted, name), getattr(plain, name), rtol=1e-6)
    for one, other in zip(weighted.stored, plain.stored, strict=True):
        np.testing.assert_array_equal(one, other)


def test_moments_of_a_file_that_has_none_count_by_weight():
    rows = quantize_bit_planes(RNG.random((5000, 9)) ** 2,      # two blocks
                               weights=RNG.integers(1, 1 << 16, 5000).astype(np.uint16))
    older = replace(rows, moments=None, shifts=None)
    np.testing.assert_array_equal(older.column_moments, rows.moments)
    for planes in (1, 6):
        np.testing.assert_allclose(older.code_moments(planes), rows.code_moments(planes),
                                   rtol=1e-12)


def test_sums_of_the_largest_weights_and_codes():
    """Of 2^18 rows of one column, whose squares times weights add up to 2^64."""
    scaler = Scaler("minmax", np.zeros(1), np.ones(1))
    rows = quantize_bit_planes(np.full((1 << 18, 1), -1, np.float32), scaler=scaler,
                               weights=np.full(1 << 18, 65535, np.uint16))
    assert rows.column_moments.tolist() == [[2.0 ** -16 - 1], [0]]


def test_blocks_with_weights_are_those_of_all_rows(monkeypatch):
    monkeypatch.setattr(quantizing, "_BLOCKS", 1)       # of a piece
    features = RNG.standard_normal((5000, 9))
    weights = RNG.integers(1, 1 << 16, 5000).astype(np.uint16)
    rows = quantize_bit_planes(features, weights=weights)
    encoder = BitPlaneEncoder(BitPlaneOptions(), rows.scaler, 5000, weights)
    blocks = [encoder.encode(encoder.positions(features[start:start + encoder.block_rows]))
              for start in range(0, 5000, encoder.block_rows)]
    assert len(blocks) > 1
    np.testing.assert_array_equal(np.concatenate([block["rows_0"] for block in blocks]),
                                  rows.stored[0])
    for name in ("moments", "excess", "shifts"):
        np.testing.assert_array_equal(getattr(encoder, name), getattr(rows, name))


def test_files_keep_weights(tmp_path):
    features, labels = RNG.standard_normal((50, 3)), RNG.standard_normal(50)
    weights = stored_weights(RNG.uniform(0.1, 1, 50))
    rows = quantize_rows(features, bits=4, weights=weights)
    save_quantized(QuantizedDataset(rows, quantize_labels(labels, 50)), tmp_path / "rows.npz")
    np.testing.assert_array_equal(load_quantized(tmp_path / "rows.npz").rows.weights, weights)


@pytest.mark.parametrize("weights", [np.ones(4, np.uint16), np.ones(5)])
def test_wrong_weights(weights):
    rows = quantize_rows(features := RNG.standard_normal((5, 2)), bits=4)
    for make in (lambda: quantize_rows(features, bits=4, weights=weights),
                 lambda: quantize_bit_planes(features, weights=weights),
                 lambda: replace(rows, weights=weights)):
        with pytest.raises(ValueError, match=r"weights must be uint16 of shape \(5,\)"):
            make()


def test_labels_with_weights_in_memory():
    """docs/memory-layout.md, by hand."""
    weights = np.array([0xABCD, 1, 0xFFFF], np.uint16)
    signs = pack_weighted_labels(np.array([[1], [-1], [1]]), weights, LabelFormat.SIGN)
    assert signs.view("<u4").tolist() == [0xABCD0001, 0x10000, 0xFFFF0001, 0]
    several = pack_weighted_labels(np.array([[1, -1, 1, -1]] * 3), weights, LabelFormat.SIGN)
    assert several.view("<u4").tolist() == [0xABCD0005, 0x10005, 0xFFFF0005, 0]
    words = pack_weighted_labels(np.array([[-2], [3], [4]]), weights, LabelFormat.INT16)
    assert words.view("<u4").tolist() == [0xABCDFFFE, 0x10003, 0xFFFF0004, 0]
    pairs = pack_weighted_labels(np.array([[-2, 5], [3, 6], [4, 7]]), weights, LabelFormat.INT16)
    assert pairs.view("<u8").tolist() == [0xABCD00000005FFFE, 0x1000000060003, 0xFFFF000000070004]
    long = pack_weighted_labels(np.array([[-2], [3], [4]]), weights, LabelFormat.INT32)
    assert long.view("<u8").tolist() == [0xABCD0000FFFFFFFE, 0x1000000000003, 0xFFFF000000000004]
