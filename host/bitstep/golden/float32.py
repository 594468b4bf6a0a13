"""One epoch on rows of IEEE 754 single-precision numbers: the specification of the float pipeline.

The weights are the 32-bit fixed-point numbers of every pipeline; a value is
``m 2^(e)`` with a signed 24-bit m. A product is formed exactly and rounded once, to nearest, ties
towards plus infinity; sums are integers and exact. Because products are rounded, look-ahead is no
longer an identity, so this model performs it, in the order of docs/pipeline.md: row i's dot product
is taken with the model after row i - D - 1, and the updates of the D rows between are subtracted
through their products with row i. D is the job's look-ahead, so the result does not depend on time.
"""

from collections import deque

import numpy as np

from bitstep.golden.rounding import fits
from bitstep.golden.steps import Overflowed, correction, proximal_step, update_rules
from bitstep.pipeline.parts.formats import FLOAT_GUARD
from bitstep.pipeline.parts.widths import MODEL_WIDTH
from bitstep.pipeline.registers import Overflow

_BIAS = 150                 # exponent field of m 2^0, with m's 23 fraction bits counted in
_FAR = 62                   # a shift beyond every product's width: what is left rounds to 0


def decode(rows: np.ndarray, job) -> tuple[np.ndarray, np.ndarray]:
    """Mantissas and exponents of stored rows.

    Parameters
    ----------
    rows : ndarray of uint8, shape (n_rows, beats * beat_bytes)

    Returns
    -------
    mantissas, exponents : ndarray of int64, shape (n_rows, n_features)
        A value is ``mantissa * 2 ** (exponent - 150)``. Subnormal numbers count as 0.
    """
    words = np.ascontiguousarray(rows).view("<u4")[:, :job.n_features].astype(np.int64)
    exponents = words >> 23 & 0xFF
    mantissas = np.where(exponents == 0, 0, words & 0x7F_FFFF | 0x80_0000)
    return np.where(words >> 31, -mantissas, mantissas), exponents


def align(products: np.ndarray, shifts: np.ndarray) -> np.ndarray:
    """``products / 2**shifts``, rounded to nearest, ties towards plus infinity.

    Parameters
    ----------
    products : ndarray of int64
        Below 2**57 in magnitude.
    shifts : ndarray of int64
        At least 1.
    """
    shifts = np.minimum(shifts, _FAR)
    return products + np.left_shift(1, shifts - 1, dtype=np.int64) >> shifts


def total(terms: np.ndarray) -> int:
    """Exact sum of integers below 2**57 in magnitude; it may need more than 64 bits."""
    return (int((terms >> 24).sum()) << 24) + int((terms & 0xFF_FFFF).sum())


class FloatEpoch:
    """Model and intercept during one pass over the rows.

    Attributes
    ----------
    model : ndarray of int64, shape (n_features,)
        Words with every update up to the row ``lookahead + 1`` before the last one.
    intercept : int
    """

    refetched_rows = 0

    def __init__(self, job, steps, model, intercept):
        self.job, self.steps = job, steps
        self.model, self.intercept = model.copy(), intercept
        self.lookahead = job.lookahead
        # Updates that the words lack, oldest first: (c, mantissas, exponents), c = 0 for no row.
        self.waiting = deque([(0, None, None)] * (self.lookahead + 1))
        self.correction = np.zeros_like(model)      # what rows see on top of the words
        self.pending = None                         # what the next boundary lets them see
        self.since = None                           # rows since the last boundary

    def run(self, rows):
        """Take every row, as (mantissas, exponents, label in units of a dot product, dither)."""
        job = self.job
        rule_of = update_rules(job, self.steps)
        frozen = frozen_intercept = None
        for row, (mantissas, exponents, target, dither) in enumerate(rows):
            self.apply_oldest()
            if job.correction_period and row % job.correction_period == 0:
                self.since = 0
                if self.pending is not None:
                    self.correction = self.pending
            self.settle_correction(row)
            position = row % job.batch
            words, intercept = self.model + self.correction, self.intercept
            if position == self.lookahead:
                frozen, frozen_intercept = words, intercept
            elif position > self.lookahead:
                words, intercept = frozen, frozen_intercept
            dot = self.dot(mantissas, exponents, words, intercept, position)
            self.waiting.append((rule_of(row)(dot, target, dither), mantissas, exponents))
            if job.proximal_period and (
                    (row + 1) % job.proximal_period == 0 or row + 1 == job.n_rows):
                self.drain(row)
                self.model = proximal_step(self.model, self.steps.threshold, job.box_limit)
        self.drain(job.n_rows)

    def dot(self, mantissas, exponents, words, intercept, position):
        """Dot product with the model that the row's batch sees."""
        constant = 1 if self.job.intercept_level else 0
        dot = total(align(mantissas * words, _BIAS - FLOAT_GUARD - exponents)) \
            + (constant * intercept << FLOAT_GUARD)
        for distance, (update, others, other_exponents) in enumerate(reversed(self.waiting), 1):
            if update and distance > position:      # not of the row's own batch
                product = total(align(mantissas * others,
                                      2 * _BIAS - FLOAT_GUARD - exponents - other_exponents))
                dot -= update * (product + (constant << FLOAT_GUARD))
        return dot

    def apply_oldest(self):
        """Take the update of the row ``lookahead + 1`` before from the words."""
        update, mantissas, exponents = self.waiting.popleft()
        if update:
            self.model -= align(update * mantissas, _BIAS - exponents)
            self.intercept -= update * (1 if self.job.intercept_level else 0)
            if not (fits(self.model, MODEL_WIDTH) and fits(self.intercept, MODEL_WIDTH)):
                raise Overflowed(Overflow.MODEL)

    def settle_correction(self, row):
        """In the row ``lookahead`` after a boundary the words become those of the boundary: the
        correction is written into them, and the next one is computed.
        """
        if self.since is None:
            return
        if self.since == self.lookahead:
            self.model += self.correction
            self.correction = np.zeros_like(self.model)
            self.pending = None
            if not fits(self.model, MODEL_WIDTH):
                raise Overflowed(Overflow.MODEL)
            boundary = row // self.job.correction_period * self.job.correction_period
            if boundary + self.job.correction_period < self.job.n_rows:
                exact = correction(self.model, self.job.coefficients.astype(np.int64), self.steps)
                if any(not fits(value, MODEL_WIDTH) for value in exact):
                    raise Overflowed(Overflow.CORRECTION)
                self.pending = exact.astype(np.int64)
        self.since += 1

    def drain(self, row):
        """Rows without data, until every update has reached the words."""
        for _ in range(self.lookahead + 1):
            self.apply_oldest()
            self.settle_correction(row)
            self.waiting.append((0, None, None))

