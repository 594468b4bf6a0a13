"""Quantized compressive sampling: QCS (Abdi and Fekri, AAAI 2020; the QCS paper).

A bucket of d values g is padded with zeros to n = 2**m values. With random signs r and k rows H of
the Hadamard matrix of order n, which both sides make from the key:

- v = H (r * g) / sqrt(k), quantized with subtractive dither: v' = v + scale e, e uniform
- g' = alpha r * (H^T v') / sqrt(k), the first d values of it

g' is unbiased for alpha = 1: E[r_i r_j] is 1 for i = j and else 0, and each column of H holds k
numbers +-1, so E[T^T T] = I with T = H diag(r) / sqrt(k). The random signs alone do that, whatever
the rows.

The paper takes the first k rows. But then the places i and j that disturb each other are the same
ones in every step. So the rows are drawn too: k of n, the same for all buckets of one size in a
message. That spreads the error evenly over the places: before quantization,
E|g' - g|^2 = (d - 1) / (n - 1) (n / k - 1) |g|^2.

Everything up to the scale is done in integers, and so is everything after it:

- the values of a bucket become multiples of 2**(e - 24), where 2**e is the power of two just above
  the largest of them; the largest loses nothing
- sums and differences of integers make the transform, w = H (r * g)
- t = rint(float32(w) f), f = Q F / max|w| in float32, F = 2**23; symbol = floor((t + u) / F + Q),
  where u is a random integer from 0 to F - 1
- the receiver transforms the integers 2 F (symbol - Q) - 2 u + F - 1 back, and multiplies once.
"""

from math import log

import numpy as np

from bitstep.checks import check_integer
from bitstep.levels.counting import split_counts
from bitstep_gradients.codecs.base import Codec
from bitstep_gradients.codecs.projection import (
    FRACTION,
    FRACTION_BITS,
    VALUE_BITS,
    Block,
    fixed_point,
)
from bitstep_gradients.codecs.shares import kept_of, share_code
from bitstep_gradients.errors import MessageError
from bitstep_gradients.keys import Key
from bitstep_gradients.vectors import bucket_blocks, checked_vector
from bitstep_gradients.wire.payloads import PAYLOADS

MAX_LEVELS = 127
LEVEL_BITS = 7
BUCKET = 512


def gamma(n: int, k: int, levels: float) -> float:
    """Bound of E|g' - g|^2 / |g|^2 for k of n rows (Theorem 2 of the QCS paper).

    The paper prints n - 1 for k = 1, which holds if the one number is sent exactly. Quantized, it
    is n - 1 + n / (12 Q^2).

    Parameters
    ----------
    n, k : int
    levels : float
        Levels Q on each side of zero; 0.5 for one bit.
    """
    spread = log(k) / (k - 1) if k > 1 else 1 / 3
    return n / k - 1 + n / (4 * levels**2) * spread


