"""Mixtures of truncated normal distributions, in float64 and a fixed order of sums.

The density of a component with the parameters m and s, cut to [-1, 1], is
phi((x - m) / s) / (s (Phi((1 - m) / s) - Phi((-1 - m) / s))). Equation 16 of the ALQ paper divides
by one s more, so its integral is 1 / s. As in the paper, m and s are mean and standard deviation of
a bucket's normalised values, although those of the cut distribution differ.
"""

from dataclasses import dataclass
from functools import cached_property
from math import erfc, exp, pi, sqrt

import numpy as np

LEAST_DEVIATION = 2.0**-20      # of a component; narrower ones are a point for our levels


def _each(function, z):
    """A function of floats for each number: NumPy has no erfc, and its exp differs by machine."""
    return np.fromiter(map(function, z.ravel().tolist()), np.float64, z.size).reshape(z.shape)


@dataclass(frozen=True)
class Moments:
    """Integrals of 1, x and x^2 over intervals, in the distribution.

    Parameters
    ----------
    mass, first, second : ndarray of float64, shape (n,)
    """

    mass: np.ndarray
    first: np.ndarray
    second: np.ndarray


@dataclass(frozen=True)
class Mixture:
    """A weighted sum of normal distributions that are cut to [-1, 1].

    Parameters
    ----------
    means, deviations, weights : ndarray of float64, shape (n_components,)
        Means from -1 to 1, positive deviations, weights with the sum 1.
    folded : bool
        True: the distribution of the absolute value, on [0, 1].
    """

    means: np.ndarray
    deviations: np.ndarray
    weights: np.ndarray
    folded: bool = False

    @classmethod
    def fitted(cls, statistics: np.ndarray, *, by_norm: bool, folded: bool) -> "Mixture | None":
        """The mixture of buckets, one component each.

        Parameters
        ----------
        statistics : ndarray of float64, shape (n, 3)
            Mean and variance of normalised values, and norm.
        by_norm : bool
            True: weights are the squares of the norms (expected variance, equation 10); False: all
            are equal (expected normalised variance, equation 3).

        Returns
        -------
        mixture : Mixture or None
            None if no norm is positive.
        """
        means, variances, norms = statistics[statistics[:, 2] > 0].T
        if not norms.size:
            return None
        weights = (norms / norms.max())**2 if by_norm else np.ones(norms.size)
        return cls(means, np.maximum(np.sqrt(variances), LEAST_DEVIATION),
                   weights / in_order(weights), folded)

    def between(self, low: np.ndarray, high: np.ndarray) -> Moments:
        """Moments of intervals.

        Parameters
        ----------
        low, high : ndarray of float64, shape (n,)
            ``low`` <= ``high``, within [-1, 1], or [0, 1] if folded.
        """
        if not self.folded:
            return Moments(*self._between(low, high))
        mass, first, second = self._between(np.append(low, -high), np.append(high, -low))
        size = np.size(low)
        return Moments(mass[:size] + mass[size:], first[:size] - first[size:],
                       second[:size] + second[size:])

    def density(self, places: np.ndarray) -> np.ndarray:
        """Density at places: float64, the same shape."""
        places = np.asarray(places, np.float64)
        if self.folded:
            both = self._density(np.append(places, -places))
            return both[:places.size] + both[places.size:]
        return self._density(places)

    def _between(self, low, high):
        # Intervals share their ends, and erfc and exp are what takes time.
        places, back = np.unique(np.concatenate([low, high]), return_inverse=True)
        below, above = back[:np.size(low)], back[np.size(low):]
        m, s = self.means[:, None], self.deviations[:, None]
        z = (places - m) / s
        mass = _mass(z, _tails(z), below, above)
        bells = s * _normal_density(z)
        first = m * mass + (bells[:, below] - bells[:, above])
        # By parts: x^2 p = m x p + s^2 p - s^2 (x p)'.
        moved = places * bells
        second = m * first + s**2 * mass + (moved[:, below] - moved[:, above])
        shares = (self.weights / self._whole)[:, None]
        return tuple(in_order(shares * one) for one in (mass, first, second))

    def _density(self, places):
        z = (places - self.means[:, None]) / self.deviations[:, None]
        return in_order((self.weights / self._whole / self.deviations)[:, None]
                        * _normal_density(z))

    @cached_property
    def _whole(self):
        """Mass of the components within [-1, 1] before they are cut."""
        z = (np.array([-1.0, 1.0]) - self.means[:, None]) / self.deviations[:, None]
        return _mass(z, _tails(z), [0], [1])[:, 0]


def in_order(terms: np.ndarray) -> np.ndarray:
    """Sum along the first axis, one term after the other."""
    return np.cumsum(terms, axis=0)[-1]


def _normal_density(z):
    with np.errstate(under="ignore", over="ignore"):
        return _each(exp, -0.5 * z * z) / sqrt(2 * pi)


def _tails(z):
    """Mass of the standard normal distribution beyond z, on z's side of 0."""
    return 0.5 * _each(erfc, np.abs(z) / sqrt(2))


def _mass(z, tails, below, above):
    """Mass between some z and others, without cancellation of numbers near 1."""
    low, high = tails[:, below], tails[:, above]
    return np.where(z[:, below] > 0, low - high,
                    np.where(z[:, above] < 0, high - low, 1 - low - high))
