"""Theory of DQ-SGD: eq. 16 and 17, Theorems 1 to 3, and eq. 23 as printed."""

import numpy as np
import pytest

from bitstep_gradients import Key, make_codec
from bitstep_gradients.control import schedule

STEPS, ALPHA = 1000, 0.994
NORMS = np.exp(-2 * np.linspace(0, 1, STEPS))
ERROR = STEPS / 25          # sqrt(T / error) = 5


@pytest.mark.parametrize("error", [ERROR, ERROR / 100, ERROR / 1e4])
def test_constraint_before_and_after_rounding(error):
    bits = schedule.real_bits(NORMS, ALPHA, error)
    assert schedule.schedule_error(bits, NORMS, ALPHA) == pytest.approx(error, rel=1e-9)
    rounded = schedule.rounded_bits(bits)
    assert rounded.min() >= 2
    assert rounded.max() <= 8
    assert 0 < schedule.schedule_error(rounded, NORMS, ALPHA) <= error
    nearest = np.maximum(np.rint(bits), 2)
    if error < ERROR:       # to nearest is no rounding rule that keeps it
        assert schedule.schedule_error(nearest, NORMS, ALPHA) > error


def test_mean_bits_are_near_the_optimum():
    bits = schedule.real_bits(NORMS, ALPHA, ERROR)
    best = schedule.optimal_bits(NORMS, ALPHA, ERROR)
    assert schedule.schedule_error(best, NORMS, ALPHA) == pytest.approx(ERROR, rel=1e-6)
    assert bits.mean() == pytest.approx(1.5074, abs=5e-5)
    assert best.mean() == pytest.approx(1.5041, abs=5e-5)
    assert best.mean() <= bits.mean() <= 1.005 * best.mean()
    assert schedule.rounded_bits(bits).mean() == 2


def test_optimum_beats_neighbours():
    """No exchange of bits between two steps keeps the error with fewer bits."""
    rng = np.random.default_rng(0)
    norms = rng.uniform(0.1, 3, 30)
    best = schedule.optimal_bits(norms, 0.95, 0.5)
    for _ in range(200):
        change = rng.normal(size=30)
        other = best + 1e-3 * (change - change.mean())
        assert schedule.schedule_error(other, norms, 0.95) > 0.5 * (1 - 1e-9)


@pytest.mark.parametrize("steps, alpha, saved", [(1000, 0.994, 0.874), (6000, 0.999, 0.870)])
def test_saved_bits_of_theorem_2(steps, alpha, saved):
    assert schedule.saved_bits(steps, alpha) == pytest.approx(saved, abs=5e-4)
    assert schedule.saved_bits(steps, 1.0) == 0
    # by eq. 17 itself, at constant norms and so many bits that M + 1 is M
    norms, bits = np.ones(steps), 20
    error = schedule.fixed_error(bits, 1, steps, alpha)
    assert error == pytest.approx(schedule.schedule_error(np.full(steps, bits), norms, alpha))
    found = schedule.real_bits(norms, alpha, error)
    assert bits - found.mean() == pytest.approx(saved, abs=1e-3)


@pytest.mark.parametrize("norm", [10, 0.1])
def test_noise_of_rounding_has_the_norm_squared(norm):
    """Lemma 1, at values in the middle between levels, where it is an equality but for the one
    value that sets the scale. Eq. 23 as printed, without the square, fails.
    """
    size, workers, bits = 1024, 4, 3
    codec = make_codec("qsgd-linf", bits=bits)
    vector = np.full(size, norm * 0.5, np.float32)
    vector[0] = norm
    errors = []
    for step in range(60):
        keys = [Key(0, step, rank) for rank in range(workers)]
        mean = np.mean([codec.decode(codec.encode(vector, key), key) for key in keys], axis=0)
        errors.append(np.sum((mean - vector)**2))
    noise = schedule.quantization_noise(size, workers, bits, norm)
    assert np.mean(errors) == pytest.approx(noise, rel=0.02)
    printed = noise / norm
    assert not np.isclose(np.mean(errors), printed, rtol=0.5)


def test_bound_is_tight_for_isotropic_quadratics():
    """Theorem 3: second moments of SGD on lambda |x|^2 / 2, step by step."""
    curvature, step_size, moment = 0.7, 0.2, 5.0
    noises = np.random.default_rng(1).uniform(0, 3, 50)
    first = curvature * moment / 2
    for noise in noises:
        moment = (1 - step_size * curvature)**2 * moment + step_size**2 * noise
    assert schedule.convergence_bound(first, noises, step_size, curvature, curvature) == \
        pytest.approx(curvature * moment / 2)


def test_estimated_alpha():
    assert schedule.estimated_alpha(2.0 * 0.97**40, 2.0, 40) == pytest.approx(0.97)
    assert schedule.estimated_alpha(3.0, 2.0, 40) == 1
    assert schedule.estimated_alpha(0.0, 2.0, 40) == 1e-3
    assert schedule.estimated_alpha(0.0, 0.0, 40) == 1      # it has not fallen


def test_powers_and_roots():
    exponents = np.arange(2000)
    assert schedule.powers(0.994, exponents) == pytest.approx(0.994**exponents, rel=1e-12)
    assert schedule.powers(0.994, np.array([777]))[0] == schedule.powers(0.994, exponents)[777]
    assert schedule.root(0.3, 17)**17 == pytest.approx(0.3)
    assert schedule.power_of_two(-0.37) == pytest.approx(2**-0.37, rel=1e-12)
    assert schedule.power_of_two(0) == 1
    assert [schedule.log2_of(value) for value in (0.25, 1, 8)] == [-2, 0, 3]
    assert schedule.log2_of(1e-300) == pytest.approx(np.log2(1e-300), abs=0.09)
    assert schedule.step_weights(np.array([0, 9, 12]), 10, 0.5).tolist() == [0.5**9, 1, 1]
