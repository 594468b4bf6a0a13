"""Polynomials in place of a loss's derivative, estimated without bias from quantized rows.

Sections 4.1 to 4.3 of the ZipML paper. A classification loss l(z) of the margin z = y (a . x) has
the gradient ``l'(z) y a``. If P is close to l' on the interval that margins are limited to, then d
independent roundings of the row give an unbiased estimate of P(z), and one more rounding of the row
to multiply it with gives the gradient, biased by no more than P is wrong.
"""

from dataclasses import dataclass, field
from functools import cached_property
from math import comb

import numpy as np
from numpy.polynomial import chebyshev

from bitstep.checks import check_choice, check_integer

FORMS = ("monomial", "chebyshev", "symmetric")


@dataclass(frozen=True, eq=False)
class Polynomial:
    """A polynomial of the margin on ``[centre - half_width, centre + half_width]``.

    Parameters
    ----------
    coefficients : ndarray of float64, shape (degree + 1,)
        Of the Chebyshev polynomials T_0, T_1, ... in ``t = (z - centre) / half_width``.
    centre, half_width : float
        In units of the margin; ``half_width`` is positive.
    error : float
        Largest deviation from the derivative where that is approximated.

    Raises
    ------
    ValueError
        If there is no coefficient or ``half_width`` is not positive.
    """

    coefficients: np.ndarray = field(repr=False)
    centre: float
    half_width: float
    error: float

    def __post_init__(self):
        if self.coefficients.ndim != 1 or not self.coefficients.size:
            raise ValueError("coefficients must have shape (degree + 1,), not "
                             f"{self.coefficients.shape}")
        if not self.half_width > 0:
            raise ValueError(f"half_width must be positive, not {self.half_width}")

    @property
    def degree(self) -> int:
        """Degree, and number of independent margins that :meth:`estimate` takes."""
        return len(self.coefficients) - 1

    def __call__(self, margins: np.ndarray) -> np.ndarray:
        """Values at margins of any shape; they grow fast outside the interval."""
        return chebyshev.chebval((margins - self.centre) / self.half_width, self.coefficients)

    def estimate(self, margins: np.ndarray, form: str = "symmetric") -> np.ndarray:
        """Unbiased estimates of the value at a margin that is only known by independent samples.

        If t_1 .. t_d are independent and all have the mean t, the product of j of them has the mean
        t^j, because the mean of a product of independent variables is the product of their means.
        So whatever is a sum of products of *different* samples, and becomes P when all samples are
        equal, has the mean P(t). Three such sums:

        - ``monomial`` is the paper's, ``sum_k m_k prod_(j <= k) t_j`` (section 4.1), with m_k the
          coefficients of t^k. These are as large as 10^3 with alternating signs even where P is at
          most 1, and samples that differ do not let them cancel.
        - ``chebyshev`` is Chebyshev's recursion, each step with a new sample: ``T_(k+1) =
          2 t_(k+1) T_k - T_(k-1)``. T_k depends on t_1 .. t_k only, so the product has the product
          of the means, and no large coefficients appear.
        - ``symmetric`` is the mean of either over all orders of the samples, so its variance is the
          smallest of the three. The only symmetric sum is the polar form (blossom) of P, which
          de Casteljau's algorithm gives in d (d + 1) / 2 steps, one sample for each round.

        Samples may lie outside the interval: the mean stays, the variance grows.

        Parameters
        ----------
        margins : ndarray of float64, shape (degree, ...)
            Independent along the first axis, with equal means.
        form : {"monomial", "chebyshev", "symmetric"}

        Returns
        -------
        ndarray of float64, shape (...)

        Raises
        ------
        ValueError
            If the form is unknown or the first axis has another length.
        """
        check_choice("form", form, FORMS)
        margins = np.asarray(margins, np.float64)
        if margins.ndim < 1 or len(margins) != self.degree:
            raise ValueError(f"margins must have {self.degree} independent samples along the first "
                             f"axis, not shape {margins.shape}")
        t = (margins - self.centre) / self.half_width
        if form == "monomial":
            return _monomial(self.monomials, t)
        if form == "chebyshev":
            return _chebyshev(self.coefficients, t)
        return _symmetric(self.controls, t)

    @cached_property
    def monomials(self) -> np.ndarray:
        """Coefficients m_0 .. m_degree of the powers of t."""
        powers = np.zeros(self.degree + 1)
        found = chebyshev.cheb2poly(self.coefficients)
        powers[:len(found)] = found             # cheb2poly drops zeros at the end
        return powers

    @cached_property
    def controls(self) -> np.ndarray:
        """Coefficients of the Bernstein polynomials of the interval, shape (degree + 1,)."""
        # From one degree to the next, weighted means only; T_n enters at its own degree, where its
        # coefficients are integer ratios. By way of powers of t, nine digits would be lost.
        points = np.zeros(0)
        for n, coefficient in enumerate(self.coefficients):
            share = np.arange(n + 1) / max(n, 1)
            points = share * np.append(0.0, points) + (1 - share) * np.append(points, 0.0)
            points = points + coefficient * np.array(
                [(-1) ** (n - i) * comb(2 * n, 2 * i) / comb(n, i) for i in range(n + 1)])
        return points


