"""Samples: images resized, columns scaled, the same split at every call."""

import numpy as np
import pytest

from bitstep_lab.samples import load_samples, resized


@pytest.mark.parametrize("size, side", [(8, 28), (8, 8), (28, 8), (1, 5), (2, 3)])
def test_resizing(size, side):
    constant = resized(np.full((2, size * size), 0.25, np.float32), size, side)
    assert constant.shape == (2, side * side)
    np.testing.assert_allclose(constant, 0.25, rtol=1e-6)
    rows = resized(np.tile(np.arange(size, dtype=np.float32), (1, size)), size, side)
    places = np.clip((np.arange(side) + 0.5) * size / side - 0.5, 0, size - 1)
    np.testing.assert_allclose(rows.reshape(side, side), np.tile(places, (side, 1)), atol=1e-5)


def test_samples_are_scaled_and_split_alike():
    first, second = load_samples("digits", side=28), load_samples("digits", side=28)
    np.testing.assert_array_equal(first.features, second.features)
    assert first.features.shape == (1438, 784)
    assert first.test_features.shape == (359, 784)
    assert first.features.min() == 0
    assert first.features.max() == pytest.approx(1, abs=1e-6)
    assert (first.n_classes, first.side) == (10, 28)
    table = load_samples("diabetes")
    np.testing.assert_allclose(table.features.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(table.features.std(axis=0), 1, atol=1e-5)
    assert (table.n_classes, table.side) == (0, 0)
    assert float(table.labels.std()) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("unit", [1e-320, 1e-300, 1e-46, 1e-20, 1.0, 1e20, 1e39, 1e300, 1e307])
def test_units_of_columns_and_labels_do_not_count(tmp_path, unit):
    rng = np.random.Generator(np.random.PCG64(4))
    table = rng.integers(-15, 15, (60, 4)).astype(np.float64)
    np.savetxt(tmp_path / "table.csv", table, delimiter=",")
    np.savetxt(tmp_path / "far.csv", table * unit, delimiter=",")
    usual, far = (load_samples(str(tmp_path / name)) for name in ("table.csv", "far.csv"))
    for name in ("features", "test_features", "labels", "test_labels"):
        np.testing.assert_allclose(getattr(far, name), getattr(usual, name), atol=1e-3)
