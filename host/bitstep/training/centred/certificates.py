"""Certificates: bounds of what is left between the objective at a model and its optimum.

The objective is F(x) = mean of the rows' losses + w' P w / 2, with x = (w, b) the weights of
scaled features and an intercept without penalty, and P the diagonal of the penalties p_j > 0 of the
weights. Bounds follow from its gradient g = (v, c) at a few points alone, which full passes
measure: v of the weights, c of the intercept. Each component of a measured gradient may be wrong by
``error``.

Lengths are those of the norm |v|^2 = sum of v_j^2 / p_j, in which errors are at most
d = error sqrt(sum of 1 / p_j) long.
"""

import math

import numpy as np


def quadratic_gap(slope: np.ndarray, penalties: np.ndarray, means: np.ndarray, error: float = 0.0,
                  *, fit_intercept: bool = True) -> float:
    """Bound of F(x) - min F of ridge regression.

    F is quadratic, and with m the mean of the rows its Hessian is [[C + m m' + P, m], [m', 1]],
    where C, the covariance of the features, is at least 0. So F(x) - min F is g' H^-1 g / 2, and
    by the Schur complement of the intercept's 1::

        F(x) - min F = c^2 / 2 + (v - c m)' (C + P)^-1 (v - c m) / 2
                    <= c^2 / 2 + |v - c m|^2 / 2

    Parameters
    ----------
    slope : ndarray of float64, shape (n_features + 1,)
        g at the model.
    penalties : ndarray of float64, shape (n_features,)
        p_j, above 0.
    means : ndarray of float64, shape (n_features,)
        m.
    error : float
        Largest error of a component.
    fit_intercept : bool
        False: b is 0 and stays so, and c counts as 0.

    Returns
    -------
    float
    """
    if not fit_intercept:
        return _half_square(np.abs(slope[:-1]) + error, penalties)
    rest = np.abs(slope[:-1] - slope[-1] * means) + error * (1 + np.abs(means))
    return (abs(float(slope[-1])) + error) ** 2 / 2 + _half_square(rest, penalties)


def convex_gap(points: np.ndarray, slopes: np.ndarray, penalties: np.ndarray, error: float = 0.0, *,
               fit_intercept: bool = True) -> float:
    """Bound of F(x) - min F of a convex loss at the last of some points.

    F grows at least by w' P w / 2 above each of its tangents, and nothing is known of its
    curvature along b, so one tangent gives no bound unless c is 0. With two tangents, at points j
    and k where c has different signs, the shares p + q = 1, p c_j + q c_k = 0 take b out. With x*
    the optimum and d_i = w - w_i::

        F(x*) >= sum of p_i [F(x_i) + g_i . (x* - x_i) + (w* - w_i)' P (w* - w_i) / 2]   i = j, k
        F(x)  <= F(x_i) + g . (x - x_i) - d_i' P d_i / 2

    The least value of the first line's right side over w* gives, after F(x_i) is taken out by the
    second::

        F(x) - F(x*) <= |h|^2 / 2 + sum of p_i t_i
        h = sum of p_i (v_i + P d_i),   t_i = (g - g_i) . (x - x_i) - d_i' P d_i

    This is convex in p, so over the values that the errors of c allow the largest is at an end. The
    result is the least over all pairs of points.

    Parameters
    ----------
    points, slopes : ndarray of float64, shape (n_points, n_features + 1)
        Points x_i and the gradients there; x is the last one.
    penalties, error, fit_intercept
        See :func:`quadratic_gap`.

    Returns
    -------
    float
        Infinite if c has one sign at all points.
    """
    if not fit_intercept:
        return _half_square(np.abs(slopes[-1, :-1]) + error, penalties)
    intercepts = slopes[:, -1]
    rising, falling = (np.flatnonzero(sign * intercepts > error) for sign in (1, -1))
    if not (len(rising) and len(falling)):
        return math.inf
    far = error * math.sqrt(float((1 / penalties).sum()))
    moves = points[-1] - points
    parts = (slopes[:, :-1] + penalties * moves[:, :-1]) / np.sqrt(penalties)
    tails = np.einsum("ij,ij->i", slopes[-1] - slopes, moves) \
        - moves[:, :-1] ** 2 @ penalties + 2 * error * np.abs(moves).sum(axis=1)
    up, down = intercepts[rising][:, None], -intercepts[falling][None]
    products = parts @ parts.T
    worst = np.zeros((len(rising), len(falling)))
    for wrong in (-error, error):
        share = (down + wrong) / (up + down)        # of the rising one
        square = share ** 2 * np.diag(products)[rising][:, None] \
            + (1 - share) ** 2 * np.diag(products)[falling][None] \
            + 2 * share * (1 - share) * products[np.ix_(rising, falling)]
        found = (np.sqrt(np.maximum(square, 0)) + far) ** 2 / 2 \
            + share * tails[rising][:, None] + (1 - share) * tails[falling][None]
        worst = np.maximum(worst, found)
    return float(worst.min())


