"""Polynomials for derivatives: how close, how unbiased, how noisy."""

import math

import numpy as np
import pytest
from numpy.polynomial import Polynomial as Powers

from bitstep_lab.negative_results.chebyshev import (
    FORMS,
    Polynomial,
    hinge_derivative,
    logistic_derivative,
)


def cubic():
    # T_0 + 2 T_1 - T_2 + 0.5 T_3 in t = (z - 1) / 2, which is 2 + 0.5 t - 2 t^2 + 2 t^3
    return Polynomial(np.array([1.0, 2.0, -1.0, 0.5]), 1.0, 2.0, 0.0)


def test_by_hand():
    polynomial = cubic()
    assert polynomial.monomials == pytest.approx([2, 0.5, -2, 2])
    assert polynomial(np.array([1.0, 3.0, -1.0])) == pytest.approx([2, 2.5, -2.5])
    # z = 3, 2, 0 are t = 1, 1/2, -1/2
    margins = np.array([3.0, 2.0, 0.0])
    assert polynomial.estimate(margins, "monomial") == pytest.approx(
        2 + 0.5 * 1 - 2 * (1 * 0.5) + 2 * (1 * 0.5 * -0.5))
    # T_2 = 2 (1/2) 1 - 1 = 0, T_3 = 2 (-1/2) 0 - 1 = -1
    assert polynomial.estimate(margins, "chebyshev") == pytest.approx(1 + 2 * 1 - 0 + 0.5 * -1)
    # t becomes (t1 + t2 + t3) / 3 = 1/3, t^2 the mean of the pairs' products, -1/12
    assert polynomial.estimate(margins, "symmetric") == pytest.approx(
        2 + 0.5 / 3 - 2 * (0.5 - 0.5 - 0.25) / 3 + 2 * -0.25)


def test_bernstein_coefficients_are_values_at_the_ends():
    polynomial = cubic()
    # The polar form at i times the upper and 3 - i times the lower end, by hand from the powers
    assert polynomial.controls == pytest.approx([-2.5, 2 - 0.5 / 3 + 2 / 3 + 2,
                                                 2 + 0.5 / 3 + 2 / 3 - 2, 2.5])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("degree", [1, 2, 15, 16])
def test_equal_samples_give_the_value(form, degree):
    for polynomial in (logistic_derivative(8.0, degree), hinge_derivative(3.0, 0.5, degree)):
        margins = np.linspace(-3, 3, 61).reshape(61, 1)
        found = polynomial.estimate(np.tile(margins, (degree, 1, 1)), form)
        assert found.shape == margins.shape
        np.testing.assert_allclose(found, polynomial(margins), atol=1e-10)


@pytest.mark.parametrize("degree", [1, 3, 5])
def test_symmetric_form_does_not_depend_on_order(degree):
    polynomial, rng = logistic_derivative(4.0, degree), np.random.default_rng(0)
    margins = rng.uniform(-6, 6, degree)        # beyond the interval as well
    expected = polynomial.estimate(margins)
    for _ in range(5):
        assert polynomial.estimate(rng.permutation(margins)) == pytest.approx(expected, abs=1e-12)


def estimates(form, polynomial, margin, deviation, count):
    """Estimates from samples that are the margin plus or minus the deviation."""
    rng = np.random.default_rng(1)
    signs = rng.integers(0, 2, (polynomial.degree, count)) * 2.0 - 1
    return polynomial.estimate(margin + deviation * signs, form)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("margin", [-6.0, 0.0, 3.0])
def test_estimates_are_unbiased(form, margin):
    polynomial = logistic_derivative(8.0)
    found = estimates(form, polynomial, margin, 0.5, 60_000)
    # Six standard errors. The derivative's range is 1; monomials are the noisiest, far from 0.
    tolerance = 6 * found.std() / math.sqrt(found.size)
    assert tolerance < (0.05 if form == "monomial" else 0.003)
    assert found.mean() == pytest.approx(float(polynomial(np.array(margin))), abs=tolerance)


