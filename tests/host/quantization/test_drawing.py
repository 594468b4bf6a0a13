"""Codes that are drawn, from the definition in docs/number-formats.md alone."""

import numpy as np
import pytest

from bitstep.quantization import quantize_rows

INTERVALS = {"stochastic": 14, "compensated": 14, "double-symmetric": 7, "double": 4}   # of 4 bits


def samples(values, intervals, seed, copy, number):
    """The samples of a copy's values, as numbers from -1 to 1."""
    size = 2**15 // values.shape[1]
    found = []
    for block, start in enumerate(range(0, len(values), size)):
        part = values[start:start + size]
        places = np.rint((part + 1) * intervals * 2.0**23).astype(np.int64)
        words = np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(copy, block)))
        drawn = []
        for _ in range(number):
            raw = words.random_raw(-(-places.size // 2))
            halves = np.stack([raw & 0xFFFF_FFFF, raw >> np.uint64(32)], 1).ravel()
            random = halves[:places.size].reshape(places.shape).astype(np.int64)
            drawn.append(((places + (random >> 8)) >> 24) * 2 / intervals - 1)
        found.append(drawn)
    return [np.concatenate(of_sample) for of_sample in zip(*found, strict=True)]


@pytest.mark.parametrize("encoding", INTERVALS)
def test_codes_by_the_definition(encoding):
    """Of an odd number of values a block, so that a word is left between samples."""
    values = np.random.default_rng(3).uniform(-1, 1, (12_001, 3))
    values[0], values[1] = -1, 1                # so a column's scale is 1
    stored = quantize_rows(values, bits=4, encoding=encoding, copies=2, seed=9, scaler="maxabs")
    for copy in range(2):
        number = 2 if encoding.startswith("double") else 1
        drawn = samples(values, INTERVALS[encoding], 9, copy, number)
        dot, gradient = stored.grid.values(stored.grid.unpack(
            stored.stored[copy], stored.config.rows, 3))
        if encoding == "double-symmetric":
            drawn = [(drawn[0] + drawn[1]) / 2] * 2
        np.testing.assert_allclose(dot / np.abs(dot).max(), drawn[0], atol=1e-12)
        np.testing.assert_allclose(gradient / np.abs(gradient).max(), drawn[-1], atol=1e-12)
