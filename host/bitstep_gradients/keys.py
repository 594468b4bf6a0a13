"""Keys of random words: a function of what is rounded, not of when or by whom."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from bitstep.checks import check_integer
from bitstep.golden.threefry import threefry, threefry_of_one
from bitstep_gradients import kernels

WORD = 2**32
SHARED = WORD - 1           # in place of the rank: words that all ranks make alike


@dataclass(frozen=True)
class Key:
    """Name of a tensor at a step on a rank; random words are a function of it.

    The words come from Threefry-2x32-20 in two levels. The first makes a key of 64 bits: key
    (seed, step), counter (rank, tensor). The second makes the words: that key, counter
    (number of the pair of words, stream).

    Parameters
    ----------
    seed : int
        From 0 to 2**32 - 1, the same on all ranks.
    step : int
        From 0 to 2**32 - 1.
    rank : int
        The sender, from 0 to 2**32 - 2; 2**32 - 1 is that of :attr:`shared`.
    tensor : int
        Number of the tensor, from 0 to 2**32 - 1.

    Raises
    ------
    ValueError
        For a number outside its range.
    """

    seed: int
    step: int = 0
    rank: int = 0
    tensor: int = 0

    def __post_init__(self):
        for name in ("seed", "step", "tensor"):
            check_integer(name, getattr(self, name), 0, WORD - 1)
        check_integer("rank", self.rank, 0, SHARED)

    @cached_property
    def shared(self) -> "Key":
        """The key whose words are the same on every rank."""
        return replace(self, rank=SHARED)

    @cached_property
    def words_key(self) -> tuple[int, int]:
        """Key of the second level: two words of 32 bits."""
        return threefry_of_one((int(self.seed), int(self.step)),
                               (int(self.rank), int(self.tensor)))     # they may be NumPy's

    def words(self, count: int, *, stream: int = 0, start: int = 0) -> np.ndarray:
        """Random words.

        Parameters
        ----------
        count : int
            At most as many as there are from ``start`` on.
        stream : int
            From 0 to 2**32 - 1: one for each use within a codec, so that no word serves twice.
        start : int
            Number of the first word, from 0 to 2**33 - 1. Word i is a function of i alone.

        Returns
        -------
        words : ndarray of uint32, shape (count,)

        Raises
        ------
        ValueError
            For a number outside its range.
        """
        check_integer("stream", stream, 0, WORD - 1)
        check_integer("start", start, 0, 2 * WORD - 1)
        check_integer("count", count, 0, 2 * WORD - start)
        first, end = start // 2, (start + count + 1) // 2
        loops = kernels.find_kernels()
        if loops:
            words = np.empty(2 * (end - first), np.uint32)
            loops.fill_words(np.array([*self.words_key, stream], np.uint32), 2 * first, words)
            return words[start - 2 * first:][:count]
        pairs = np.arange(first, end, dtype=np.int64)
        both = np.stack(threefry(self.words_key, (pairs, np.uint32(stream))), axis=-1)
        return both.reshape(-1)[start - 2 * first:][:count]
