"""Fits of levels: formulas against integrals and differences; where the ALQ paper's are wrong as
printed, the printed ones fail.
"""

from itertools import pairwise
from math import erf, sqrt

import numpy as np
import pytest

from bitstep_gradients.codecs.levels.distribution import Mixture
from bitstep_gradients.codecs.levels.fitting import (
    Objective,
    best_multiplier,
    coordinate_descent,
    dense_start,
    gradient_descent,
    multiplier_slope,
    sweep,
)

PARTS = (np.array([0.0, -0.3, 0.9]), np.array([0.02, 0.4, 0.3]), np.array([0.2, 0.5, 0.3]))
GAUSSIAN = 1 / 90.51            # sigma of values divided by their L2 norm, 8,192 of them
FREE = np.array([0.05, 0.2, 0.7])


def integral(function, low, high, count=20_001):
    """Simpson's rule."""
    x = np.linspace(low, high, count)
    weights = np.ones(count)
    weights[1:-1:2], weights[2:-1:2] = 4, 2
    return float(np.sum(weights * function(x)) * (high - low) / (count - 1) / 3)


def one(sigma, *, folded, mean=0.0):
    return Mixture(np.array([mean]), np.array([sigma]), np.ones(1), folded)


def normal(mu, sigma):
    """p and F of the normal distribution that is cut to [-1, 1], by equations 13 to 17 without the
    1 / sigma too many of equation 16.
    """
    def whole(x):
        return 0.5 * (1 + erf((x - mu) / (sigma * sqrt(2))))

    mass = whole(1) - whole(-1)
    return (lambda x: np.exp(-0.5 * ((x - mu) / sigma)**2) / (sigma * sqrt(2 * np.pi)) / mass,
            lambda x: (whole(x) - whole(-1)) / mass)


@pytest.mark.parametrize("folded", [False, True])
def test_moments_by_integration(folded):
    mixture = Mixture(*PARTS, folded)
    edges = np.linspace(0 if folded else -1, 1, 8)
    found = mixture.between(edges[:-1], edges[1:])
    for i, (low, high) in enumerate(pairwise(edges)):
        for power, moments in enumerate((found.mass, found.first, found.second)):
            assert moments[i] == pytest.approx(integral(
                lambda x, power=power: x**power * mixture.density(x), low, high), abs=1e-10)
    assert found.mass.sum() == pytest.approx(1, abs=1e-14)


def test_tails_keep_their_digits():
    mixture = one(0.02, folded=False)
    low, high = np.array([0.5, -0.9]), np.array([0.9, -0.5])
    expected = 3.0567e-138                      # Phi(-25)
    assert mixture.between(low, high).mass == pytest.approx([expected] * 2, rel=1e-4)


def test_equation_16_as_printed_has_the_integral_1_over_sigma():
    p, _ = normal(0.1, 0.25)
    assert integral(p, -1, 1) == pytest.approx(1, abs=1e-9)
    assert integral(lambda x: p(x) / 0.25, -1, 1) == pytest.approx(4, abs=1e-8)
    x = np.linspace(-1, 1, 9)
    assert one(0.25, folded=False, mean=0.1).density(x) == pytest.approx(p(x))


@pytest.mark.parametrize("seed", range(12))
def test_no_sweep_raises_the_variance(seed):
    """Each level goes to its best place between its neighbours, however narrow the parts are."""
    rng = np.random.default_rng(seed)
    deviations = 10.0**rng.uniform(-3.5, -0.5, rng.integers(1, 6))
    folded = bool(seed % 2)
    objective = Objective(Mixture(0.3 * rng.normal(size=deviations.size) * deviations, deviations,
                                  np.full(deviations.size, 1 / deviations.size), folded),
                          zero=seed % 4 == 1)
    free = np.linspace(0 if folded else -1, 1, int(rng.integers(3, 10)))[1:-1]
    values = [objective.value(free)]
    for _ in range(12):
        free = sweep(objective, free)
        values.append(objective.value(free))
    assert (np.diff(values) <= 1e-9 * np.array(values[1:])).all()
    assert values[-1] < values[0]
    some = slice(1, None, 2) if free.size > 1 else slice(0, None, 2)
    slope, curvature = objective.gradient(free, some)       # the last ones that were moved
    assert (np.abs(slope) <= 1e-8 * curvature + 1e-12).all()


