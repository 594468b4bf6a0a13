"""Curvature of the objective, where rows are so few that the host finds it by itself.

Inner passes learn from a few bits of the rows in which directions the objective is steep. Up to
:data:`VALUES` values the host tells it as fast: a pass over such rows takes less time than the
calls around it. Then an outer step from the point x, with the gradient g that a full pass sums
there, is that of Newton's method,

    -H^-1 g        H = sum of v l''(q.x) q q^T / sum of v  +  P

over all rows q, with weights v and the second derivative l'' of their loss, and P the diagonal of
the ridge penalties; a matrix for the classes of a multinomial model. Of least squares it ends at
the optimum. As with other steps H decides how fast training is, and not where it ends: that is
where g, which the device sums, is 0.

H is made of the products of all pairs of columns where these are at most :data:`PRODUCTS`. Else the
step is that of conjugate gradients (Hestenes and Stiefel, Journal of Research of the National
Bureau of Standards 49, 1952), which multiply vectors by H, from a first guess by its diagonal. They
end where a tenth of g is left, since H is another one after the step (Dembo, Eisenstat and
Steihaug, SIAM Journal on Numerical Analysis 19, 1982).

Columns are centred and standardized, in which H is as well conditioned as by scaling it can be.
"""

from collections.abc import Callable
from functools import cached_property

import numpy as np

from bitstep.data.blocks import row_blocks
from bitstep.pipeline.bit_planes import BitPlaneLayout
from bitstep.quantization import BitPlaneRows
from bitstep.training.centred.code_columns import joined

VALUES = 1 << 18            # of all rows and outputs: 2 MB of numbers
SLOW_VALUES = 1 << 24       # the same where inner passes are slow: 64 MB, in float32
PRODUCTS = 1 << 22          # of pairs of columns in all rows, of which H is made
LEAST = 1e-9                # of the mean curvature, in directions that nothing bends
LEFT = 0.1                  # share of a slope that conjugate gradients leave
MAX_GRADIENTS = 100         # of a step, at most

Inverse = Callable[[np.ndarray, float], np.ndarray]
"""H^-1 times a vector, of which this share may be left."""


def finds_curvature(rows: BitPlaneRows, n_outputs: int = 1, *, slow: bool = False) -> bool:
    """True if the host finds the curvature of these rows, of so many outputs that depend on each
    other: it has the rows, and they are few, or ``slow``.
    """
    most = SLOW_VALUES if slow else VALUES
    return len(rows.stored) > 0 and rows.n_rows * (rows.n_features + n_outputs) <= most