def _monomial(powers, t):
    result = np.full(t.shape[1:], powers[-1])
    for power, sample in zip(powers[-2::-1], t[::-1], strict=True):
        result = power + sample * result
    return result


def _chebyshev(coefficients, t):
    before, now = np.zeros(t.shape[1:]), np.ones(t.shape[1:])
    result = coefficients[0] * now
    for number, (coefficient, sample) in enumerate(zip(coefficients[1:], t, strict=True)):
        before, now = now, (1 if number == 0 else 2) * sample * now - before
        result = result + coefficient * now
    return result


def _symmetric(controls, t):
    points = controls.reshape(-1, *[1] * (t.ndim - 1))
    for weight in (t + 1) / 2:
        points = points[:-1] + weight * (points[1:] - points[:-1])
    return np.broadcast_to(points[0], t.shape[1:])


def logistic_derivative(radius: float, degree: int = 15) -> Polynomial:
    """The derivative -1 / (1 + exp(z)) of the logistic loss log(1 + exp(-z)), for |z| <= radius.

    It is analytic but for poles at odd multiples of i pi, so interpolation at the Chebyshev points
    converges like ``rho ** -degree`` with ``rho = (pi + sqrt(pi**2 + radius**2)) / radius``.

    Parameters
    ----------
    radius : float
        Limit of the margins; positive.
    degree : int
        At least 1; the paper has 15.

    Returns
    -------
    Polynomial
        ``error`` is the largest deviation on [-radius, radius].

    Raises
    ------
    ValueError
        If radius or degree is out of range.
    """
    _check(radius, degree)

    def derivative(t):
        return 0.5 * np.tanh(0.5 * radius * t) - 0.5

    coefficients = chebyshev.chebinterpolate(derivative, degree)
    t = np.linspace(-1, 1, 8001)
    error = np.abs(chebyshev.chebval(t, coefficients) - derivative(t)).max()
    return Polynomial(coefficients, 0.0, float(radius), float(error))


def hinge_derivative(radius: float, gap: float, degree: int = 15) -> Polynomial:
    """The derivative of the hinge loss max(0, 1 - z), a step from -1 to 0 at z = 1.

    The polynomial stands for it where |z| <= radius and |z - 1| >= gap.

    Best approximation in the largest deviation, by Remez's exchange of extremes. For an odd degree
    2 m + 1 and a = gap / (radius + 1) the deviation approaches ``(1 - a) / sqrt(4 pi a m) *
    ((1 - a) / (1 + a)) ** m`` (Eremenko and Yuditskii, Journal d'Analyse Mathematique 101, 2007).

    Parameters
    ----------
    radius : float
        Limit of the margins; positive.
    gap : float
        Half of the interval around the step where nothing is asked of the polynomial; positive and
        less than ``radius + 1``. There it rises from -1 to 0, within ``error``.
    degree : int
        At least 1; an even degree is that of the odd polynomial below it.

    Returns
    -------
    Polynomial
        Its interval is that of 1 - z, symmetric about the step: ``1 +- (radius + 1)``.

    Raises
    ------
    ValueError
        If radius, gap or degree is out of range.
    """
    _check(radius, degree)
    if not 0 < gap < radius + 1:
        raise ValueError(f"gap must be above 0 and below radius + 1 = {radius + 1}, not {gap}")
    odd, error = _best_sign(gap / (radius + 1), (degree + 1) // 2)
    coefficients = np.zeros(degree + 1)
    coefficients[0] = -0.5
    coefficients[1:2 * len(odd):2] = odd / 2
    return Polynomial(coefficients, 1.0, float(radius + 1), error / 2)


def _best_sign(low, terms):
    """Chebyshev coefficients of T_1, T_3, ... closest to 1 on [low, 1], and the deviation."""
    # x times a polynomial in x^2: the Chebyshev points of x^2 are close to the extremes.
    angles = np.linspace(0, np.pi, max(4000, 40 * terms))
    grid = np.sqrt((1 + low ** 2) / 2 - (1 - low ** 2) / 2 * np.cos(angles))
    basis = np.cos(np.arccos(np.minimum(grid, 1))[:, None] * (2 * np.arange(terms) + 1))
    signs = (-1.0) ** np.arange(terms + 1)
    chosen = np.round(np.linspace(0, len(grid) - 1, terms + 1)).astype(int)
    while True:
        system = np.column_stack([basis[chosen], signs])
        *odd, level = np.linalg.solve(system, np.ones(terms + 1))
        deviation = basis @ odd - 1
        if np.abs(deviation).max() <= abs(level) * (1 + 1e-9) + 1e-12:
            break
        # The new points are the extremes between changes of sign.
        pieces = np.split(np.arange(len(grid)), np.flatnonzero(np.diff(deviation > 0)) + 1)
        assert len(pieces) == terms + 1, "the deviation must alternate"
        chosen = np.array([piece[np.abs(deviation[piece]).argmax()] for piece in pieces])
    return np.array(odd), float(np.abs(deviation).max())


def _check(radius, degree):
    if not (np.isfinite(radius) and radius > 0):
        raise ValueError(f"radius must be positive and finite, not {radius}")
    check_integer("degree", degree, 1)
