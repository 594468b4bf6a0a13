"""Codecs that round to a narrower float, or not at all: what few bits are measured against."""

from abc import abstractmethod
from typing import ClassVar

import numpy as np

from bitstep_gradients.codecs.base import Codec
from bitstep_gradients.errors import MessageError
from bitstep_gradients.vectors import BFloat16, checked_vector
from bitstep_gradients.wire.payloads import check_length


class Deterministic(Codec):
    """Base of codecs without a random word: their error is known exactly."""

    def variance_bound(self, vector):
        return float(np.sum(self.bias(vector).astype(np.float64)**2))

    def expected_error(self, vector):
        return self.variance_bound(vector)

    def bias(self, vector):
        values, _ = checked_vector(vector)
        return self._rounded(values) - values

    @abstractmethod
    def _rounded(self, values: np.ndarray) -> np.ndarray:
        """Values as they arrive: float32, the same shape."""


class Plain(Deterministic):
    """Base: every value as bytes of its own."""

    width: ClassVar[int]        # bytes of a value

    def __init__(self):
        super().__init__()

    def expected_bits(self, vector):
        values, dtype = checked_vector(vector)
        return self.overhead_bits(values.shape, dtype) + 8 * self.width * values.size


class Uncompressed(Plain):
    """``none``: float32."""

    name, number, width = "none", 0, 4

    def _rounded(self, values):
        return values

    def _encode(self, values, key):
        return values.astype("<f4", copy=False).tobytes()

    def _decode(self, body, count, key, side):
        check_length(body, self.width * count)
        return finite(np.frombuffer(body, "<f4").astype(np.float32))


class Float16(Plain):
    """``fp16``: the nearest float16. Values beyond 65,504 are clipped to it."""

    name, number, width = "fp16", 1, 2

    def _rounded(self, values):
        return self._narrowed(values).astype(np.float32)

    def _narrowed(self, values):
        most = np.float32(np.finfo(np.float16).max)
        return np.clip(values, -most, most).astype("<f2")

    def _encode(self, values, key):
        return self._narrowed(values).tobytes()

    def _decode(self, body, count, key, side):
        check_length(body, self.width * count)
        return finite(np.frombuffer(body, "<f2").astype(np.float32))


class BrainFloat16(Plain):
    """``bf16``: the nearest bfloat16. Values that would round to infinity are clipped."""

    name, number, width = "bf16", 2, 2

    def _rounded(self, values):
        return self._narrowed(values).values

    def _narrowed(self, values):
        most = np.array(0x7F7F_0000, np.uint32).view(np.float32)
        return BFloat16.rounded(np.clip(values, -most, most))

    def _encode(self, values, key):
        return self._narrowed(values).bits.astype("<u2", copy=False).tobytes()

    def _decode(self, body, count, key, side):
        check_length(body, self.width * count)
        return finite(BFloat16(np.frombuffer(body, "<u2")).values)


def finite(values: np.ndarray) -> np.ndarray:
    """Return values; raise MessageError unless all are finite."""
    if not np.isfinite(values).all():
        raise MessageError("the message has values that are not finite: no codec of bitstep sends "
                           "them")
    return values
