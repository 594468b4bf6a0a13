"""Buckets of a sketch: fixed point, random signs, Hadamard transform, the rows that are sent, and
the way back. All but the scale is integers.
"""

from typing import NamedTuple

import numpy as np

from bitstep_gradients import kernels
from bitstep_gradients.codecs.hadamard import hadamard
from bitstep_gradients.codecs.shares import choose
from bitstep_gradients.keys import Key

FRACTION_BITS = 23
FRACTION = 2**FRACTION_BITS
VALUE_BITS = 24                         # of a value in fixed point, without its sign
LEAST_VALUE = np.float32(2.0**-64)      # a bucket whose largest value is below it is sent as zeros
LARGEST = np.finfo(np.float32).max
DITHER_STREAM = 0                       # of the key's random words
SIGN_STREAM = 2
WORD_BITS = 32


class Block(NamedTuple):
    """Buckets of one size.

    Attributes
    ----------
    part, sent : slice
        Places of their values in the vector, and of their numbers in the message.
    buckets, size, n, k : int
        How many; values of each; rows of the transform, and those that are sent.
    """

    part: slice
    sent: slice
    buckets: int
    size: int
    n: int
    k: int

    def rows(self, key: Key) -> np.ndarray:
        """Numbers of the rows that are sent, rising, shape (k,)."""
        return choose(key, 1, self.n, self.k)[0]

    def targets(self, values: np.ndarray, key: Key, half_range: int
                ) -> tuple[np.ndarray, np.ndarray]:
        """The integers t of the numbers that are sent.

        Parameters
        ----------
        values : ndarray of float32, shape (count,)
            The whole vector.
        key : Key
        half_range : int
            Q F.

        Returns
        -------
        targets : ndarray of int64, shape (buckets * k,)
        scales : ndarray of float32, shape (buckets,)
        """
        fixed, exponents = fixed_point(self.buckets_of(values))
        rows = self._transform(fixed * self._signs(key))
        sent = rows[:, self.rows(key)].astype(np.float32)
        most = np.abs(sent).max(axis=1, keepdims=True)
        factors = np.zeros_like(most)
        np.divide(np.float32(half_range), most, out=factors, where=most > 0)
        exact = np.rint(sent * factors).astype(np.int64)
        return np.clip(exact, -half_range, half_range).reshape(-1), self._scales(most, exponents)

    def symbols(self, values: np.ndarray, key: Key, half_range: int
                ) -> tuple[np.ndarray, np.ndarray]:
        """Symbols of the numbers that are sent (integers), and scales; see :meth:`targets`."""
        loops = kernels.find_kernels()
        if not loops:
            targets, scales = self.targets(values, key, half_range)
            return targets + half_range + self._dither(key) >> FRACTION_BITS, scales
        rows = self.buckets_of(values)
        most, exponents = _exponents(rows)
        units = np.where(most < LEAST_VALUE, 0, np.ldexp(1.0, VALUE_BITS - exponents))
        largest = np.empty((self.buckets, 1), np.float32)
        symbols = np.empty(self.buckets * self.k, np.uint8)
        loops.project(rows, units[:, 0].copy(), *self._random_words(key), self.rows(key),
                      np.empty(self.n, np.int64), half_range, largest[:, 0], symbols)
        return symbols, self._scales(largest, exponents)

    def values(self, symbols: np.ndarray, units: np.ndarray, key: Key, half_range: int
               ) -> np.ndarray:
        """Values of symbols: the way back of :meth:`symbols`.

        Parameters
        ----------
        symbols : ndarray of uint8, shape (buckets * k,)
        units : ndarray of float64, shape (buckets,)
            Values of a unit of the integers that are transformed back.
        key, half_range
            See :meth:`targets`.

        Returns
        -------
        values : ndarray of float32, shape (buckets * size,)
        """
        loops = kernels.find_kernels()
        if loops:
            values = np.empty((self.buckets, self.size), np.float32)
            loops.restore_rows(symbols, units, *self._random_words(key), self.rows(key),
                               np.empty(self.n, np.int64), half_range, values)
            return values.reshape(-1)
        numbers = 2 * (symbols.astype(np.int64) * FRACTION - half_range - self._dither(key)) \
            + FRACTION - 1                  # twice, so that the centre of the dither is an integer
        found = np.zeros((self.buckets, self.n), np.int64)
        found[:, self.rows(key)] = numbers.reshape(self.buckets, -1)
        back = self._transform(found)[:, :self.size] * self._signs(key)
        return np.clip(back * units[:, None], -LARGEST, LARGEST).astype(np.float32).reshape(-1)

    def buckets_of(self, values: np.ndarray) -> np.ndarray:
        """The block's values of a whole vector, shape (buckets, size)."""
        return values[self.part].reshape(self.buckets, self.size)

    def _transform(self, values) -> np.ndarray:
        """The Hadamard transform of values (int64, shape (buckets, at most n)), padded with
        zeros: shape (buckets, n).
        """
        padded = np.zeros((self.buckets, self.n), np.int64)
        padded[:, :values.shape[1]] = values
        return hadamard(padded)

    def _scales(self, most, exponents) -> np.ndarray:
        """Scales of the largest numbers: n times smaller, for sums may be beyond float32."""
        return np.ldexp(most / np.float32(self.n), exponents - VALUE_BITS).reshape(-1)

    def _signs(self, key) -> np.ndarray:
        """Random signs (int64, shape (buckets, size)): value i of the vector has bit i mod 32 of
        word i // 32, a one meaning -1.
        """
        skipped = self.part.start % WORD_BITS
        bits = np.unpackbits(self._sign_words(key).astype("<u4").view(np.uint8),
                             count=skipped + self.buckets * self.size, bitorder="little")
        return (1 - 2 * bits[skipped:].astype(np.int64)).reshape(self.buckets, self.size)

    def _dither(self, key) -> np.ndarray:
        """Random integers from 0 to F - 1 (int64, shape (buckets * k,))."""
        return (self._dither_words(key) >> np.uint32(WORD_BITS - FRACTION_BITS)).astype(np.int64)

    def _random_words(self, key):
        """Random words as the kernels take them: signs, place of the first sign, dithers."""
        return self._sign_words(key), self.part.start % WORD_BITS, self._dither_words(key)

    def _sign_words(self, key):
        first, end = self.part.start // WORD_BITS, -(-self.part.stop // WORD_BITS)
        return key.words(end - first, stream=SIGN_STREAM, start=first)

    def _dither_words(self, key):
        return key.words(self.buckets * self.k, stream=DITHER_STREAM, start=self.sent.start)


def fixed_point(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Buckets as integers of 24 bits (int64, the same shape), in units of 2**(exponent - 24), and
    the exponents, shape (buckets, 1).
    """
    most, exponents = _exponents(rows)
    exact = np.ldexp(rows.astype(np.float64), VALUE_BITS - exponents)
    return np.where(most < LEAST_VALUE, 0, np.rint(exact).astype(np.int64)), exponents


def _exponents(rows):
    """Largest magnitudes of buckets, and exponents of the powers of two just above them; 0 for
    buckets that are sent as zeros: shape (buckets, 1).
    """
    most = np.maximum(rows.max(axis=1, keepdims=True), -rows.min(axis=1, keepdims=True))
    return most, np.where(most < LEAST_VALUE, 0, np.frexp(most)[1])