def softmax_gap(slope: np.ndarray, shared: np.ndarray, penalties: np.ndarray,
                moments: np.ndarray, error: float = 0.0, *, fit_intercept: bool = True) -> float:
    """Bound of F(x) - min F of multinomial logistic regression.

    With p_i the probabilities of row i at x and y_i its label as a unit vector, any other
    probabilities r_i whose mean over the rows is that of the y_i bound the optimum from below: log
    sum exp(z) is at least r . z + H(r), with the entropy H, and what it is more is KL(r | p)::

        F(x) - F(x*) <= mean KL(r_i | p_i) + |v + mean (r_i - p_i) u_i'|^2 / 2

    Take r_ik = p_ik (1 + a_k - p_i . a), where A a = -c with A = mean (diag(p_i) - p_i p_i'), the
    curvature along the intercepts. Then the mean of r_i - p_i is -c, as it must be. With
    s^2 = c' A^-1 c both mean KL(r_i | p_i) and mean |r_i - p_i|^2 are at most the mean variance of
    a under p_i, which is a' A a = s^2. With m and t_j^2 means and variances of the columns::

        F(x) - F(x*) <= s^2 + (|v - c m'| + s sqrt(sum of t_j^2 / p_j))^2 / 2

    r_i must not be negative: 1 + a_k - p_i . a is at least 1 - sqrt(2) |a|, and |a| at most s over
    the root of A's least eigenvalue, without that of equal numbers for all classes, which is 0. All
    of A follows from the mean products of two probabilities, as these add up to 1 in a row.

    Parameters
    ----------
    slope : ndarray of float64, shape (n_classes, n_features + 1)
        g at the model: rows (v_k, c_k).
    shared : ndarray of float64, shape (n_classes, n_classes)
        Mean of p_ik p_il over the rows, each wrong by no more than 2 ``error`` + 2^-30.
    penalties : ndarray of float64, shape (n_features,)
        p_j, above 0.
    moments : ndarray of float64, shape (2, n_features)
        m_j and t_j^2.
    error, fit_intercept
        See :func:`quadratic_gap`; ``error`` is at least that of a probability.

    Returns
    -------
    float
        Infinite where a class is decided so clearly, or c so large, that r_i could be negative.
    """
    count, (means, variances) = len(slope), moments
    if not fit_intercept:
        return _half_square(np.abs(slope[:, :-1]) + error, penalties)
    curvature = np.diag(shared.sum(axis=1)) - shared
    # Equal numbers are made a direction of the largest eigenvalue; c has no share in it.
    values, vectors = np.linalg.eigh(curvature + np.trace(curvature) / count)
    values -= 2 * count * (2 * error + 2.0 ** -30)
    if values[0] <= 0:
        return math.inf
    intercepts = slope[:, -1] - slope[:, -1].mean()
    size = math.sqrt(float(((vectors.T @ intercepts) ** 2 / values).sum())) \
        + math.sqrt(count / values[0]) * error
    if 2 * size ** 2 > values[0]:
        return math.inf
    rest = np.abs(slope[:, :-1] - intercepts[:, None] * means) + error * (1 + np.abs(means))
    length = math.sqrt(2 * _half_square(rest, penalties)) \
        + size * math.sqrt(float((variances / penalties).sum()))
    return size ** 2 + length ** 2 / 2


def _half_square(slope: np.ndarray, penalties: np.ndarray) -> float:
    """|v|^2 / 2."""
    return float((slope ** 2 / penalties).sum() / 2)