def test_equal_use_of_one_sample_is_biased():
    # What the estimator avoids: by 3.5 and 2.5 instead of 3, (P(3.5) + P(2.5)) / 2 - P(3).
    polynomial = logistic_derivative(8.0)
    rng = np.random.default_rng(0)
    noisy = polynomial(3.0 + 0.5 * (rng.integers(0, 2, 60_000) * 2.0 - 1))
    bias = noisy.mean() - float(polynomial(np.array(3.0)))
    assert bias == pytest.approx(-0.0044, abs=6 * noisy.std() / math.sqrt(noisy.size))
    assert abs(bias) > 5e-3 - 6 * noisy.std() / math.sqrt(noisy.size)


@pytest.mark.parametrize("margin", [0.0, 3.0, 6.0])
def test_variances_are_those_of_theory(margin):
    polynomial, deviation = logistic_derivative(8.0), 0.5
    t, s = margin / 8, deviation / 8
    m, d = polynomial.monomials, polynomial.degree
    # Products of the first i and l samples share min(i, l) of them.
    monomial = sum(m[i] * m[j] * (t * t + s * s) ** min(i, j) * t ** abs(i - j)
                   for i in range(d + 1) for j in range(d + 1)) - Powers(m)(t) ** 2
    # Polar form: k noisy arguments contribute the k-th derivative, (d - k)! / d! of it.
    symmetric = sum(s ** (2 * k) * Powers(m).deriv(k)(t) ** 2 * math.factorial(d - k)
                    / (math.factorial(d) * math.factorial(k)) for k in range(1, d + 1))
    found = {form: estimates(form, polynomial, margin, deviation, 60_000).var() for form in FORMS}
    assert found["symmetric"] == pytest.approx(symmetric, rel=0.1)
    assert found["monomial"] == pytest.approx(monomial, rel=0.1)
    assert found["symmetric"] < found["chebyshev"] < found["monomial"]


@pytest.mark.parametrize("radius, error", [(4.0, 6.2e-6), (8.0, 1.39e-3), (16.0, 2.81e-2)])
def test_logistic_error(radius, error):
    polynomial = logistic_derivative(radius)
    assert polynomial.degree == 15
    assert polynomial.error == pytest.approx(error, rel=0.01)
    margins = np.linspace(-radius, radius, 999)
    assert np.abs(polynomial(margins) + 1 / (1 + np.exp(margins))).max() <= polynomial.error * 1.001
    # Trefethen, Approximation Theory and Practice, theorem 8.2: 4 M rho^-d / (rho - 1) for
    # interpolation, M the largest value on the ellipse whose half axes have the sum rho: the
    # smaller half axis, (rho - 1 / rho) / 2, stays below the pole at pi i.
    for share in (0.5, 0.9, 0.99):
        half_axis = share * math.pi / radius
        rho = half_axis + math.sqrt(half_axis ** 2 + 1)
        angle = np.linspace(0, 2 * np.pi, 2001)
        ellipse = radius * (rho * np.exp(1j * angle) + np.exp(-1j * angle) / rho) / 2
        bound = 4 * np.abs(1 / (1 + np.exp(ellipse)) - 0.5).max() * rho ** -15.0 / (rho - 1)
        assert polynomial.error < bound


def test_logistic_error_falls_as_the_poles_say():
    radius = 8.0
    rho = (math.pi + math.hypot(math.pi, radius)) / radius
    errors = [logistic_derivative(radius, degree).error for degree in (15, 25, 35)]
    assert errors[1] / errors[0] == pytest.approx(rho ** -10, rel=0.05)
    assert errors[2] / errors[1] == pytest.approx(rho ** -10, rel=0.05)