class Qcs(Codec):
    """``qcs``: unbiased.

    Parameters
    ----------
    share : float
        Share k / n of the rows that is sent, above 0 and at most 1; k is at least 1.
    levels : int
        Levels Q on each side of zero, from 1 to 127.
    bucket_size : int
        Values that are transformed together, from 1 to 2**32 - 1; a power of two wastes no row.
        0: the whole vector.
    payload
        See :class:`bitstep_gradients.codecs.base.Codec`.
    """

    name, number = "qcs", 20
    payloads = tuple(PAYLOADS)

    def __init__(self, *, share: float = 1.0, levels: int = 1, bucket_size: int = BUCKET,
                 payload: str | None = None):
        super().__init__(bucket_size=bucket_size, payload=payload)
        check_integer("levels", levels, 1, MAX_LEVELS)
        self.share_code = share_code(share)
        self.half_range = int(levels) * FRACTION

    @property
    def levels(self) -> float:
        """Levels Q on each side of zero."""
        return self.half_range / FRACTION

    @property
    def parameter(self):
        return self.share_code << LEVEL_BITS | self.half_range >> FRACTION_BITS

    @property
    def n_symbols(self) -> int:
        """Symbols of the payload: 2 Q + 1."""
        return 2 * self.half_range // FRACTION + 1

    def alpha(self, n: int, k: int) -> float:
        """Factor of the reconstruction from k of n rows."""
        return 1.0

    def blocks(self, count: int) -> list[Block]:
        """Buckets of ``count`` values; at most two blocks of equal ones."""
        blocks, place = [], 0
        for start, buckets, size in bucket_blocks(count, self.bucket_size):
            n = 1 << (size - 1).bit_length()
            k = kept_of(self.share_code, n)
            blocks.append(Block(slice(start, start + buckets * size),
                                slice(place, place + buckets * k), buckets, size, n, k))
            place += buckets * k
        return blocks

    def sent(self, count: int) -> int:
        """Numbers that a message of ``count`` values sends."""
        return sum(block.buckets * block.k for block in self.blocks(count))

    def _encode(self, values, key):
        symbols, scales = np.empty(self.sent(values.size), np.uint8), [np.zeros(0, np.float32)]
        for block in self.blocks(values.size):
            symbols[block.sent], of_block = block.symbols(values, key, self.half_range)
            scales.append(of_block)
        return np.concatenate(scales).astype("<f4").tobytes() \
            + self.coding.encode(symbols, self.n_symbols)

    def _decode(self, body, count, key, side):
        size = 4 * self.n_buckets(count)
        scales = np.frombuffer(body, "<f4", size // 4) if len(body) >= size else np.zeros(0)
        if scales.nbytes != size or not (np.isfinite(scales) & (scales >= 0)).all():
            raise MessageError(f"the message must have {size // 4} scales, finite and not negative")
        symbols = self.coding.decode(body[size:], self.sent(count), self.n_symbols, np.uint8)
        values, bucket = np.empty(count, np.float32), 0
        for block in self.blocks(count):
            units = scales[bucket:bucket + block.buckets].astype(np.float64) \
                * (self.alpha(block.n, block.k) * block.n / block.k / (2 * self.half_range))
            values[block.part] = block.values(symbols[block.sent], units, key, self.half_range)
            bucket += block.buckets
        return values

    # Statistics

    def bias(self, vector):
        """alpha times the value in fixed point, less the value."""
        values, _ = checked_vector(vector)
        flat, biases = values.reshape(-1), np.zeros(values.size, np.float32)
        for block in self.blocks(values.size):
            rows = block.buckets_of(flat)
            fixed, exponents = fixed_point(rows)
            mean = self.alpha(block.n, block.k) * np.ldexp(fixed, exponents - VALUE_BITS)
            biases[block.part] = (mean - rows).reshape(-1)
        return biases.reshape(values.shape)

    def variance_bound(self, vector):
        """alpha^2 gamma |g|^2 a bucket (see :func:`gamma`), and the square of the bias: for
        alpha = 1 / (1 + gamma) that is (1 - alpha) |g|^2, Lemma 3 of the paper.
        """
        values, _ = checked_vector(vector)
        squares = values.reshape(-1).astype(np.float64)**2
        total = np.sum(self.bias(vector).astype(np.float64)**2)
        for block in self.blocks(values.size):
            share = self.alpha(block.n, block.k)**2 * gamma(block.n, block.k, self.levels)
            total += share * squares[block.part].sum()
        return float(total)

    def probabilities(self, vector) -> np.ndarray:
        """Mean probability of every symbol: float64, shape (n_symbols,). The dither is averaged;
        signs and rows are those of one key, since their mean has no formula.
        """
        values, _ = checked_vector(vector)
        targets = np.concatenate([np.zeros(0, np.int64), *(
            block.targets(values.reshape(-1), Key(0), self.half_range)[0]
            for block in self.blocks(values.size))])
        lower = targets + self.half_range >> FRACTION_BITS
        places = (targets + self.half_range) % FRACTION / FRACTION
        counts = split_counts(lower, places, self.n_symbols + 1)
        return counts[:-1] / max(targets.size, 1)

    def expected_bits(self, vector):
        values, dtype = checked_vector(vector)
        return self.overhead_bits(values.shape, dtype) + 32 * self.n_buckets(values.size) \
            + self.coding.expected_bits(self.sent(values.size), self.probabilities(vector))


class QcsMmse(Qcs):
    """``qcs-mmse``: the same messages, with alpha = 1 / (1 + gamma), which bounds the squared error
    by (1 - alpha) |g|^2 < |g|^2, but biases it: meant for error feedback.
    """

    name, number = "qcs-mmse", 21

    def alpha(self, n, k):
        return 1 / (1 + gamma(n, k, self.levels))


class Qcs1Bit(Qcs):
    """``qcs-1bit``: two levels, at -s / 2 and s / 2 with s = 2 max|v|: Q = 1/2.

    The paper prints q = sign(v / s + u) and v' = s (q - u) (equations 5 and 6). Its mean is 2 v.
    Unbiased is v' = s (q / 2 - u), whose variance is s^2 / 12.

    Parameters
    ----------
    share, bucket_size
        See :class:`Qcs`.
    """

    name, number, payloads = "qcs-1bit", 22, ("fixed",)

    def __init__(self, *, share: float = 1.0, bucket_size: int = BUCKET):
        super().__init__(share=share, bucket_size=bucket_size)
        self.half_range = FRACTION // 2
