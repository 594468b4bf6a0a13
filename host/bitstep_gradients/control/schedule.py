"""Theory of the DQ-SGD paper: bits of every step, their error and their cost.

With b bits a value has M = 2**(b - 1) - 1 levels on each side of zero (section IV.A). Step t of T
has the weight alpha**(T - 1 - t), so that the steps together have the error

    sum over t of alpha**(T - 1 - t) G_t**2 / M_t**2

G_t is the root mean square of the norms of all ranks' gradients. The paper's epsilon with a hat is
a budget of this error; its epsilon_Q is L d eta^2 / (8 W) times as much.

Two formulas are corrected. Eq. 23 has G_t where Lemma 1 and the error need G_t^2. Eq. 17 has no
rounding rule: rounded up the error stays within its budget, and no step has less than 2 bits,
because 1 bit has no level beside zero.
"""

from math import frexp, log2, sqrt

import numpy as np

MIN_BITS, MAX_BITS = 2, 8
LEVELS = np.array([2.0**(bits - 1) - 1 for bits in range(MIN_BITS, MAX_BITS + 1)])


def step_weights(steps: np.ndarray, total: int, alpha: float) -> np.ndarray:
    """Weights alpha**(T - 1 - t), by multiplications alone: the same on every machine.

    Parameters
    ----------
    steps : ndarray of integers
        t, from 0; steps after the last one have the weight 1.
    total : int
        T.
    alpha : float
        Greater than 0 and at most 1.

    Returns
    -------
    weights : ndarray of float64, shape of ``steps``
    """
    return powers(alpha, np.maximum(total - 1 - np.asarray(steps, np.int64), 0))


def powers(base: float, exponents: np.ndarray) -> np.ndarray:
    """base**exponent by squaring, for integer exponents that are not negative: float64."""
    rest = np.array(exponents, np.int64)
    product = np.ones(rest.shape)
    left = 0 if base == 1 else int(rest.max(initial=0))
    while left:
        np.multiply(product, base, out=product, where=(rest & 1).astype(bool))
        base *= base
        rest >>= 1
        left >>= 1
    return product


def root(value: float, degree: int) -> float:
    """The root of a number from 0 to 1, by bisection: the same on every machine."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if powers(middle, np.array(degree)) < value:
            low = middle
        else:
            high = middle
    return high


def log2_of(value: float) -> float:
    """Logarithm of a positive number to base 2, within .09, straight between powers of two: the
    same on every machine.
    """
    mantissa, exponent = frexp(value)
    return 2 * mantissa - 2 + exponent


def power_of_two(exponent: float) -> float:
    """2**exponent for an exponent from -1 to 0, by its series: the same on every machine."""
    total = 1.0
    for term in range(16, 0, -1):
        total = 1 + total * exponent * 0.6931471805599453 / term
    return total


def real_bits(norms: np.ndarray, alpha: float, error: float) -> np.ndarray:
    """Bits of every step by eq. 17, before rounding.

    Parameters
    ----------
    norms : ndarray of float64, shape (steps,)
        G_t of every step.
    alpha : float
    error : float
        Budget of :func:`schedule_error`; every step takes an equal share of it.

    Returns
    -------
    bits : ndarray of float64, shape (steps,)
        Not limited to :data:`MIN_BITS` or :data:`MAX_BITS`.
    """
    total = len(norms)
    weights = step_weights(np.arange(total), total, alpha)
    return np.log2(np.sqrt(total / error * weights) * norms + 1) + 1


def rounded_bits(bits: np.ndarray) -> np.ndarray:
    """Whole bits that keep the error: rounded up, from 2 to 8."""
    return np.clip(np.ceil(bits), MIN_BITS, MAX_BITS).astype(np.int64)


def schedule_error(bits: np.ndarray, norms: np.ndarray, alpha: float) -> float:
    """Error of all steps: left side of eq. 16 without its factor."""
    total = len(norms)
    weights = step_weights(np.arange(total), total, alpha)
    levels = 2.0**(np.asarray(bits) - 1) - 1
    return float(np.sum(weights * np.square(norms) / levels**2))


def optimal_bits(norms: np.ndarray, alpha: float, error: float) -> np.ndarray:
    """Real bits of the least sum that keep the budget: exact solution of eq. 16.

    The conditions of Karush, Kuhn and Tucker are M**3 = c (M + 1) with
    c = 2 ln 2 lambda alpha**(T - 1 - t) G_t**2. Eq. 17 takes M + 1 for M in them.

    Parameters
    ----------
    norms, alpha, error
        See :func:`real_bits`.

    Returns
    -------
    bits : ndarray of float64, shape (steps,)
    """
    total = len(norms)
    squares = step_weights(np.arange(total), total, alpha) * np.square(norms)

    def levels(multiplier):
        """The positive root of M**3 - c (M + 1) by Newton's method from above it."""
        factors = multiplier * squares
        roots = np.sqrt(factors) + np.cbrt(factors)
        for _ in range(60):
            roots -= (roots**3 - factors * (roots + 1)) / (3 * roots**2 - factors)
        return roots

    low, high = 1e-9 * total / error, 1e9 * total / error
    for _ in range(100):
        middle = sqrt(low * high)
        if np.sum(squares / levels(middle)**2) > error:
            low = middle
        else:
            high = middle
    return np.log2(levels(high) + 1) + 1