def test_logistic_coefficients():
    # Even ones vanish but for the mean, -1/2. The others are those of the series, which
    # Gauss-Chebyshev quadrature gives, but for what interpolation folds back on them.
    coefficients = logistic_derivative(4.0).coefficients
    assert coefficients[::2] == pytest.approx([-0.5, *[0] * 7], abs=1e-14)
    angles = (np.arange(4000) + 0.5) * np.pi / 4000
    for number in range(1, 16, 2):
        series = 2 * np.mean(np.cos(number * angles) / -(1 + np.exp(4 * np.cos(angles))))
        assert coefficients[number] == pytest.approx(series, abs=1e-5)
    assert coefficients[[1, 3, 5]] == pytest.approx([0.558971, -0.094371, 0.021502], abs=1e-6)


@pytest.mark.parametrize("radius, gap", [(3.0, 0.4), (8.0, 0.9)])
def test_hinge_alternates(radius, gap):
    # Best approximation: the deviation takes its largest magnitude 9 times on each side of the
    # step, with alternating signs (8 odd coefficients; Chebyshev's theorem).
    polynomial = hinge_derivative(radius, gap)
    above = np.linspace(1 + gap, 2 + radius, 20_001)
    deviation = polynomial(above)
    assert np.abs(deviation).max() == pytest.approx(polynomial.error, rel=1e-4)
    extremes = deviation[np.abs(deviation) > 0.999 * polynomial.error]
    assert np.count_nonzero(np.diff(np.sign(extremes))) == 8
    assert polynomial(2 - above) == pytest.approx(-1 - deviation, abs=1e-12)


def test_hinge_error_approaches_theory():
    radius, gap = 3.0, 0.4
    a, ratios = gap / (radius + 1), []
    for degree in (15, 31, 63, 127):
        m = (degree - 1) // 2
        theory = (1 - a) / math.sqrt(4 * math.pi * a * m) * ((1 - a) / (1 + a)) ** m
        ratios.append(hinge_derivative(radius, gap, degree).error / theory)
    # The ratio nears 1 like 1 - constant / m.
    assert 0.8 < ratios[0] < ratios[1] < ratios[2] < ratios[3] < 1
    assert 1 - ratios[3] == pytest.approx((1 - ratios[2]) / 2, rel=0.1)


def test_hinge_stays_in_range_across_the_gap():
    polynomial = hinge_derivative(3.0, 0.5)
    values = polynomial(np.linspace(0.5, 1.5, 501))
    assert (np.diff(values) > 0).all()
    assert values[250] == pytest.approx(-0.5)


@pytest.mark.parametrize("make, message", [
    (lambda: logistic_derivative(0.0), "radius must be positive and finite, not 0.0$"),
    (lambda: logistic_derivative(np.inf), "radius must be positive and finite, not inf$"),
    (lambda: logistic_derivative(1.0, 0), "degree must be an integer of at least 1, not 0$"),
    (lambda: logistic_derivative(1.0, 1.5),     # pyright: ignore[reportArgumentType]
     "degree must be an integer of at least 1, not 1.5$"),
    (lambda: hinge_derivative(-1.0, 0.1), "radius must be positive and finite, not -1.0$"),
    (lambda: hinge_derivative(1.0, 2.0), "gap must be above 0 and below radius .* 2.0, not 2.0$"),
    (lambda: hinge_derivative(1.0, 0.0), "gap must be above 0 and below radius .* 2.0, not 0.0$"),
    (lambda: cubic().estimate(np.zeros((3, 2)), "horner"),
     "form must be one of monomial, chebyshev, symmetric, not 'horner'$"),
    (lambda: cubic().estimate(np.zeros((2, 3))), r"margins must have 3 .*, not shape \(2, 3\)$"),
    (lambda: Polynomial(np.zeros((2, 2)), 0.0, 1.0, 0.0),
     r"coefficients must have shape \(degree \+ 1,\), not \(2, 2\)$"),
    (lambda: Polynomial(np.zeros(2), 0.0, 0.0, 0.0), "half_width must be positive, not 0.0$"),
])
def test_errors(make, message):
    with pytest.raises(ValueError, match=message):
        make()
