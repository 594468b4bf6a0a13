"""Nested indices: an index modulo a ratio, found again near side information, and corrections."""

from math import erfc, exp, pi, sqrt

import numpy as np

from bitstep_gradients import kernels
from bitstep_gradients.errors import MessageError
from bitstep_gradients.wire.payloads import PAYLOADS
from bitstep_gradients.wire.positions import decode_positions, encode_positions, positions_bits

COUNT_BYTES = 4
STEPS = PAYLOADS["fixed"]


def fold(indices: np.ndarray, ratio: int) -> np.ndarray:
    """Indices modulo the ratio, as the numbers from -(ratio // 2) on: s of equation 6 of the
    paper, in steps.
    """
    return (indices + ratio // 2) % ratio - ratio // 2


def fold_symbols(symbols: np.ndarray, levels: int, ratio: int) -> np.ndarray:
    """Indices modulo the ratio, from 0 on.

    Parameters
    ----------
    symbols : ndarray of integers
        Indices plus ``levels``, from 0 to 255.
    levels, ratio : int
    """
    of_symbol = fold(np.arange(256) - levels, ratio) + ratio // 2
    loops = kernels.find_kernels()
    if not loops:
        return of_symbol[symbols]
    folded = np.empty(symbols.size, np.uint8)
    loops.look_up(of_symbol.astype(np.uint8), symbols, folded)
    return folded


def unfold(folded: np.ndarray, centres: np.ndarray, ratio: int, fraction: int) -> np.ndarray:
    """Find the indices nearest to the side information: equation 7 of the paper.

    Parameters
    ----------
    folded : ndarray of int64
        Numbers of :func:`fold`.
    centres : ndarray of int64
        alpha y + u, in units of a step over 2 ``fraction``.
    ratio, fraction : int

    Returns
    -------
    indices : ndarray of int64
    """
    coarse = 2 * ratio * fraction
    return folded + ratio * ((centres - 2 * fraction * folded + coarse // 2) // coarse)


def overload_probability(deviation: float, fine: float, coarse: float, alpha: float = 1.0) -> float:
    """Probability that a value is decoded to a wrong index, before it is corrected.

    It is Pr(|alpha z + u| > D2 / 2), z the difference from the side information, normal, and u
    uniform within D1 / 2. Without alpha and u, as equation 8 of the paper is often read, it is
    wrong.

    Parameters
    ----------
    deviation : float
        Standard deviation of z.
    fine, coarse : float
        Steps D1 and D2.
    alpha : float
    """
    sigma = alpha * deviation
    if sigma == 0:
        return 0.0
    ends = [(coarse / 2 + side * fine / 2) / sigma for side in (-1, 1)]
    below, above = (v * erfc(v / sqrt(2)) / 2 - exp(-v * v / 2) / sqrt(2 * pi) for v in ends)
    return 2 * sigma / fine * (above - below)


def encode_corrections(coarse: np.ndarray, most: int) -> bytes:
    """Code corrections: their number (4 bytes), positions, and coarse steps.

    Parameters
    ----------
    coarse : ndarray of int64, shape (count,)
        Coarse steps from what the receiver finds to what is meant, from -``most`` to ``most``;
        mostly 0.
    most : int

    Returns
    -------
    coded : bytes
    """
    places = np.flatnonzero(coarse)
    return places.size.to_bytes(COUNT_BYTES, "little") + encode_positions(places, coarse.size) \
        + STEPS.encode(coarse[places] + most, 2 * most + 1)


def decode_corrections(coded: bytes, count: int, most: int) -> tuple[np.ndarray, bytes]:
    """Find corrections at the beginning of some bytes.

    Returns
    -------
    coarse : ndarray of int64, shape (count,)
    rest : bytes
        What follows them.

    Raises
    ------
    MessageError
        For bytes that do not begin with corrections.
    """
    number = int.from_bytes(coded[:COUNT_BYTES], "little")
    if len(coded) < COUNT_BYTES or number > count:
        raise MessageError(f"the message must have at most {count} corrections, not {number}")
    positions, steps = _parts(number, count, most)
    middle, end = COUNT_BYTES + positions, COUNT_BYTES + positions + steps
    coarse = np.zeros(count, np.int64)
    coarse[decode_positions(coded[COUNT_BYTES:middle], number, count)] = \
        STEPS.decode(coded[middle:end], number, 2 * most + 1) - most
    return coarse, coded[end:]


def corrections_bits(number: int, count: int, most: int) -> int:
    """Bits of ``number`` corrections."""
    return 8 * (COUNT_BYTES + sum(_parts(number, count, most)))


def _parts(number: int, count: int, most: int) -> tuple[int, int]:
    """Bytes of the positions and of the steps of corrections."""
    return (positions_bits(number, count) + 7) // 8, \
        (number * (2 * most).bit_length() + 7) // 8
