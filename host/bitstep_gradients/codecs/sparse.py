"""Codecs that send some of the values: top-k and random-k.

A bucket of d values sends k of them in float32, k = the share of d, at least 1. The choice is
taken in integers.
"""

import numpy as np

from bitstep.checks import check_bool
from bitstep_gradients.codecs.base import Codec
from bitstep_gradients.codecs.plain import Deterministic, finite
from bitstep_gradients.codecs.shares import ONE, choose, kept_of, share_code
from bitstep_gradients.keys import Key
from bitstep_gradients.vectors import bucket_blocks, checked_vector, sum_of_squares
from bitstep_gradients.wire.payloads import check_length
from bitstep_gradients.wire.positions import decode_positions, encode_positions, positions_bits

LARGEST = np.finfo(np.float32).max
MAGNITUDE = np.uint32(2**31 - 1)        # of the bits of a float32, rising with its absolute value


class Sparse(Codec):
    """Base of the codecs that send some of the values.

    Parameters
    ----------
    share : float
        Share of the values that is sent, above 0 and at most 1; rounded to 24 bits.
    bucket_size : int
        See :class:`bitstep_gradients.codecs.base.Codec`; each bucket sends its own share.
    """

    def __init__(self, *, share: float = 0.01, bucket_size: int = 0):
        super().__init__(bucket_size=bucket_size)
        self.share_code = share_code(share)

    @property
    def parameter(self):
        return self.share_code

    def blocks(self, count: int) -> list[tuple[int, int, int, int]]:
        """Start, buckets, values a bucket, and how many of these are sent; at most two blocks."""
        return [(start, buckets, size, kept_of(self.share_code, size))
                for start, buckets, size in bucket_blocks(count, self.bucket_size)]

    def kept(self, count: int) -> int:
        """Values that a message of ``count`` values sends."""
        return sum(buckets * kept for _, buckets, _, kept in self.blocks(count))

    def _join(self, blocks: list[tuple[int, np.ndarray]]) -> np.ndarray:
        """Rising positions from the first index of every block and the places in its buckets."""
        size = self.bucket_size
        positions = [(start + size * np.arange(len(places), dtype=np.int64)[:, None]
                      + places).reshape(-1) for start, places in blocks]
        return np.concatenate([np.zeros(0, np.int64), *positions])


