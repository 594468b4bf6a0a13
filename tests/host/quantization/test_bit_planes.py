"""Bit-plane rows: quantizing in memory and in pieces, files, and what their levels stand for."""

from dataclasses import replace

import numpy as np
import pytest

from bitstep.data import open_table
from bitstep.pipeline.bit_planes import PLANES
from bitstep.quantization import (
    BitPlaneOptions,
    BitPlaneRows,
    QuantizedDataset,
    Scaler,
    StorageError,
    load_quantized,
    quantize_bit_planes,
    quantize_labels,
    save_quantized,
)
from bitstep.quantization import bit_planes as module
from bitstep.quantization.streaming import choose_rows, write_quantized
from bitstep.training.schedules import centred_step


def make(n_rows=700, n_features=11, seed=0):
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((n_rows, n_features)) * np.arange(1, n_features + 1)
    features[:, 0] = 5.0                # constant: u = 0
    return features, rng.standard_normal(n_rows)


@pytest.mark.parametrize("planes", [1, 2, 5, 8, 16])
def test_levels_are_the_middles_of_the_cells(planes):
    features, _ = make()
    rows = quantize_bit_planes(features)
    u = (features - rows.scaler.centre) / rows.scaler.scale
    levels, same = rows.levels(slice(0, 700), planes)
    assert same is levels
    assert np.abs(levels - u).max() <= 2.0 ** -planes + 1e-12
    code = np.clip(np.floor((u + 1) * 2.0 ** (planes - 1)), 0, 2 ** planes - 1)
    np.testing.assert_allclose(levels, (code + 0.5) / 2.0 ** (planes - 1) - 1)
    picked = np.array([699, 0, 500, 128, 128])      # in any order, of each block
    np.testing.assert_array_equal(rows.levels(picked, planes)[0], levels[picked])
    np.testing.assert_array_equal(rows.levels(slice(3, 600, 7), planes)[0], levels[3:600:7])


def test_excess_and_shifts_are_the_changes_of_variance_and_mean():
    rows = quantize_bit_planes(make()[0])
    assert rows.shifts is not None
    exact = rows.values(slice(None))[0]
    for planes in (1, 3, 16):
        levels = rows.levels(slice(None), planes)[0]
        np.testing.assert_allclose(rows.excess[planes - 1], levels.var(axis=0) - exact.var(axis=0),
                                   atol=1e-12)
        np.testing.assert_allclose(rows.shifts[planes - 1], levels.mean(axis=0)
                                   - exact.mean(axis=0), atol=1e-12)
        np.testing.assert_allclose(rows.code_moments(planes), [
            levels.mean(axis=0), levels.var(axis=0)], atol=1e-12)
        older = replace(rows, shifts=None)      # as of a file without them
        np.testing.assert_allclose(older.code_moments(planes), rows.code_moments(planes),
                                   rtol=1e-12, atol=1e-15)
    assert (rows.excess[:, 0] == 0).all()       # a constant column has no variance to lose


def test_shifts_by_hand():
    """Of codes 0 and 2^16 - 1, which stand for -1 and 1 but for half a step, the codes of b bits
    are half a step of theirs from the ends: 3 of 4 rows at -1 give (1 - 2) (1/2^b - 1/2^16) / 2."""
    scaler = Scaler("minmax", np.zeros(1), np.ones(1))
    rows = quantize_bit_planes(np.array([[-1.0], [-1.0], [-1.0], [1.0]]), scaler=scaler)
    assert rows.shifts is not None
    planes = np.arange(1, 17)
    np.testing.assert_allclose(rows.shifts[:, 0], (0.5 ** planes - 0.5 ** 16) / 2, rtol=1e-12)


def test_file_holds_every_bit(tmp_path):
    features, labels = make()
    data = QuantizedDataset(quantize_bit_planes(features, seed=3),
                            quantize_labels(labels, len(labels)))
    save_quantized(data, tmp_path / "rows.npz")
    found = load_quantized(tmp_path / "rows.npz")
    assert isinstance(found.rows, BitPlaneRows)
    np.testing.assert_array_equal(found.rows.stored[0], data.rows.stored[0])
    assert isinstance(data.rows, BitPlaneRows)
    np.testing.assert_array_equal(found.rows.excess, data.rows.excess)
    np.testing.assert_array_equal(found.rows.shifts, data.rows.shifts)
    levels = data.rows.levels(slice(None))[0]
    assert found.rows.mean_square == pytest.approx((levels ** 2).sum(axis=1).mean(), rel=1e-12)
    assert found.rows.moments is not None
    np.testing.assert_allclose(found.rows.moments, [levels.mean(axis=0), levels.var(axis=0)],
                               rtol=1e-12, atol=1e-12)
    older = replace(data.rows, moments=None)        # as of a file without them
    np.testing.assert_array_equal(older.column_moments, found.rows.moments)
    assert centred_step(older) == centred_step(found.rows)
    assert not found.rows.stored[0].flags.writeable     # mapped
    assert (found.n_rows, found.rows.seed, found.encoding) == (700, 3, "bit_planes")
    np.testing.assert_array_equal(found.stored_labels(), data.stored_labels())


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("part", [1 << 27, 1 << 10])
def test_pieces_give_the_same_file(tmp_path, monkeypatch, shuffle, part):
    monkeypatch.setattr("bitstep.quantization.streaming.PART_BYTES", part)
    features, labels = make(3000, 30)
    np.savez(tmp_path / "data.npz", X=features, y=labels)
    table = open_table(str(tmp_path / "data.npz"))
    survey = table.survey()
    chosen = choose_rows("data", 3000, None, shuffle, 1)
    stream = quantize_labels(chosen.labels(survey), 3000)
    write_quantized(table, survey, chosen, stream, BitPlaneOptions(), tmp_path / "a.npz")
    order = np.arange(3000) if chosen.order is None else chosen.order
    save_quantized(QuantizedDataset(quantize_bit_planes(features[order]), stream),
                   tmp_path / "b.npz")
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


