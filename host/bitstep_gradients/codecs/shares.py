"""Shares of a vector that a codec sends, and the choice of what is sent."""

from typing import Any

import numpy as np

from bitstep.checks import is_number
from bitstep_gradients.keys import Key

ONE = 2**24                     # the code of share 1
CHOICE_STREAM = 3               # of the key's random words


def share_code(share: Any) -> int:
    """Code a share as an integer, which both sides round alike.

    Parameters
    ----------
    share : float
        Above 0, at most 1.

    Returns
    -------
    code : int
        Nearest multiple of 2**-24, from 1 to 2**24.

    Raises
    ------
    ValueError
        For a share outside its range.
    """
    if not is_number(share) or not 0 < share <= 1:
        raise ValueError(f"share must be a number above 0 and at most 1, not {share!r}")
    return max(round(float(share) * ONE), 1)


def kept_of(code: int, size: int) -> int:
    """Values that are sent of ``size``: the nearest integer, at least 1 if there is any value."""
    return min(max((size * code + ONE // 2) // ONE, 1), size)


def choose(key: Key, buckets: int, size: int, kept: int, *, start: int = 0) -> np.ndarray:
    """Choose ``kept`` of ``size`` places at random, every set of them equally likely.

    The chosen places are those with the smallest random words; of two equal words the first is
    the smaller.

    Parameters
    ----------
    key : Key
    buckets : int
        Choices to make, each with words of its own.
    size, kept : int
        ``size`` at most 2**32, ``kept`` from 1 to ``size``.
    start : int
        Number of the first word.

    Returns
    -------
    places : ndarray of int64, shape (buckets, kept)
        Rising in each row.
    """
    if kept == size:
        return np.tile(np.arange(size, dtype=np.int64), (buckets, 1))
    words = key.words(buckets * size, stream=CHOICE_STREAM, start=start).reshape(buckets, size)
    ranks = words.astype(np.uint64) << np.uint64(32) | np.arange(size, dtype=np.uint64)
    chosen = np.partition(ranks, kept - 1, axis=1)[:, :kept] & np.uint64(2**32 - 1)
    return np.sort(chosen.astype(np.int64), axis=1)
