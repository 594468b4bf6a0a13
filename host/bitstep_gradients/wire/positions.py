"""Positions of the values that a sparse message sends.

k positions of n values, in rising order, take the shorter of two forms. Sender and receiver know k
and n, so the formula alone decides and nothing in the message says which it is:

- bitmap: n bits, one a value
- split positions (Elias 1974, Fano 1971): the low b bits of every position, then the rest of it as
  a bitmap in which position i sets bit i + (position >> b). That is
  k (b + 1) + ((n - 1) >> b) + 1 bits, with the b that takes least.

If all values are sent, or none, positions take no bit.
"""

import numpy as np

from bitstep_gradients.errors import MessageError
from bitstep_gradients.wire.payloads import check_length, powers_of_two

MOST_LOW_BITS = 33              # a vector has at most 2**33 values


def positions_bits(kept: int, count: int) -> int:
    """Bits of ``kept`` positions of ``count`` values, before the last byte is filled."""
    if kept in (0, count):
        return 0
    return min(count, _split_bits(kept, count, _low_bits(kept, count)))


def encode_positions(positions: np.ndarray, count: int) -> bytes:
    """Code positions.

    Parameters
    ----------
    positions : ndarray of int64, shape (kept,)
        Rising, from 0 to ``count - 1``.
    count : int
        Values of the vector.

    Returns
    -------
    coded : bytes
    """
    kept = positions.size
    if kept in (0, count):
        return b""
    low = _low_bits(kept, count)
    if count <= _split_bits(kept, count, low):
        bits = np.zeros(count, np.uint8)
        bits[positions] = 1
    else:
        high = np.zeros(kept + ((count - 1) >> low) + 1, np.uint8)
        high[(positions >> low) + np.arange(kept)] = 1
        lows = (positions[:, None] >> np.arange(low) & 1).astype(np.uint8)
        bits = np.concatenate([lows.reshape(-1), high])
    return np.packbits(bits, bitorder="little").tobytes()


def decode_positions(coded: bytes, kept: int, count: int) -> np.ndarray:
    """Find positions.

    Parameters
    ----------
    coded : bytes
    kept, count : int
        As many as were coded, of as many values.

    Returns
    -------
    positions : ndarray of int64, shape (kept,)

    Raises
    ------
    MessageError
        For bytes that are not the code of so many positions.
    """
    check_length(coded, (positions_bits(kept, count) + 7) // 8)
    if kept in (0, count):
        return np.arange(kept, dtype=np.int64)
    low = _low_bits(kept, count)
    bits = np.unpackbits(np.frombuffer(coded, np.uint8), bitorder="little")
    if count <= _split_bits(kept, count, low):
        positions = np.flatnonzero(bits).astype(np.int64, copy=False)
        good = positions.size == kept
    else:
        high = np.flatnonzero(bits[kept * low:])
        good = high.size == kept
        if good:
            lows = bits[:kept * low].reshape(kept, low) @ powers_of_two(low)
            positions = (high - np.arange(kept, dtype=np.int64) << low) + lows
            good = (np.diff(positions) > 0).all()
    if not good or positions[-1] >= count:
        raise MessageError(f"the message must have {kept} rising positions of {count} values, and "
                           "its bits are others")
    return positions


def _split_bits(kept: int, count: int, low: int) -> int:
    return kept * (low + 1) + ((count - 1) >> low) + 1


def _low_bits(kept: int, count: int) -> int:
    """Low bits that take least; the fewest of those that are equal."""
    return min(range(MOST_LOW_BITS + 1), key=lambda low: _split_bits(kept, count, low))