class TopK(Deterministic, Sparse):
    """``top-k``: the values of largest magnitude; of equal ones the first. The rest is lost,
    which biases it: meant for error feedback (Aji and Heafield, EMNLP 2017; Stich et al., NeurIPS
    2018). The positions are sent as :mod:`bitstep_gradients.wire.positions` tells.
    """

    name, number = "top-k", 26

    def positions(self, values: np.ndarray) -> np.ndarray:
        """Positions of the values that are sent: int64, rising."""
        positions = []
        for start, buckets, size, kept in self.blocks(values.size):
            rows = values[start:start + buckets * size].reshape(buckets, size)
            falling = MAGNITUDE - (rows.view(np.uint32) & MAGNITUDE)
            ranks = falling.astype(np.uint64) << np.uint64(32) | np.arange(size, dtype=np.uint64)
            chosen = np.partition(ranks, kept - 1, axis=1)[:, :kept] & np.uint64(2**32 - 1)
            positions.append((start, np.sort(chosen.astype(np.int64), axis=1)))
        return self._join(positions)

    def _rounded(self, values):
        flat = values.reshape(-1)
        positions = self.positions(flat)
        arrived = np.zeros_like(flat)
        arrived[positions] = flat[positions]
        return arrived.reshape(values.shape)

    def _encode(self, values, key):
        positions = self.positions(values)
        return encode_positions(positions, values.size) + values[positions].astype("<f4").tobytes()

    def _decode(self, body, count, key, side):
        kept = self.kept(count)
        size = (positions_bits(kept, count) + 7) // 8
        check_length(body, size + 4 * kept)
        arrived = np.zeros(count, np.float32)
        arrived[decode_positions(body[:size], kept, count)] = \
            finite(np.frombuffer(body, "<f4", offset=size).astype(np.float32))
        return arrived

    def variance_bound(self, vector):
        """(1 - k / d) |v|^2 a bucket of d values: what an equal spread would lose."""
        values = checked_vector(vector)[0].reshape(-1)
        return float(sum((size - kept) / size * sum_of_squares(values[start:start + buckets * size])
                         for start, buckets, size, kept in self.blocks(values.size)))

    def expected_error(self, vector):
        return Deterministic.variance_bound(self, vector)

    def expected_bits(self, vector):
        values, dtype = checked_vector(vector)
        kept = self.kept(values.size)
        positions = 8 * ((positions_bits(kept, values.size) + 7) // 8)
        return self.overhead_bits(values.shape, dtype) + positions + 32 * kept


class RandomK(Sparse):
    """``random-k``: values at random positions, which all ranks make alike from the shared key, so
    that they are not sent, and sums over ranks stay sparse (Wangni et al., NeurIPS 2018; Stich et
    al., NeurIPS 2018).

    Parameters
    ----------
    unbiased : bool
        True: values arrive d / k times as large, so that the mean is right. False: as they are,
        meant for error feedback.
    share, bucket_size
        See :class:`Sparse`.
    """

    name, number = "random-k", 27

    def __init__(self, *, unbiased: bool = True, share: float = 0.01, bucket_size: int = 0):
        super().__init__(share=share, bucket_size=bucket_size)
        check_bool("unbiased", unbiased)
        self.unbiased = bool(unbiased)

    @property
    def parameter(self):
        return self.share_code | int(self.unbiased) << ONE.bit_length()

    def positions(self, count: int, key: Key) -> np.ndarray:
        """Positions of the values that are sent: int64, rising, the same on all ranks."""
        return self._join([(start, choose(key.shared, buckets, size, kept, start=start))
                           for start, buckets, size, kept in self.blocks(count)])

    def _encode(self, values, key):
        return values[self.positions(values.size, key)].astype("<f4").tobytes()

    def _decode(self, body, count, key, side):
        check_length(body, 4 * self.kept(count))
        sent = finite(np.frombuffer(body, "<f4").astype(np.float32))
        arrived = np.zeros(count, np.float32)
        with np.errstate(over="ignore"):
            scaled = np.clip(sent * self._factors(count), -LARGEST, LARGEST)
        arrived[self.positions(count, key)] = scaled
        return arrived

    def _factors(self, count):
        """d / k for every value that is sent, or 1: float32."""
        factors = [np.full(buckets * kept, np.float32(size / kept if self.unbiased else 1))
                   for _, buckets, size, kept in self.blocks(count)]
        return np.concatenate([np.zeros(0, np.float32), *factors])

    def bias(self, vector):
        """0 if unbiased, but for values that arrive clipped: those beyond k / d of the largest
        number of float32. Else (k / d - 1) v.
        """
        values, _ = checked_vector(vector)
        flat = values.reshape(-1)
        return (self._means(flat) - flat).astype(np.float32).reshape(values.shape)

    def _means(self, values):
        """Means of what arrives: float64, shape of ``values``."""
        means = np.zeros(values.size)
        for start, buckets, size, kept in self.blocks(values.size):
            part, share = slice(start, start + buckets * size), kept / size
            limit = float(LARGEST) * share
            means[part] = np.clip(values[part], -limit, limit) if self.unbiased \
                else share * values[part].astype(np.float64)
        return means

    def expected_error(self, vector):
        """(d / k - 1) |v|^2 a bucket of d values if unbiased, else (1 - k / d) |v|^2; less where
        values arrive clipped, see :meth:`bias`.
        """
        flat = checked_vector(vector)[0].reshape(-1)
        means = self._means(flat)
        variance = sum((size - kept) / kept * sum_of_squares(means[start:start + buckets * size])
                       for start, buckets, size, kept in self.blocks(flat.size))
        return float(variance + sum_of_squares(means - flat))

    def variance_bound(self, vector):
        return self.expected_error(vector)

    def expected_bits(self, vector):
        values, dtype = checked_vector(vector)
        return self.overhead_bits(values.shape, dtype) + 32 * self.kept(values.size)
