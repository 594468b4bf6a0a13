"""Dither of the updates c: sixteen random bits a row, by which c is rounded up or down.

With d uniform in [0, 1), ``floor(v + d)`` is v on average, so rows whose updates are far below 1
are not lost: stochastic rounding (Croci, Fasi, Higham, Mary and Mikaitis, "Stochastic rounding",
Royal Society Open Science 9, 2022). Rounded to nearest, they all become 0, and training stops.
"""

from typing import Any

import numpy as np

from bitstep.golden.threefry import threefry

DITHER_WIDTH = 16           # bits of a row's dither
ROWS_PER_BLOCK = 4          # rows whose dither is one block of the generator


def dithers(key: int, n_rows: int) -> np.ndarray:
    """The dither of every row of an epoch.

    Row i takes 16 bits of the two words of block ``i // 4``, lowest bits of the first word first.

    Parameters
    ----------
    key : int
        Key of the epoch, 0 to 2**32 - 1.
    n_rows : int

    Returns
    -------
    ndarray of int64, shape (n_rows,)
        Each from 0 to 2**16 - 1.
    """
    blocks = threefry((key, 0), (np.arange(-(-n_rows // ROWS_PER_BLOCK), dtype=np.uint32), 0))
    words = np.stack(blocks, axis=1).astype("<u4")
    return words.view("<u2").reshape(-1)[:n_rows].astype(np.int64)


def round_dithered(value: Any, shift: int, dither: Any) -> Any:
    """``value / 2**shift`` rounded up or down at random.

    Parameters
    ----------
    value : int or ndarray of int64
        Of an array less than 2**62 in magnitude.
    shift : int
        At least 1; for arrays at most 40.
    dither : int or ndarray of int64
        From 0 to 2**16 - 1. Over all of them the mean of the results is ``value / 2**shift``:
        exactly for shifts up to 16, else within 2**-17.
    """
    return value + ((2 * dither + 1 << shift) >> DITHER_WIDTH + 1) >> shift


def round_floating(value: int, shift: int, dither: int, bits: int) -> int:
    """``value / 2**shift`` rounded at random to an integer of few bits times a power of two.

    The power is the least one, from 1 on, of which ``value / 2**shift`` is a multiple, rounded
    down, that fits ``bits`` bits.

    Parameters
    ----------
    value : int
    shift : int
        At least 1.
    dither : int
        From 0 to 2**16 - 1; the mean over all of them is as for :func:`round_dithered`, in units of
        the power of two.
    bits : int
        Bits of the integer, sign included; 0: all, which is :func:`round_dithered`.
    """
    whole = value >> shift
    width = (whole if whole >= 0 else ~whole).bit_length() + 1      # in two's complement
    drop = max(0, width - bits) if bits else 0
    return round_dithered(value, shift + drop, dither) << drop


def epoch_key(seed: int, epoch: int) -> int:
    """Key of an epoch, counted from 0, of the run with this seed.

    Parameters
    ----------
    seed, epoch : int
        Each from 0 to 2**32 - 1.

    Returns
    -------
    int
        From 0 to 2**32 - 1.
    """
    return epoch_keys(seed, epoch, 1)[0]


def epoch_keys(seed: int, first: int, count: int) -> list[int]:
    """:func:`epoch_key` of so many epochs from ``first`` on, at once: a call costs as much for 64
    of them as for one.
    """
    return threefry((seed, 1), (np.arange(first, first + count, dtype=np.int64), 0))[0].tolist()
