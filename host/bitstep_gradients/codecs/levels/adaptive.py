"""Codecs whose levels follow the gradients: ALQ, AMQ (ALQ paper), and ALQ with the largest value as
the norm, which is our own.

Each rank sends mean, variance and norm of some buckets (``statistics``). Then every rank fits the
same mixture and finds the same levels (``update``). The searches use the C library's erfc and exp:
on machines whose libraries round them differently, levels may differ in their last bits. Messages
then name different states, and are refused.
"""

from collections.abc import Sequence

import numpy as np

from bitstep.checks import check_integer
from bitstep_gradients.codecs.levels.base import Levelled, around_zero, exponential
from bitstep_gradients.codecs.levels.distribution import Mixture
from bitstep_gradients.codecs.levels.fitting import (
    Objective,
    best_multiplier,
    coordinate_descent,
    dense_start,
    gradient_descent,
)
from bitstep_gradients.codecs.levels.rounding import check_fixed, separated
from bitstep_gradients.vectors import bucket_starts, checked_vector, of_buckets

MAX_SAMPLES = 350


class Adaptive(Levelled):
    """Base of the codecs whose levels are fitted.

    Parameters
    ----------
    samples : int
        Buckets of a rank's vector that the fit uses, evenly spaced, from 1 to 350 (the ALQ paper
        has 20 for CIFAR-10 and 350 for ImageNet). Default: 20.
    levels, bits, symmetric, zero, bucket_size, payload
        See :class:`bitstep_gradients.codecs.levels.base.Levelled`.
    """

    adapts = True
    by_norm = True          # weights of buckets: squares of their norms; else all alike
    preset = ("norm",)
    told = *Levelled.told, "samples"

    def __init__(self, *, samples: int = 20, **common):
        super().__init__(**common)
        check_integer("samples", samples, 1, MAX_SAMPLES)
        self.samples = int(samples)
        self._set(self._first_levels())

    @property
    def _n_free(self):
        """Levels that the search may move."""
        return self.n_levels // 2 - 1 if self.symmetric else self.n_levels - 2

    def _first_levels(self):
        """Free levels before the first update: exponential for an L2 norm, else uniform."""
        return self._exponential() if self.norm == "l2" else self._uniform()

    def _exponential(self):
        count = self._n_free + 1
        if self.symmetric:
            return exponential(max(0.5, 2.0 ** (-28 / max(count, 1))), count)[:-1]
        half = exponential(max(0.5, 2.0 ** (-56 / self.n_levels)), self.n_levels // 2)
        return around_zero(half, zero=bool(self.n_levels % 2))[1:-1]

    def _uniform(self):
        if self.symmetric:
            top = 2 * self._n_free + 2 - (not self.zero)
            return np.arange(2 if self.zero else 1, top, 2) / top
        return np.linspace(-1, 1, self.n_levels)[1:-1]

    def _set(self, free):
        """Take free levels."""
        whole = np.append(free, 1.0)
        self.levels = around_zero(separated(whole, 0.0), zero=self.zero) if self.symmetric \
            else np.append(-1.0, separated(whole, -1.0))

    @property
    def _free(self):
        return self.magnitudes[:-1] if self.symmetric else self.levels[1:-1]

    def statistics(self, vector):
        """Mean and variance of the normalised values, and norm, of some buckets.

        Parameters
        ----------
        vector : ndarray or BFloat16
            See ``encode``.

        Returns
        -------
        statistics : ndarray of float32, shape (at most samples, 3)
        """
        values = checked_vector(vector)[0].reshape(-1)
        starts = bucket_starts(values.size, self.bucket_size)
        if not starts.size:
            return np.zeros((0, 3), np.float32)
        scales = self.scales(values).astype(np.float64)
        factors = np.divide(1.0, scales, out=np.zeros_like(scales), where=scales > 0)
        exact = values * of_buckets(factors, values.size, self.bucket_size)
        sizes = np.diff(np.append(starts, values.size))
        means = np.add.reduceat(exact, starts) / sizes
        centred = exact - of_buckets(means, values.size, self.bucket_size)
        variances = np.add.reduceat(centred**2, starts) / sizes
        count = min(self.samples, starts.size)
        some = np.arange(1, 2 * count, 2, dtype=np.int64) * starts.size // (2 * count)
        return np.stack([means, variances, scales], axis=1)[some].astype(np.float32)

    def update(self, statistics: Sequence[np.ndarray]) -> None:
        """Fit the levels to the statistics of all ranks, in the order of the ranks. Zero vectors
        change nothing.

        Raises
        ------
        ValueError
            For arrays that are not of :meth:`statistics`.
        """
        mixture = self._fitted(statistics, folded=self.symmetric)
        if mixture is not None and self._n_free:
            self._set(self._search(Objective(mixture, self.zero)))

    def level_shares(self, statistics: Sequence[np.ndarray]) -> np.ndarray:
        """Expected share of every level in the distribution that fits statistics (ALQ paper,
        Corollaries 3 and 4): what a code of symbols can be made of before any vector is rounded.

        Returns
        -------
        shares : ndarray of float64, shape (n_levels,)

        Raises
        ------
        ValueError
            For statistics that are none, or of zero vectors alone.
        """
        mixture = self._fitted(statistics, folded=False)
        if mixture is None:
            raise ValueError("statistics must be of a vector that is not zero")
        return Objective(mixture).probabilities(self.levels[1:-1])

    def _fitted(self, statistics, *, folded):
        whole = np.concatenate([_checked(one) for one in statistics]) if len(statistics) \
            else np.zeros((0, 3))
        return Mixture.fitted(whole, by_norm=self.by_norm, folded=folded)

    def _search(self, objective):
        """The best free levels, by coordinate descent."""
        starts = [self._free, self._exponential(), self._uniform(),
                  dense_start(objective.mixture, self._n_free)]
        return coordinate_descent(objective, starts)

    def state_dict(self):
        """The levels in units of 2**-30."""
        return {"levels": self._fixed.copy()}

    def load_state_dict(self, state):
        if set(state) != {"levels"}:
            raise ValueError(f"the state of {self.name} must have levels alone, not "
                             f"{', '.join(map(str, state)) or 'nothing'}")
        fixed = check_fixed(state["levels"], self.n_levels)
        if self.symmetric and ((fixed != -fixed[::-1]).any() or (0 in fixed) != self.zero):
            raise ValueError(f"levels must be symmetric {'with' if self.zero else 'without'} a "
                             f"zero level, not {fixed}")
        self._fixed = fixed


def _checked(one):
    one = np.asarray(one, np.float64)
    if one.ndim != 2 or one.shape[1] != 3 or not np.isfinite(one).all() \
            or (np.abs(one[:, 0]) > 1.001).any() or (one[:, 1:] < 0).any():
        raise ValueError("statistics must be arrays of statistics(): rows of a mean, a variance "
                         f"and a norm, not of the shape {one.shape}: {one[:1]}")
    return one


class Alq(Adaptive):
    """``alq``: levels of the least expected variance, by coordinate descent (section 3.4)."""

    name, number = "alq", 8


class AlqN(Alq):
    """``alq-n``: levels of the least expected normalised variance (section 3.1)."""

    name, number, by_norm = "alq-n", 9, False


class AlqGd(Adaptive):
    """``alq-gd``: as ``alq``, by gradient descent (sections 3.2 and C.2)."""

    name, number = "alq-gd", 12

    def _search(self, objective):
        tried = [gradient_descent(objective, start)
                 for start in (self._free, dense_start(objective.mixture, self._n_free))]
        return min(tried, key=objective.value)


class AlqNGd(AlqGd):
    """``alq-n-gd``: as ``alq-n``, by gradient descent."""

    name, number, by_norm = "alq-n-gd", 13, False


class Amq(Adaptive):
    """``amq``: levels p**s, ..., p, 1 and their negatives, with p of the least expected variance
    (sections 3.3 and C.3).
    """

    name, number = "amq", 10
    preset = ("norm", "symmetric")

    def _search(self, objective):
        count = self._n_free + 1
        return exponential(best_multiplier(objective, count, float(self._free[-1])), count)[:-1]


class AmqN(Amq):
    """``amq-n``: the same for the expected normalised variance."""

    name, number, by_norm = "amq-n", 11, False


class AlqLinf(Adaptive):
    """``alq-linf``: as ``alq``, with the largest absolute value as the norm. Own variant: an L2
    norm puts the outer pair of levels far beyond all values of a large bucket.
    """

    name, number = "alq-linf", 14

    def __init__(self, **common):
        super().__init__(norm="linf", **common)


def update_steps(n_steps: int, *, first: Sequence[int] = (100, 2000), every: int = 10_000
                 ) -> list[int]:
    """Steps at which the ALQ paper's runs update their levels: 100, 2000, and every 10,000th.

    Parameters
    ----------
    n_steps : int
        Steps of the run.
    first : sequence of int
        Early updates.
    every : int
        Distance of the later ones, at least 1.

    Returns
    -------
    steps : list of int
        Rising, below ``n_steps``.
    """
    check_integer("n_steps", n_steps, 0)
    check_integer("every", every, 1)
    return sorted({step for step in (*first, *range(every, n_steps, every)) if step < n_steps})
