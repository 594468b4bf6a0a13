"""Curvature of the objective, where rows are so few that the host finds it by itself.

Inner passes learn from a few bits of the rows in which directions the objective is steep. The
products of all pairs of columns tell it at once. Up to :data:`PRODUCTS` of them take no longer than
some passes, each of which begins with calls that cost as much as a pass over such rows. Then an
outer step from the point x, with the gradient g that a full pass sums there, is that of Newton's
method,

    -H^-1 g        H = sum of v l''(q.x) q q^T / sum of v  +  l2

over all rows q, with weights v and the second derivative l'' of their loss. Of least squares it
ends at the optimum. As with other steps H decides how fast training is, and not where it ends: that
is where g, which the device sums, is 0.

Columns are centred and standardized, in which H is as well conditioned as by scaling it can be.
"""

import numpy as np

from bitstep.pipeline.bit_planes import PLANES, from_bit_planes, middle_levels
from bitstep.pipeline.losses import LossFunction
from bitstep.quantization import BitPlaneRows

PRODUCTS = 1 << 22          # of pairs of columns in all rows, at most
VALUES = 1 << 19            # of all rows: 4 MB of numbers
LEAST = 1e-9                # of the mean curvature, in directions that nothing bends


def finds_curvature(rows: BitPlaneRows) -> bool:
    """True if the host finds the curvature of these rows: it has them, and they are few."""
    products = max(rows.n_rows, rows.n_features) * rows.n_features ** 2
    return len(rows.stored) > 0 and products <= PRODUCTS \
        and rows.n_rows * rows.n_features <= VALUES


class Curvature:
    """Curvature of the objective of one output.

    Parameters
    ----------
    rows : BitPlaneRows
    means, roots : ndarray of float64, shape (n_features,)
        By which columns are centred and divided; means of 0 without an intercept.
    varies : ndarray of bool, shape (n_features,)
        Columns whose weights move.
    penalties : ndarray of float64, shape (n_features,)
        Of l2 for each weight of scaled features.
    fit_intercept : bool
    """

    def __init__(self, rows: BitPlaneRows, means: np.ndarray, roots: np.ndarray,
                 varies: np.ndarray, penalties: np.ndarray, fit_intercept: bool):
        codes = from_bit_planes(rows.stored[0], rows.n_features, PLANES, 0, rows.n_rows)
        self._means, self._roots, self._fit_intercept = means, roots, fit_intercept
        # Without those that stay where they are: another weight cannot count on them.
        columns = middle_levels(codes, PLANES) / 2.0 ** PLANES
        self._columns = (columns - means) * (varies / roots)
        self._inputs = np.column_stack([self._columns, np.ones(rows.n_rows)]) \
            if fit_intercept else self._columns
        weights = np.ones(rows.n_rows) if rows.weights is None \
            else rows.weights.astype(np.float64)
        self._weights = weights / weights.sum()
        self._penalties = np.append(np.where(varies, penalties / np.square(roots), 1.0),
                                    np.zeros(int(fit_intercept)))

    def second(self, loss: LossFunction, point: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Second derivative of each row's loss.

        Parameters
        ----------
        loss : LossFunction
        point : ndarray of float64, shape (n_features + 1,)
        labels : ndarray of float64, shape (n_rows,)

        Returns
        -------
        ndarray of float64, shape (n_rows,)
        """
        assert loss.second is not None
        values = self._columns @ (point[:-1] * self._roots) \
            + (point[-1] + point[:-1] @ self._means)
        return loss.second(values, labels)

    def inverse(self, second: np.ndarray | None = None) -> np.ndarray | None:
        """H^-1 by standardized columns and the intercept; None if there is none.

        Parameters
        ----------
        second : ndarray of float64, shape (n_rows,)
            Second derivative of each row's loss; None: 1.
        """
        weights = self._weights if second is None else self._weights * second
        weighted = self._inputs * np.sqrt(weights)[:, None]
        bent = weighted.T @ weighted
        np.einsum("ii->i", bent)[:] += LEAST * float(weights.sum()) + self._penalties
        try:
            return np.linalg.inv(bent)
        except np.linalg.LinAlgError:
            return None

    def step(self, inverse: np.ndarray, slope: np.ndarray) -> np.ndarray:
        """-H^-1 slope, both by weights of scaled features and the intercept.

        Parameters
        ----------
        inverse : ndarray of float64
            Of :meth:`inverse`.
        slope : ndarray of float64, shape (n_features + 1,)

        Returns
        -------
        ndarray of float64, shape (n_features + 1,)
        """
        standard = (slope[:-1] - slope[-1] * self._means) / self._roots
        if not self._fit_intercept:
            return -np.append(inverse @ standard / self._roots, 0.0)
        found = inverse @ np.append(standard, slope[-1])
        weights = found[:-1] / self._roots
        return -np.append(weights, found[-1] - weights @ self._means)