# Blocks have 384 rows of 12 bits, of which the last of a row has no feature.
@pytest.mark.parametrize("place, bit", [((0, 1, 1), 0x08), ((0, 9, 575), 0x80), ((1, 15, 575), 1)])
def test_padding_must_be_zero(monkeypatch, place, bit):
    monkeypatch.setattr(module, "_CHECKED_BYTES", 8192)
    features, _ = make(700, 11)
    rows = quantize_bit_planes(features)
    stored = rows.stored[0].copy()
    stored.reshape(len(stored), PLANES, -1)[place] |= bit
    rows.check_padding()
    wrong = BitPlaneRows(n_rows=700, n_features=11, bus_width=64, stored=(stored,),
                      scaler=rows.scaler, excess=rows.excess, seed=0)
    with pytest.raises(ValueError, match="padding in rows_0 is not 0"):
        wrong.check_padding()


def test_damaged_padding_of_a_file(tmp_path):
    features, labels = make()
    rows = quantize_bit_planes(features)
    stored = rows.stored[0].copy()
    stored[-1, -1] = 0x80
    wrong = BitPlaneRows(n_rows=700, n_features=11, bus_width=64, stored=(stored,),
                      scaler=rows.scaler, excess=rows.excess, seed=0)
    save_quantized(QuantizedDataset(wrong, quantize_labels(labels, 700)), tmp_path / "rows.npz")
    with pytest.raises(StorageError, match="padding in rows_0 is not 0"):
        load_quantized(tmp_path / "rows.npz")


@pytest.mark.parametrize("change, message", [
    ({"n_rows": 7000}, "stored must be one array of"),
    ({"n_rows": 700.0}, "stored must be one array of"),
    ({"excess": np.zeros((4, 11))}, "scaler and excess must be of shape"),
    ({"excess": np.full((16, 11), np.nan)}, "and finite"),
    ({"moments": np.full((2, 11), np.nan)}, "moments must be means from -1 to 1 and variances"),
    ({"moments": np.zeros((2, 10))}, "moments must be means"),
    ({"moments": np.full((2, 11), -0.5)}, "moments must be means"),
    ({"shifts": np.zeros((2, 11))}, "shifts must be numbers from -1 to 1 of shape"),
    ({"shifts": np.full((16, 11), np.nan)}, "shifts must be numbers"),
    ({"shifts": np.full((16, 11), -1.5)}, "shifts must be numbers"),
])
def test_parts_must_fit(change, message):
    rows = quantize_bit_planes(make()[0])
    parts = {"n_rows": 700, "n_features": 11, "bus_width": 64, "stored": rows.stored,
             "scaler": rows.scaler, "excess": rows.excess, "seed": 0}
    with pytest.raises(ValueError, match=message):
        BitPlaneRows(**parts | change)


@pytest.mark.parametrize("wrong", [{"bus_width": 96}, {"scaler": "std"}, {"seed": -1}])
def test_choices_out_of_range(wrong):
    with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be"):
        BitPlaneOptions(**wrong)


def test_units_of_a_penalty_of_standardized_columns():
    """Levels of 16 bits are the middles of cells: -1 + 2^-16, 1 - 2^-16, and 2^-16 for 0."""
    scaler, half = Scaler("minmax", np.zeros(3), np.ones(3)), 2.0 ** -16
    rows = quantize_bit_planes(np.array([[-1, 0, 1.0], [1, 0, 1], [1, 0, 1], [1, 0, 1]]),
                               scaler=scaler)
    mean = (1 - half) / 2
    variance = (1 - half) ** 2 - mean ** 2
    np.testing.assert_allclose(rows.penalty_units(), [variance, 1, 1], rtol=1e-12)
    # Without an intercept a column of a single value has no other unit, either.
    np.testing.assert_allclose(rows.penalty_units(fit_intercept=False), [(1 - half) ** 2, 1, 1],
                               rtol=1e-12)


def test_too_many_features():
    with pytest.raises(ValueError, match="max_features of row format 'bit_planes' must be"):
        quantize_bit_planes(np.zeros((1, 65537)))