@pytest.mark.parametrize("folded, zero", [(False, False), (True, False), (True, True)])
def test_objective_and_its_gradient(folded, zero):
    """Psi by integration, its gradient by differences of Psi."""
    mixture = Mixture(*PARTS, folded)
    objective, free = Objective(mixture, zero), FREE if folded else np.array([-0.5, 0.1, 0.6])
    levels = np.append(free, 1.0)
    levels = np.concatenate([-levels[::-1], [0.0] * zero, levels]) if folded \
        else np.append(-1.0, levels)
    signed = Mixture(*PARTS)
    expected = sum(integral(lambda x, a=a, b=b: (b - x) * (x - a) * signed.density(x), a, b)
                   for a, b in pairwise(levels))
    assert objective.value(free) == pytest.approx(expected, rel=1e-9)
    slope, curvature = objective.gradient(free)
    step = 1e-4 * np.eye(free.size)
    for j in range(free.size):
        more, less = objective.value(free + step[j]), objective.value(free - step[j])
        assert slope[j] == pytest.approx((more - less) / 2e-4, rel=1e-5, abs=1e-8)
        second = (more + less - 2 * objective.value(free)) / 1e-8
        assert curvature[j] == pytest.approx(second, rel=1e-3, abs=1e-6)


def test_the_first_level_of_b_3_1_lacks_a_term():
    """Half the derivative by l_1, one side of a symmetric density."""
    mu, sigma, (l1, l2) = 0.0, 0.2, FREE[:2]
    p, F = normal(mu, sigma)
    objective = Objective(one(sigma, folded=True))
    step = np.array([1e-5, 0, 0])
    expected = (objective.value(FREE + step) - objective.value(FREE - step)) / 4e-5
    printed = 2 * l1 * (F(l1) - F(0)) + (mu - l2) * (F(l2) - F(l1)) - sigma**2 * p(l2)
    assert objective.gradient(FREE)[0][0] / 2 == pytest.approx(expected, rel=1e-6)
    assert printed + sigma**2 * p(l1) == pytest.approx(expected, rel=1e-6)
    assert abs(printed - expected) > 0.5 * abs(expected)
    # Equation 25, for the other levels, is right.
    l3 = FREE[2]
    other = (mu - l1) * (F(l2) - F(l1)) + sigma**2 * (p(l1) - p(l3)) + (mu - l3) * (F(l3) - F(l2))
    assert objective.gradient(FREE)[0][1] / 2 == pytest.approx(other)


def test_the_multiplier_of_c_3_lacks_a_half():
    s, mu, sigma, q = 3, 0.0, 0.2, 0.4
    p, F = normal(mu, sigma)
    objective = Objective(one(sigma, folded=True))
    powers = np.arange(s, 0, -1)
    difference = (objective.value((q + 1e-6)**powers) - objective.value((q - 1e-6)**powers)) / 2e-6
    right = 2 * s * q**(2 * s - 1) * (F(q**s) - F(0)) + sum(
        (mu * (j * q**(j - 1) + (j + 1) * q**j) - (2 * j + 1) * q**(2 * j))
        * (F(q**j) - F(q**(j + 1)))
        + sigma**2 * (j * q**(j - 1) + (j + 1) * q**j) * (p(q**(j + 1)) - p(q**j))
        for j in range(s))
    assert multiplier_slope(objective, q, s + 1) == pytest.approx(difference, rel=1e-6)
    assert 2 * right == pytest.approx(difference, rel=1e-6)
    assert abs(right - difference) > 0.4 * abs(difference)      # printed: right = dV / dp


def test_coordinate_descent_on_a_gaussian_bucket():
    """The fixed point of the ALQ paper's norm, from two starts."""
    objective = Objective(one(GAUSSIAN, folded=True))
    for start in (0.5 ** np.arange(3, 0, -1), np.array([1, 3, 5]) / 7):
        free = coordinate_descent(objective, [start])
        assert free / GAUSSIAN == pytest.approx([0.4386, 1.4462, 3.3732], abs=1e-4)
        assert 8192 * objective.value(free) == pytest.approx(0.2233, abs=1e-4)
    best = coordinate_descent(objective, [dense_start(objective.mixture, 3)])
    down = gradient_descent(objective, dense_start(objective.mixture, 3))
    assert objective.value(down) == pytest.approx(objective.value(best), rel=1e-6)
    # With 0 as the neighbour of l_1, though it is not a level, the levels are 41 % worse.
    wrong = coordinate_descent(Objective(objective.mixture, zero=True), [FREE])
    assert 8192 * objective.value(wrong) == pytest.approx(0.3146, abs=5e-4)


def test_best_multiplier_on_a_gaussian_bucket():
    objective = Objective(one(GAUSSIAN, folded=True))
    p = best_multiplier(objective, 4)
    assert p == pytest.approx(0.157, abs=5e-4)
    assert 8192 * objective.value(p ** np.arange(3.0, 0, -1)) == pytest.approx(0.5271, abs=2e-4)
    tried = np.linspace(0.02, 0.99, 500)
    assert objective.value(p ** np.arange(3.0, 0, -1)) <= min(
        objective.value(q ** np.arange(3.0, 0, -1)) for q in tried)


