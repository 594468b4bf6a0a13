"""Levels of the least expected variance for a distribution of normalised values (ALQ paper).

``Objective`` is Psi (equations 3, 10 and 29) and its derivatives. Three searches minimise it:
coordinate descent (ALQ), gradient descent (alq-gd) and descent of one multiplier (AMQ).

Free levels l_1 < ... < l_s lie between two fixed ones. Symmetric levels are magnitudes on [0, 1]
for the distribution of |x|, with 1 above them. Below is 0 where it is a level, else -l_1. There
the derivative is 2 l_1 F(l_1) - integral of (l_2 - r) dF over [l_1, l_2]. The normal form of
appendix B.3.1 lacks + sigma^2 p(l_1); here integrals are first moments, which have both densities.
"""

from dataclasses import dataclass

import numpy as np

from bitstep_gradients.codecs.levels.distribution import Mixture

ACCURACY = 1e-10            # of levels, where coordinate descent ends
MAX_SWEEPS = 200
TRIAL_SWEEPS = 3
DESCENT_STEPS = 300
FIRST_MULTIPLIERS = (0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.97)


@dataclass(frozen=True)
class Objective:
    """Expected variance of a value, in units of the norm's square.

    Parameters
    ----------
    mixture : Mixture
        Folded if and only if the levels are symmetric.
    zero : bool
        True: 0 is a level.
    """

    mixture: Mixture
    zero: bool = False

    @property
    def mirrored(self) -> bool:
        """The level below l_1 is -l_1."""
        return self.mixture.folded and not self.zero

    def ends(self, free: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The neighbours below and above each free level, as places of the distribution."""
        below = np.append(0.0 if self.mixture.folded else -1.0, free)
        return below[:-1], np.append(free, 1.0)[1:]

    def value(self, free: np.ndarray) -> float:
        """Psi: the integral of (b - r)(r - a) over all r between levels a and b.

        Parameters
        ----------
        free : ndarray of float64, shape (s,)
        """
        low, high = np.append(0.0 if self.mixture.folded else -1.0, free), np.append(free, 1.0)
        moments, level = self.mixture.between(low, high), low
        if self.mirrored:
            level = np.append(-high[0], low[1:])
        terms = (level + high) * moments.first - level * high * moments.mass - moments.second
        return float(np.cumsum(terms)[-1])

    def gradient(self, free: np.ndarray, some: "slice | np.ndarray" = slice(None)
                 ) -> tuple[np.ndarray, np.ndarray]:
        """First and second derivative by each of some free levels (equations 6, 30 and 37).

        Parameters
        ----------
        free : ndarray of float64, shape (s,)
        some : slice or ndarray of int64
            The levels of interest, rising.
        """
        below, above = (ends[some] for ends in self.ends(free))
        level, count = free[some], free[some].size
        moments = self.mixture.between(np.append(below, level), np.append(level, above))
        slope = moments.first[:count] - below * moments.mass[:count]
        density = self.mixture.density(level)
        curvature = (above - below) * density
        if self.mirrored and count and np.arange(free.size)[some][0] == 0:
            slope[0] = 2 * level[0] * moments.mass[0]
            curvature[0] = (level[0] + above[0]) * density[0] + 2 * moments.mass[0]
        return slope - (above * moments.mass[count:] - moments.first[count:]), curvature

    def probabilities(self, free: np.ndarray) -> np.ndarray:
        """Expected share of every level, the fixed ones included (Propositions 6 and 8; in closed
        form Corollaries 3 and 4): of magnitudes if the distribution is folded.

        Without a zero level, l_1's includes that of -l_1, and so on.
        """
        low, high = np.append(0.0 if self.mixture.folded else -1.0, free), np.append(free, 1.0)
        moments = self.mixture.between(low, high)
        up = (moments.first - low * moments.mass) / (high - low)
        shares = np.append(moments.mass - up, 0.0) + np.append(0.0, up)
        # Between -l_1 and l_1 every value becomes the magnitude l_1.
        return np.append(shares[0] + shares[1], shares[2:]) if self.mirrored else shares


def coordinate_descent(objective: Objective, starts: list[np.ndarray]) -> np.ndarray:
    """Free levels by coordinate descent (equations 5, 31, 34 and 35).

    The levels of odd numbers are updated at once, then those of even numbers: neither depends on
    its own kind. Of several starts, the one that is best after a few sweeps goes on.

    Parameters
    ----------
    objective : Objective
    starts : list of ndarray of float64, shape (s,)

    Returns
    -------
    free : ndarray of float64, shape (s,)
    """
    if not starts[0].size:
        return starts[0]
    tried = []
    for start in starts:
        for _ in range(TRIAL_SWEEPS):
            start = sweep(objective, start)
        tried.append(start)
    free, change = min(tried, key=objective.value), 0.0
    for _ in range(MAX_SWEEPS):
        # Levels that the next sweep will move anyway need few digits more than it moves them.
        before, free = free, sweep(objective, free, max(change, ACCURACY) / 100)
        change = float(np.max(np.abs(free - before)))
        if change < ACCURACY:
            break
    return free


def sweep(objective: Objective, free: np.ndarray, accuracy: float = ACCURACY / 100) -> np.ndarray:
    """Move every free level once to its best place between its neighbours.

    Parameters
    ----------
    objective : Objective
    free : ndarray of float64, shape (s,)
    accuracy : float
        Of the places.

    Returns
    -------
    free : ndarray of float64, shape (s,)
    """
    for first in (0, 1):
        free = _best_between(objective, free, np.arange(first, free.size, 2), accuracy)
    return free


def _best_between(objective, free, some, accuracy):
    """Levels of which some are where their derivative is 0, by Newton's method within a bisection.
    A level with no mass around it stays.
    """
    low, high = (ends[some] for ends in objective.ends(free))
    free = free.copy()
    for step in range(100 if some.size else 0):
        slope, curvature = objective.gradient(free, some)
        here = free[some]
        low, high = np.where(slope < 0, here, low), np.where(slope > 0, here, high)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            newton = here - slope / curvature
        # In the tails Newton's steps are short; every third step halves the interval.
        inside = (newton > low) & (newton < high) & (step % 3 < 2)
        # A step within the last digits may end on the edge of the interval.
        there = (slope == 0) | (np.abs(newton - here) < accuracy)
        free[some] = moved = np.where(inside, newton, np.where(there, here, (low + high) / 2))
        going = ~there & (np.abs(moved - here) >= accuracy)
        some, low, high = some[going], low[going], high[going]
        if not some.size:
            break
    return free


def gradient_descent(objective: Objective, free: np.ndarray) -> np.ndarray:
    """Free levels by gradient descent without projection (equations 7 and 36).

    The paper leaves the rate eta(t) open. Here it begins at 1, for levels and Psi have no unit. It
    grows by a quarter after a step that lowers Psi, else the step is not taken and it is halved.

    Parameters
    ----------
    objective : Objective
    free : ndarray of float64, shape (s,)
        Where it begins.
    """
    best, rate = objective.value(free), 1.0
    for _ in range(DESCENT_STEPS if free.size else 0):
        slope, _ = objective.gradient(free)
        below, above = objective.ends(free)
        room = np.minimum(free - below, above - free) / 2
        moved = free - np.sign(slope) * np.minimum(rate * np.abs(slope), room)
        if np.max(np.abs(moved - free)) < ACCURACY:
            break
        if (value := objective.value(moved)) < best:
            free, best, rate = moved, value, 1.25 * rate
        else:
            rate /= 2
    return free


def multiplier_slope(objective: Objective, p: float, count: int) -> float:
    """Derivative of Psi by the multiplier p of the magnitudes p**s, ..., p, 1, s = ``count`` - 1.

    It is the sum of j p**(j - 1) dPsi/dl over the levels l = p**j. For levels without zero this is
    equation 8 times 2. The form of appendix C.3 lacks the factor 1/2 on its left side.
    """
    powers = np.arange(count - 1, 0, -1)
    slope, _ = objective.gradient(p ** powers.astype(np.float64))
    return float(np.cumsum(powers * p ** (powers - 1.0) * slope)[-1])


def best_multiplier(objective: Objective, count: int, *starts: float) -> float:
    """The multiplier of the least expected variance, by gradient descent from several starts.

    Parameters
    ----------
    objective : Objective
        Symmetric.
    count : int
        Magnitudes, at least 2.
    *starts : float
        Starts besides the usual ones.

    Returns
    -------
    p : float
        At least as great as 2**(-28 / (count - 1)), so that no level is below 2**-28, and below 1.
    """
    least, most = 2.0 ** (-28 / (count - 1)), 1 - 2.0**-10

    def value(p):
        return objective.value(p ** np.arange(count - 1.0, 0, -1))

    tried = [min(max(start, least), most) for start in (*FIRST_MULTIPLIERS, *starts)]
    p = min(tried, key=value)
    best, rate = value(p), 1.0
    for _ in range(DESCENT_STEPS):
        slope = multiplier_slope(objective, p, count)
        trial = min(max(p - rate * slope, least), most)
        if abs(trial - p) < ACCURACY:
            break
        if (cost := value(trial)) < best:
            p, best, rate = trial, cost, 1.5 * rate
        else:
            rate /= 4
    return p


def dense_start(mixture: Mixture, count: int) -> np.ndarray:
    """Free levels whose number per length is as the cube root of the density: the limit of the
    optimum for many levels, where an interval of the length h costs h^3 p / 6.

    Parameters
    ----------
    mixture : Mixture
    count : int
    """
    least = 0.0 if mixture.folded else -1.0
    reach = np.max(np.abs(mixture.means) + 9 * mixture.deviations)
    inner = np.linspace(max(least, -reach), min(1.0, reach), 513)
    grid = np.unique(np.concatenate([[least], inner, [1.0]]))
    middles, lengths = (grid[1:] + grid[:-1]) / 2, np.diff(grid)
    parts = np.cumsum(np.append(0.0, np.cbrt(mixture.density(middles)) * lengths))
    return np.interp(np.arange(1, count + 1) / (count + 1) * parts[-1], parts, grid)
