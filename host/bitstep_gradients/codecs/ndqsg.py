"""Nested dithered quantization: NDQSG (Abdi and Fekri, 2019; the DQSG paper, section 3.2).

A bucket of scale s is quantized as DQSG does, with M levels on each side of zero: step
D1 = s / M, fine index k = floor((t + u) / F) of t = rint(alpha x f), see
:mod:`bitstep_gradients.codecs.uniform`. The message holds k modulo the ratio D2 / D1. The receiver
has side information y near x, and takes the k of that remainder whose value lies nearest to
alpha y. The decision is taken in integers, on both sides alike. Then

- x' = (1 - alpha^2) y + alpha (k D1 - u), with u centred; for alpha = 1 it is what DQSG receives

If alpha (x - y) and the rounding error are more than D2 / 2 apart, the receiver would take another
k: an overload. The sender has the same y, finds these places, and sends them with the message as
corrections. So every k arrives, the mean and the error are what they would be without overloads,
and poor side information costs bits alone. If the corrections make the message as long as one of
all fine indices, that is sent: it falls back to DQSG.
"""

import zlib
from typing import NamedTuple

import numpy as np

from bitstep.checks import check_integer, is_number
from bitstep_gradients import kernels
from bitstep_gradients.codecs.levels.scaled import read_scales
from bitstep_gradients.codecs.nesting import (
    COUNT_BYTES,
    corrections_bits,
    decode_corrections,
    encode_corrections,
    fold,
    fold_symbols,
    unfold,
)
from bitstep_gradients.codecs.uniform import FRACTION, FRACTION_BITS, LARGEST, Uniform, word_key
from bitstep_gradients.errors import MessageError
from bitstep_gradients.vectors import checked_side, checked_vector, of_buckets

ALPHA_BITS = 15
PLAIN, NESTED, SHRUNK = range(3)    # first byte of the body; SHRUNK: all fine indices, and side
CHECKSUM_BYTES = 4
MAX_RATIO = 254
OTHER_SIDE = ("the message was encoded with other side information, or another key; all ranks must "
              "have the same side")


class Nesting(NamedTuple):
    """Facts of a message: nested, or all fine indices; values that were corrected."""

    nested: bool
    overloads: int