class Curvature:
    """Curvature of the objective of one output, or of a multinomial model.

    Slopes and steps are flat: weights of scaled features and the intercept, of each output after
    the other. An inverse is that of H by weights of standardized columns, and by the intercept.

    Parameters
    ----------
    rows : BitPlaneRows
    means, roots : ndarray of float64, shape (n_features,)
        By which columns are centred and divided; means of 0 without an intercept.
    varies : ndarray of bool, shape (n_features,)
        Columns whose weights move.
    penalties : ndarray of float64, shape (n_features,)
        Ridge penalties of the weights of scaled features.
    fit_intercept : bool

    Attributes
    ----------
    weights : ndarray of float64, shape (n_rows,)
        Of the rows, with a sum of 1.
    exact : bool
        True if values and slopes are those of float64; of many rows they are of float32, which
        takes half the memory.
    """

    def __init__(self, rows: BitPlaneRows, means: np.ndarray, roots: np.ndarray,
                 varies: np.ndarray, penalties: np.ndarray, fit_intercept: bool):
        count, size = rows.n_rows, rows.n_features
        self._means, self._roots, self._fit_intercept = means, roots, fit_intercept
        self.exact = count * size <= VALUES
        self._inputs = np.ones((count, size + fit_intercept),
                               np.float64 if self.exact else np.float32)
        self._columns = self._inputs[:, :size]
        block = BitPlaneLayout(size).block_rows     # whole ones, each of which is decoded once
        piece = block * max(1, VALUES // (block * size))
        for start in range(0, count, piece):
            part = slice(start, min(start + piece, count))
            # Without those that stay where they are: another weight cannot count on them.
            self._columns[part] = (rows.values(part)[0] - means) * (varies / roots)
        weights = np.ones(count) if rows.weights is None else rows.weights.astype(np.float64)
        self.weights = weights / weights.sum()
        self._penalties = np.append(np.where(varies, penalties / np.square(roots), 1.0),
                                    np.zeros(int(fit_intercept)))

    def values(self, point: np.ndarray) -> np.ndarray:
        """Values of every output at a point, shape (n_rows, n_outputs)."""
        models = point.reshape(-1, len(self._roots) + 1)
        return self._columns @ (models[:, :-1] * self._roots).T \
            + (models[:, -1] + models[:, :-1] @ self._means)

    def slope(self, derivatives: np.ndarray) -> np.ndarray:
        """Gradient of the loss, from the derivatives by the values of every output, shape
        (n_rows, n_outputs).
        """
        derivatives = derivatives * self.weights[:, None]
        intercepts = derivatives.sum(axis=0)
        weights = (derivatives.T @ self._columns) * self._roots + intercepts[:, None] * self._means
        return joined(weights, intercepts * self._fit_intercept).ravel()

    def inverse(self, second: np.ndarray | None = None) -> Inverse | None:
        """H^-1 of one output; None if there is none.

        Parameters
        ----------
        second : ndarray of float64, shape (n_rows,)
            Second derivative of each row's loss; None: 1.
        """
        weights = self.weights if second is None else self.weights * second
        if self._has_few_products(1):
            return self._inverse(self._products(weights), float(weights.sum()))
        own = weights[:, None].astype(np.float32)
        return self._by_gradients(own, lambda changes: own * changes)

    def multinomial_inverse(self, probabilities: np.ndarray) -> Inverse | None:
        """H^-1 of a multinomial model; None if there is none.

        Parameters
        ----------
        probabilities : ndarray of float64, shape (n_rows, n_classes)
            p: the second derivative by the values of the classes is diag p - p p^T.
        """
        if not self._has_few_products(probabilities.shape[1]):
            rounded = probabilities.astype(np.float32)
            shares = self.weights[:, None].astype(np.float32) * rounded
            return self._by_gradients(
                shares * (1 - rounded),
                lambda changes: shares * (changes - (rounded * changes).sum(axis=1)[:, None]))
        each = probabilities[:, :, None] * self._inputs[:, None, :]
        each *= np.sqrt(self.weights)[:, None, None]
        each = each.reshape(len(each), -1)
        bent = -(each.T @ each)
        size = self._inputs.shape[1]
        for place, own in enumerate(probabilities.T):
            part = slice(place * size, (place + 1) * size)
            bent[part, part] += self._products(self.weights * own)
        return self._inverse(bent, float(
            self.weights @ (probabilities * (1 - probabilities)).mean(axis=1)))

    def step(self, inverse: Inverse, slope: np.ndarray, left: float = LEFT) -> np.ndarray:
        """-H^-1 slope, of which this share may be left; of several outputs the one whose sum is 0.
        """
        own = slope.reshape(-1, len(self._roots) + 1)
        standard = (own[:, :-1] - own[:, -1:] * self._means) / self._roots
        if self._fit_intercept:
            standard = np.column_stack([standard, own[:, -1]])
        if len(own) > 1:
            standard = standard - standard.mean(axis=0)
        found = inverse(standard.ravel(), left).reshape(standard.shape)
        if len(own) > 1:
            found -= found.mean(axis=0)
        weights = found[:, :len(self._roots)] / self._roots
        intercepts = found[:, -1] - weights @ self._means if self._fit_intercept \
            else np.zeros(len(own))
        return -joined(weights, intercepts).ravel()

    def _has_few_products(self, n_outputs: int) -> bool:
        """True if H is made, and not only multiplied with vectors."""
        columns = self._columns.shape[1] * n_outputs
        return self.exact and max(len(self._columns), columns) * columns ** 2 <= PRODUCTS

    def _products(self, weights: np.ndarray) -> np.ndarray:
        """Weighted sum of the products of all pairs of inputs."""
        weighted = self._inputs * np.sqrt(weights)[:, None]
        return weighted.T @ weighted

    def _inverse(self, bent: np.ndarray, mean: float) -> Inverse | None:
        """The inverse of such a sum and the penalties; ``mean`` is the mean curvature."""
        outputs = len(bent) // len(self._penalties)
        np.einsum("ii->i", bent)[:] += LEAST * mean + np.tile(self._penalties, outputs)
        try:
            inverse = np.linalg.inv(bent)
        except np.linalg.LinAlgError:
            return None
        return lambda slope, left: inverse @ slope

    @cached_property
    def _rounded(self) -> np.ndarray:
        """Inputs in float32: half the time, and H is not what decides where training ends."""
        return self._inputs.astype(np.float32, copy=False)

    def _by_gradients(self, second: np.ndarray, bend: Callable[[np.ndarray], np.ndarray]
                      ) -> Inverse | None:
        """H^-1 by conjugate gradients; None if nothing bends a weight.

        Parameters
        ----------
        second : ndarray of float32, shape (n_rows, n_outputs)
            Second derivative by each value, weighted.
        bend : callable
            From changes of all values, of the same shape, to those of the weighted derivatives.
        """
        inputs = self._rounded
        ridge = self._penalties + LEAST * float(second.sum(axis=0).mean())
        diagonal = ridge + sum(
            second[start:stop].T @ np.square(inputs[start:stop])
            for _, start, stop in row_blocks(*inputs.shape))
        if not diagonal.all():
            return None

        def product(vector: np.ndarray) -> np.ndarray:
            values = inputs @ vector.T.astype(np.float32)
            return bend(values).T @ inputs + ridge * vector

        def inverse(slope: np.ndarray, left: float) -> np.ndarray:
            rest = slope.reshape(diagonal.shape)
            found = np.zeros_like(rest)
            direction = scaled = rest / diagonal
            size = float((rest * scaled).sum())
            goal = left ** 2 * size
            for _ in range(MAX_GRADIENTS):
                if size <= goal:
                    break
                along = product(direction)
                bent = float((direction * along).sum())
                if bent <= 0:       # rounding hides what is left
                    break
                found += size / bent * direction
                rest = rest - size / bent * along
                scaled = rest / diagonal
                before, size = size, float((rest * scaled).sum())
                direction = scaled + size / before * direction
            return found.ravel()

        return inverse
