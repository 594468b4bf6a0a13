"""Codecs do not depend on the width of C's long: see tests/host/test_integers.py."""

from functools import partial
from itertools import product

import numpy as np
import pytest
from tests.narrow import narrow_integers

from bitstep.levels import counting
from bitstep_gradients.codecs.levels import adaptive
from bitstep_gradients.registry import make_codec
from bitstep_gradients.wire import positions
from bitstep_gradients.wire.payloads import base, plain


@pytest.fixture
def narrow(monkeypatch):
    """Make the default integers of some modules 32 bits wide."""
    return partial(narrow_integers, monkeypatch)


@pytest.mark.parametrize("payload, n_symbols", [
    *product([plain.Fixed(), plain.Radix()], [3, 7, 257, 70_000, 2**31]), (plain.Radix(), 2**40)])
def test_wide_symbols(narrow, monkeypatch, payload, n_symbols):
    monkeypatch.setattr(plain.kernels, "find_kernels", lambda: None)    # as on a board
    symbols = (np.random.PCG64(1).random_raw(99) % np.uint64(n_symbols)).astype(np.int64)
    narrow(base, plain)
    decoded = payload.decode(payload.encode(symbols, n_symbols), 99, n_symbols)
    np.testing.assert_array_equal(decoded, symbols)


def test_counts_of_symbols(narrow, monkeypatch):
    monkeypatch.setattr(base.kernels, "find_kernels", lambda: None)
    narrow(base)
    counts = base.count_symbols(np.array([1, 1, 3], np.int64), 5)
    assert (counts.dtype, counts.tolist()) == (np.int64, [0, 2, 0, 1, 0])


@pytest.mark.parametrize("name", ["qcs", "nuqsgd"])
def test_expected_bits(narrow, name):
    codec, vector = make_codec(name), np.linspace(-1, 1, 99, dtype=np.float32)
    expected = codec.expected_bits(vector)
    narrow(counting)
    assert codec.expected_bits(vector) == expected


def test_far_positions(narrow):
    places, count = np.array([5, 2**30, 2**33 - 1]), 2**33
    coded = positions.encode_positions(places, count)
    narrow(base, positions)
    np.testing.assert_array_equal(positions.decode_positions(coded, 3, count), places)


def test_statistics_of_many_buckets(narrow):
    """The buckets that ranks tell of: 700 times 3,100,000 is beyond 2**31."""
    size = 3_100_000
    vector = np.arange(size, dtype=np.float32)
    codec = adaptive.Alq(bits=3, bucket_size=1, samples=350)
    expected = [(2 * number + 1) * size // 700 for number in range(350)]
    narrow(adaptive)
    assert codec.statistics(vector)[:, 2].tolist() == expected