class Ndqsg(Uniform):
    """``ndqsg``. Without side information it is ``dqsg`` with one more byte.

    Parameters
    ----------
    levels : int
        Levels M on each side of zero, from 2 to 127; 3 if neither it nor ``bits`` is given.
    ratio : int
        D2 / D1, the number of symbols, from 2 to 2 M.
    alpha : float
        Above 0, at most 1; rounded to 15 bits. Below 1 the received value leans on the side
        information: E|x' - x|^2 = alpha^2 D1^2 / 12 + (1 - alpha^2)^2 |x - y|^2 a value (equation
        9), biased towards y. Where that is more than D1^2 / 12, the message says so and 1 is taken.
    bits, bucket_size, payload
        See :class:`bitstep_gradients.codecs.uniform.Uniform`.
    """

    name, number, subtractive, takes_side = "ndqsg", 23, True, True

    def __init__(self, *, levels: int | None = None, bits: int | None = None, ratio: int = 3,
                 alpha: float = 1.0, **common):
        if levels is None and bits is None:
            levels = 3
        super().__init__(levels=levels, bits=bits, **common)
        check_integer("levels", self.levels, 2)
        check_integer("ratio", ratio, 2, min(2 * self.levels, MAX_RATIO))
        self.ratio = int(ratio)
        if not is_number(alpha) or not 0 < alpha <= 1:
            raise ValueError(f"alpha must be a number above 0 and at most 1, not {alpha!r}")
        self.alpha_code = max(round(float(alpha) * 2**ALPHA_BITS), 1)

    @property
    def alpha(self) -> float:
        """Shrinkage factor, as both sides know it."""
        return self.alpha_code / 2**ALPHA_BITS

    @property
    def parameter(self):
        return self.alpha_code << 15 | self.ratio << 7 | self.levels

    @property
    def most_coarse(self) -> int:
        """Coarse steps that a correction is at most."""
        return (2 * self.levels + self.ratio) // self.ratio + 1

    def nesting(self, message: bytes) -> Nesting:
        """Read from a message if it is nested, and its overloads. MessageError as for decode."""
        header, body = self._opened(message)
        mode, _, rest = self._parts(body, header.count)
        return Nesting(mode == NESTED, int.from_bytes(rest[:COUNT_BYTES], "little")
                       if mode == NESTED else 0)

    def _encode_shaped(self, values, key, side):
        flat = values.reshape(-1)
        scales, sent = self.scales(flat), b""
        side, mode = self._clipped(side, scales), PLAIN
        if side is not None and self._is_near(flat, side, scales):
            symbols, coarse = self._nest(flat, side, scales, key)
            sent, mode = self._nested(symbols, coarse, side), NESTED
        else:
            symbols = self._symbols(flat, scales, key)
        whole = self.coding.encode(symbols, self.n_symbols)
        if mode == NESTED and self.alpha < 1:
            whole = self._checksum(symbols, side) + whole
        if mode == PLAIN or len(whole) <= len(sent):
            sent, mode = whole, PLAIN if mode == PLAIN or self.alpha == 1 else SHRUNK
        return bytes([mode]) + scales.astype("<f4").tobytes() + sent

    def _decode_shaped(self, body, shape, key, side):
        count = int(np.prod(shape, dtype=np.int64))
        mode, scales, sent = self._parts(body, count)
        if mode != PLAIN and side is None:
            raise MessageError("the message was encoded with side information; give decode the "
                               "side that encode got")
        side = self._clipped(side, scales)
        if mode == NESTED:
            symbols, checksum = self._unnested(sent, side, scales, key)
        else:
            start = CHECKSUM_BYTES if mode == SHRUNK else 0
            checksum, sent = sent[:start], sent[start:]
            symbols = self.coding.decode(sent, count, self.n_symbols, np.uint8)
        if mode != PLAIN and self._checksum(symbols, side) != checksum:
            raise MessageError(OTHER_SIDE)
        return self._received(symbols, scales, key, None if mode == PLAIN else side)

    def _encode(self, values, key):
        return self._encode_shaped(values, key, None)

    def _decode(self, body, count, key, side):
        return self._decode_shaped(body, (count,), key, side)

    def _parts(self, body, count) -> tuple[int, np.ndarray, bytes]:
        """Mode, scales (float32), and what follows. MessageError if they are not there."""
        if not body or body[0] > SHRUNK:
            raise MessageError("the message's body must begin with 0, 1 or 2, but it "
                               f"{f'begins with {body[0]}' if body else 'is empty'}")
        scales, sent = read_scales(body[1:], self.n_buckets(count))
        return body[0], scales, sent

    def _nested(self, symbols, coarse, side) -> bytes:
        """Corrections, checksum, remainders."""
        return encode_corrections(coarse, self.most_coarse) + self._checksum(symbols, side) \
            + self.coding.encode(fold_symbols(symbols, self.levels, self.ratio), self.ratio)

    def _unnested(self, sent, side, scales, key) -> tuple[np.ndarray, bytes]:
        """The symbols of :meth:`_nested`, and the checksum that came with them."""
        coarse, rest = decode_corrections(sent, side.size, self.most_coarse)
        folded = self.coding.decode(rest[CHECKSUM_BYTES:], side.size, self.ratio, np.uint8)
        symbols, sound = self._unnest(folded, coarse, side, scales, key)
        if not sound:
            raise MessageError(OTHER_SIDE)
        return symbols, rest[:CHECKSUM_BYTES]

    def _nest(self, values, side, scales, key) -> tuple[np.ndarray, np.ndarray]:
        """Symbols of the fine indices, and coarse steps of corrections: integers, shape (count,)"""
        loops = kernels.find_kernels()
        if loops:
            symbols = np.empty(values.size, np.uint8)
            coarse = np.empty(values.size, np.int16)
            loops.nest_values(values, side, *self._nesting(scales, values.size, key), symbols,
                              coarse)
            return symbols, coarse
        dither = self._dither(values.size, key)
        targets = self.targets(self._scaled(values), scales).astype(np.int64)
        indices = targets + dither >> FRACTION_BITS
        folded = fold(indices, self.ratio)
        nearest = unfold(folded, self._centres(side, scales, dither), self.ratio, FRACTION)
        return indices + self.levels, (indices - nearest) // self.ratio

    def _unnest(self, folded, coarse, side, scales, key) -> tuple[np.ndarray, bool]:
        """Symbols of the fine indices, and False if one of these is outside its range."""
        loops = kernels.find_kernels()
        if loops:
            symbols = np.empty(side.size, np.uint8)
            sound = loops.unnest_values(folded, side, *self._nesting(scales, side.size, key),
                                        coarse, symbols)
            return symbols, sound
        centres = self._centres(side, scales, self._dither(side.size, key))
        indices = unfold(folded.astype(np.int64) - self.ratio // 2, centres, self.ratio, FRACTION) \
            + self.ratio * coarse
        return indices + self.levels, not (np.abs(indices) > self.levels).any()

    def _nesting(self, scales, count, key):
        """Settings of the kernels."""
        return self._factors(scales), self.bucket_size or max(count, 1), np.float32(self.alpha), \
            self.levels * FRACTION, self.ratio, word_key(key)

    def _centres(self, side, scales, dither) -> np.ndarray:
        """alpha y and the centred dither, in units of D1 / (2 F): int64."""
        targets = self.targets(self._scaled(side), scales).astype(np.int64)
        return 2 * (targets + dither) - (FRACTION - 1)

    def _received(self, symbols, scales, key, side) -> np.ndarray:
        """Received values of fine indices: float32."""
        with np.errstate(under="ignore", over="ignore"):
            units = scales / np.float32(2 * self.levels * FRACTION)
            if side is None or self.alpha == 1:
                return self._values(symbols, units, key)
            numbers = 2 * ((symbols.astype(np.int64) - self.levels) * FRACTION
                           - self._dither(symbols.size, key)) + FRACTION - 1
            values = numbers.astype(np.float32) * of_buckets(units, symbols.size, self.bucket_size)
            values = self._scaled(values) + np.float32(1 - self.alpha**2) * side
        return np.clip(values, -LARGEST, LARGEST)

    def _scaled(self, values):
        return values if self.alpha == 1 else np.float32(self.alpha) * values

    def _checksum(self, symbols, side) -> bytes:
        """Of all that received values depend on: the fine indices, and, if it is added to them
        (alpha < 1), the side information.
        """
        indices = symbols.astype(np.int8) - np.int8(self.levels)
        checksum = zlib.crc32(indices.tobytes())
        if self.alpha < 1:
            checksum = zlib.crc32((side + np.float32(0)).astype("<f4").tobytes(), checksum)  # no -0
        return checksum.to_bytes(CHECKSUM_BYTES, "little")

    def _clipped(self, side, scales):
        """Side information within the scale, for no value lies beyond it; None if there is none."""
        if side is None:
            return None
        limits = of_buckets(scales, side.size, self.bucket_size)
        return np.clip(side, -limits, limits)

    def _is_near(self, values, side, scales) -> bool:
        """True if the error with this side information is at most the one without."""
        if self.alpha == 1:
            return True
        fine = np.sum(of_buckets(scales.astype(np.float64), values.size, self.bucket_size)**2) \
            / (12 * self.levels**2)
        far = np.sum((values.astype(np.float64) - side)**2)
        return bool((1 - self.alpha**2)**2 * far <= (1 - self.alpha**2) * fine)

    # Statistics

    def _seen(self, vector, side):
        """Values, scales, and the side information that the message would use, or None."""
        values, _ = checked_vector(vector)
        side, flat = checked_side(side, values.shape), values.reshape(-1)
        scales = self.scales(flat)
        side = self._clipped(side, scales)
        return flat, scales, \
            side if side is not None and self._is_near(flat, side, scales) else None

    def bias(self, vector, side=None):
        """(1 - alpha^2) (y - x) where side information is used, and 0 - x for a bucket that is
        sent as zeros.
        """
        missing = super().bias(vector)
        flat, _, side = self._seen(vector, side)
        if side is None or self.alpha == 1:
            return missing
        # In float64: the difference of two values near the limit is beyond float32.
        away = side.astype(np.float64) - flat - missing.reshape(-1)
        lean = np.clip((1 - self.alpha**2) * away, -LARGEST, LARGEST).astype(np.float32)
        return missing + lean.reshape(missing.shape)

    def expected_error(self, vector, side=None):
        _, _, steps = self._fractions(vector)
        _, _, near = self._seen(vector, side)
        share = 1 if near is None else self.alpha**2
        return float(share * np.sum(steps**2) / 12
                     + np.sum(self.bias(vector, side).astype(np.float64)**2))

    def variance_bound(self, vector, side=None):
        """Equation 9 of the paper a value, which is exact: :meth:`expected_error`."""
        return self.expected_error(vector, side)

    def expected_overloads(self, vector, side) -> float:
        """Expected number of values that a message with this side information corrects."""
        flat, scales, side = self._seen(vector, side)
        if side is None:
            return 0.0
        apart = (self.targets(self._scaled(flat), scales).astype(np.float64)
                 - self.targets(self._scaled(side), scales)) / FRACTION
        return float(np.clip(np.abs(apart) + 0.5 - self.ratio / 2, 0, 1).sum())

    def expected_bits(self, vector, side=None):
        """Expected bits of the whole message; with side information, of one that has the expected
        number of overloads.
        """
        plain = super().expected_bits(vector) + 8
        flat, scales, near = self._seen(vector, side)
        if near is None:
            return plain
        targets = self.targets(self._scaled(flat), scales)
        lower, places = targets >> FRACTION_BITS, targets % FRACTION / FRACTION
        shift, count = self.ratio // 2, max(flat.size, 1)
        folded = np.bincount(fold(lower, self.ratio) + shift, 1 - places, self.ratio) \
            + np.bincount(fold(lower + 1, self.ratio) + shift, places, self.ratio)
        values, dtype = checked_vector(vector)
        checksum = 8 * CHECKSUM_BYTES
        if self.alpha < 1:
            plain += checksum
        nested = self.overhead_bits(values.shape, dtype) + 8 + 32 * scales.size + checksum \
            + corrections_bits(round(self.expected_overloads(vector, side)), flat.size,
                               self.most_coarse) \
            + self.coding.expected_bits(flat.size, folded / count)
        return min(plain, nested)
