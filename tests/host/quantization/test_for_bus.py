"""Rows for a bus of another width."""

import numpy as np
import pytest

from bitstep.quantization import quantize_bit_planes, quantize_rows
from bitstep.quantization import rows as rows_module


@pytest.mark.parametrize("options", [
    {"bits": 4, "encoding": "compensated"}, {"bits": 3, "encoding": "double"},
    {"bits": 5, "encoding": "stochastic", "copies": 2}, {"bits": 32, "encoding": "float"},
    {"bits": 1, "encoding": "nearest", "fine_rows": True},
    {"bits": 4, "encoding": "stochastic", "levels": "optimal"}], ids=str)
@pytest.mark.parametrize("n_features", [1, 16, 17, 70])
def test_as_if_quantized_for_it(options, n_features, monkeypatch):
    monkeypatch.setattr(rows_module, "_ROWS_AT_ONCE", 4)        # more than one part
    features = np.random.default_rng(3).normal(size=(9, n_features))
    made = {width: quantize_rows(features, bus_width=width, seed=5, **options)
            for width in (64, 128, 256, 512)}
    for width, rows in made.items():
        for other, expected in made.items():
            found = rows.for_bus(other)
            assert found.bus_width == other
            assert (found is rows) == (other == width)
            for copy, wanted in zip(found.stored, expected.stored, strict=True):
                np.testing.assert_array_equal(copy, wanted)
            assert found.fine_rows is rows.fine_rows


def test_bit_planes_are_the_same_bytes():
    rows = quantize_bit_planes(np.random.default_rng(3).normal(size=(9, 5)), bus_width=64, seed=1)
    wider = rows.for_bus(256)
    assert wider.stored[0] is rows.stored[0]
    assert wider.bus_width == wider.config.bus_width == 256
