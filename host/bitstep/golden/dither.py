"""Dither of the updates c: sixteen random bits a row, by which c is rounded up or down.

With d uniform in [0, 1), ``floor(v + d)`` is v on average, so rows whose updates are far below 1
are not lost: stochastic rounding (Croci, Fasi, Higham, Mary and Mikaitis, "Stochastic rounding",
Royal Society Open Science 9, 2022). Rounded to nearest, they all become 0, and training stops.
"""

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


def round_dithered(value: int, shift: int, dither: int) -> int:
    """``value / 2**shift`` rounded up or down at random.

    Parameters
    ----------
    value : int
    shift : int
        At least 1.
    dither : int
        From 0 to 2**16 - 1. Over all of them the mean of the results is ``value / 2**shift``:
        exactly for shifts up to 16, else within 2**-17.
    """
    return value + ((2 * dither + 1 << shift) >> DITHER_WIDTH + 1) >> shift


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
    return int(threefry((seed, 1), (epoch, 0))[0])
