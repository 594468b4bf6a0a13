"""Rows that refetching holds up: who they are, and cycles of one that is fetched again."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bitstep.cycles.shape import Shape
from bitstep.pipeline.parts.stages import Refetching

# Outcomes of a row that its codes left open: decided by them when alone, or fetched.
BY_CODES, INACTIVE, ACTIVE = range(3)


@dataclass(frozen=True)
class OpenRows:
    """Rows of one epoch that their codes did not decide at once.

    With look-ahead D > 0 these are the rows that are *replayed*: a row i that enters in company and
    for which, in integers of :mod:`bitstep.golden`,

        |2 (z - y)| <= cell sum_j |U_j| + (floor(K / 2^16) + 1) margin,   or m_i = 0

    with cell = cell_half_levels, margin = cell D n_features level_limit (register
    LOOKAHEAD_MARGIN), K the derivative step of the epoch with its 16 fraction bits, m_i the
    mantissa of the row, y = L << label_shift, and z the dot product of the row's codes with the
    model that it must see, intercept included, as the golden model has it. K is that of the epoch's
    mantissa even if rows have weights, since no row's own is larger; if it does not fit 47 bits,
    every row is replayed.

    U are the words in the store that the row meets: the model, with a pending correction, but
    without the updates of rows that are less than D + 1 rows before it. Rows without data count as
    rows here: at least D + 1 of them pass in a proximal step and in a replay, and D + 1 - P before
    the boundary that ends a correction period of P < D + 1 rows. So after a step before row s, U
    has every update up to row max(i - D - 1, s - 1). After a replay of row s, U also has the update
    of row s itself if that was fetched again, whose update goes into the store at once; if its
    codes decided it, U has the updates up to row max(i - D - 1, s - 1). The replayed row is then
    alone, and fetched again if :meth:`bitstep.golden.integer.IntegerEpoch.undecided` holds. Rows
    after it are in company again.

    With D = 0 no row is replayed, and these are the rows that are fetched again.

    Parameters
    ----------
    rows : ndarray of int, shape (n,)
        Numbers of these rows in the epoch, ascending.
    outcomes : ndarray of int, shape (n,)
        ``BY_CODES``: the row was replayed, and decided by its codes; ``INACTIVE``, ``ACTIVE``:
        it was fetched again, and is inactive or active.
    """

    rows: np.ndarray
    outcomes: np.ndarray

    def __post_init__(self):
        if self.rows.ndim != 1 or self.rows.shape != self.outcomes.shape:
            raise ValueError("rows and outcomes must be arrays of one dimension and the same "
                             f"length, not of shapes {self.rows.shape} and {self.outcomes.shape}")

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return zip(self.rows.tolist(), self.outcomes.tolist(), strict=True)


class PackedOpenRows:
    """Open rows in at most three bits a row of the epoch, since every epoch of a training keeps
    its own until somebody asks how long it took.

    Parameters
    ----------
    opened : OpenRows
    """

    def __init__(self, opened: OpenRows):
        is_open = np.zeros(opened.rows.max(initial=-1) + 1, bool)
        is_open[opened.rows] = True
        self._rows = np.packbits(is_open)
        self._outcomes = np.packbits(opened.outcomes[:, None] >> np.arange(2) & 1)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        rows = np.flatnonzero(np.unpackbits(self._rows))
        bits = np.unpackbits(self._outcomes, count=2 * rows.size).reshape(-1, 2)
        return zip(rows.tolist(), (bits @ np.array([1, 2])).tolist(), strict=True)


def first_take(shape: Shape, time: int) -> int:
    """Return the cycle in which the first pair of a beat can be taken, if it is there, when the
    row is asked for, or the last pair of the beat before is taken, at ``time``.
    """
    return time + Refetching(shape.config.clock).first_pair


def decision_delay(shape: Shape, active: bool) -> int:
    """Return the cycles from a row's last pair to the decision on it or, if it is ``active``, to
    its last word.
    """
    return Refetching(shape.config.clock).decision(shape.pairs, shape.beats, active=active)
