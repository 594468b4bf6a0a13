"""What codecs with levels have in common: scales of buckets, and statistics."""

from abc import abstractmethod

import numpy as np

from bitstep.checks import check_integer
from bitstep_gradients.codecs.base import Codec
from bitstep_gradients.errors import MessageError
from bitstep_gradients.vectors import bucket_norms, checked_vector, of_buckets
from bitstep_gradients.wire.payloads import PAYLOADS

LEAST_SCALE = np.float32(2.0**-96)      # below it the factor 2**30 / s is beyond float32
MAX_LEVELS = 256


class Scaled(Codec):
    """Base of codecs that round v / s stochastically, s a norm of the bucket."""

    payloads = tuple(name for name in ("fixed", "radix", "huffman", "range") if name in PAYLOADS)
    norm = "linf"
    n_levels: int

    @abstractmethod
    def _statistics(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean probability of every symbol (float64, shape (n_levels,)), and variances of values
        (float32, shape (count,)) as float64, the same shape.
        """

    @abstractmethod
    def _sent_bits(self, count: int) -> int:
        """Bits of a message between its header and its payload."""

    def scales(self, values: np.ndarray) -> np.ndarray:
        """Scale of every bucket: float32, shape (n_buckets,); 0 for one that is sent as zeros."""
        norms = bucket_norms(values, self.bucket_size, self.norm)
        return np.where(norms < LEAST_SCALE, np.float32(0), norms)

    def bias(self, vector):
        """Rounding has none, but a bucket whose scale is below 2**-96 is sent as zeros."""
        values = checked_vector(vector)[0]
        sent = of_buckets(self.scales(values.reshape(-1)) > 0, values.size, self.bucket_size)
        return np.where(sent.reshape(values.shape), 0, -values).astype(np.float32)

    def lost(self, vector) -> float:
        """Squares of the values that are sent as zeros, summed."""
        return float(np.sum(self.bias(vector).astype(np.float64)**2))

    def expected_error(self, vector):
        variances = self._statistics(checked_vector(vector)[0].reshape(-1))[1]
        return float(variances.sum()) + self.lost(vector)

    def probabilities(self, vector) -> np.ndarray:
        """Mean probability of every symbol: float64, shape (n_levels,)."""
        return self._statistics(checked_vector(vector)[0].reshape(-1))[0]

    def expected_bits(self, vector):
        values, dtype = checked_vector(vector)
        return self.overhead_bits(values.shape, dtype) + self._sent_bits(values.size) \
            + self.coding.expected_bits(values.size, self.probabilities(vector))


def level_count(levels: int | None, bits: int | None, *, symmetric: bool, zero: bool) -> int:
    """Number of levels that options ask for; 8, or 7 with a zero level, if neither is given.

    Raises
    ------
    ValueError
        For options that contradict each other or are outside their range.
    """
    if zero and not symmetric:
        raise ValueError("zero=True needs symmetric=True: levels that are not symmetric have no "
                         "place kept for 0")
    if levels is None:
        bits = 3 if bits is None else bits
        check_integer("bits", bits, 2 if zero else 1, 8)
        return 2**bits - zero
    if bits is not None:
        raise ValueError("levels and bits say the same; give one of them")
    check_integer("levels", levels, 3 if zero else 2, MAX_LEVELS)
    if symmetric and levels % 2 != zero:
        raise ValueError(f"levels must be {'odd' if zero else 'even'} where they are symmetric "
                         f"{'with' if zero else 'without'} a zero level, not {levels}")
    return int(levels)


def read_scales(body: bytes, n_scales: int) -> tuple[np.ndarray, bytes]:
    """Scales at the beginning of a body (float32), and what follows.

    Raises
    ------
    MessageError
        Unless they are all there, finite and not negative.
    """
    scales = np.frombuffer(body[:4 * n_scales], "<f4") if len(body) >= 4 * n_scales else None
    if scales is None or not (np.isfinite(scales) & (scales >= 0)).all():
        raise MessageError(f"the message must have {n_scales} scales, finite and not negative")
    return scales, body[4 * n_scales:]