def saved_bits(steps: int, alpha: float) -> float:
    """Bits a value that eq. 17 saves against fixed bits of the same error at equal norms: half the
    logarithm of the weights' arithmetic by their geometric mean (Theorem 2).
    """
    arithmetic = 1.0 if alpha == 1 else (1 - alpha**steps) / (steps * (1 - alpha))
    return 0.5 * (log2(arithmetic) - (steps - 1) / 2 * log2(alpha))


def fixed_error(bits: float, norm: float, steps: int, alpha: float) -> float:
    """Error of fixed bits at a constant norm (appendix C)."""
    weights = step_weights(np.arange(steps), steps, alpha)
    return norm**2 / (2.0**(bits - 1) - 1)**2 * float(np.sum(weights))


def quantization_noise(size: int, workers: int, bits: float, norm: float) -> float:
    """Bound of the variance that rounding adds to the mean of all ranks (Lemma 1):
    d G^2 / (4 W M^2). Eq. 23 prints it without the square.

    Parameters
    ----------
    size, workers : int
        d values, W ranks.
    bits : float
    norm : float
        G, root mean square of the ranks' norms.
    """
    return size * norm**2 / (4 * workers * (2.0**(bits - 1) - 1)**2)


def contraction(step_size: float, smoothness: float, convexity: float) -> float:
    """alpha = 1 - 2 mu eta + L mu eta^2 of Theorem 1, for eta, L and mu."""
    return 1 - 2 * convexity * step_size + smoothness * convexity * step_size**2


def convergence_bound(first: float, noises: np.ndarray, step_size: float, smoothness: float,
                      convexity: float) -> float:
    """Bound of E F(x_T) - F(x*) (Theorem 1); exact for an isotropic quadratic (eq. 22).

    Parameters
    ----------
    first : float
        F(x_0) - F(x*).
    noises : ndarray of float64, shape (steps,)
        Variance of the ranks' mean gradient at every step, sampling and rounding together.
    step_size, smoothness, convexity : float
        eta, L, mu.
    """
    alpha, total = contraction(step_size, smoothness, convexity), len(noises)
    weights = step_weights(np.arange(total), total, alpha)
    return alpha**total * first + smoothness * step_size**2 / 2 * float(np.sum(weights * noises))


def estimated_alpha(loss: float, first_loss: float, step: int) -> float:
    """Estimate of alpha from the losses so far, (F(x_t) / F(x_0))**(1 / t) (eq. 24).

    Parameters
    ----------
    loss, first_loss : float
        Not negative.
    step : int
        t, at least 1.

    Returns
    -------
    alpha : float
        At most 1: a loss that has risen gives 1. At least 1e-3, which a loss of 0 gives.
    """
    if not loss < first_loss:
        return 1.0
    return max(root(loss / first_loss, step), 1e-3)