@pytest.mark.parametrize("folded, zero", [(False, False), (True, False), (True, True)])
@pytest.mark.parametrize("count", [1, 2, 6, 31])
def test_coordinate_descent_ends_where_no_level_can_improve(count, folded, zero):
    objective = Objective(Mixture(*PARTS, folded), zero)
    first = np.linspace(0 if folded else -1, 1, count + 2)[1:-1]
    free = coordinate_descent(objective, [first])
    assert (np.diff(free) > 0).all()
    assert np.abs(objective.gradient(free)[0]).max() < (1e-5 if count == 31 else 1e-8)
    assert objective.value(free) <= objective.value(first)


@pytest.mark.parametrize("seed", [4, 6, 8, 9])
def test_descent_goes_on_from_the_best_start(seed):
    """Of narrow peaks: the first start ends 1.2 to 12 times above another one's third sweep."""
    rng = np.random.default_rng(seed)
    objective = Objective(Mixture(rng.uniform(-0.9, 0.9, 3), 10.0**rng.uniform(-3, -1.5, 3),
                                  np.full(3, 1 / 3)))
    starts = [np.linspace(-1, 1, 6)[1:-1], np.sort(rng.uniform(-1, 1, 4)),
              dense_start(objective.mixture, 4)]
    swept = []
    for start in starts:
        for _ in range(3):
            start = sweep(objective, start)
        swept.append(objective.value(start))
    best = min(swept)
    assert objective.value(coordinate_descent(objective, starts)) <= best * (1 + 1e-9)
    assert objective.value(coordinate_descent(objective, starts[:1])) > 1.2 * best


@pytest.mark.parametrize("count", [3, 8, 20, 128])
def test_multiplier_of_a_point_has_a_least_level(count):
    """All values of a bucket are 0: its levels p**s .. p would fall without end."""
    mixture = Mixture.fitted(np.array([[0.0, 0, 1]]), by_norm=True, folded=True)
    assert mixture is not None
    p = best_multiplier(Objective(mixture), count)
    assert 2.0**(-28 / (count - 1)) <= p < 1
    assert p**(count - 1) >= 2.0**-28 * (1 - 1e-9)


def test_one_level_in_closed_form():
    """Corollary 2: F(b) = 1 - E R, for one level between 0 and 1; and equation 4 of the others."""
    objective = Objective(Mixture(*PARTS, True), zero=True)
    best = coordinate_descent(objective, [np.array([0.5])])
    whole = objective.mixture.between(np.zeros(1), np.ones(1))
    below = objective.mixture.between(np.zeros(1), best).mass
    assert below == pytest.approx(1 - whole.first, abs=1e-9)


@pytest.mark.parametrize("folded, zero", [(False, False), (True, False), (True, True)])
def test_shares_of_levels(folded, zero):
    """Propositions 6 and 8 against rounded draws."""
    mixture, rng = Mixture(*PARTS, folded), np.random.default_rng(5)
    objective, free = Objective(mixture, zero), FREE if folded else np.array([-0.5, 0.1, 0.6])
    found = objective.probabilities(free)
    assert found.sum() == pytest.approx(1)
    kind = rng.choice(3, 2_000_000, p=PARTS[2])
    draws = PARTS[0][kind] + PARTS[1][kind] * rng.normal(size=kind.size)
    keep = np.abs(draws) <= 1
    # A cut component keeps its weight: draws of it that are left count for those that are not.
    left = np.bincount(kind[keep], minlength=3)
    share = (PARTS[2] / left)[kind[keep]]
    draws = np.abs(draws[keep]) if folded else draws[keep]
    levels = np.concatenate([[0.0 if folded else -1.0], free, [1.0]])
    lower = np.searchsorted(levels, draws, side="right") - 1
    up = (draws - levels[lower]) / (levels[lower + 1] - levels[lower])
    if folded and not zero:                     # below l_1 everything has the magnitude l_1
        up[lower == 0], lower = 1.0, lower
    counted = np.bincount(lower, share * (1 - up), levels.size) \
        + np.bincount(lower + 1, share * up, levels.size)
    assert found == pytest.approx(counted[1:] if folded and not zero else counted, abs=2e-3)


def test_shares_in_closed_form():
    """Corollary 3: a normal distribution on [0, 1] would be cut there, so one far from 0 is."""
    mu, sigma = 0.5, 0.08
    p, F = normal(mu, sigma)
    l0, l1, l2 = 0.0, 0.4, 1.0
    middle = (sigma**2 * (p(l0) - p(l1)) + (mu - l0) * (F(l1) - F(l0))) / (l1 - l0) \
        + (sigma**2 * (p(l2) - p(l1)) + (l2 - mu) * (F(l2) - F(l1))) / (l2 - l1)
    found = Objective(one(sigma, folded=True, mean=mu), zero=True).probabilities(np.array([l1]))
    assert found[1] == pytest.approx(middle, abs=1e-8)
