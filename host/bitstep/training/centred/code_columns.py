"""Columns of few bits that have the rows' means and variances.

The code of b bits of a value x is the middle q of its cell. Over all rows the mean of q differs
from that of x, and so does its variance. A column s q + d has both as x has them, with

    s = sqrt(var x / var q)        d = mean x - s mean q

(without an intercept, which could hold d, the ratio of the mean squares, and d = 0). Of a column
with two values it is x itself, whatever b is. A model w, b of such columns is the model s w, b +
d.w of the codes.
"""

from typing import NamedTuple

import numpy as np

from bitstep.quantization import BitPlaneRows

MOST = 2.0      # s or 1 / s, where nearly all of a column lies in one cell


class CodeColumns(NamedTuple):
    """Columns s q + d.

    Attributes
    ----------
    scales, shifts : ndarray of float64, shape (n_features,)
        s and d.
    """

    scales: np.ndarray
    shifts: np.ndarray

    @classmethod
    def of(cls, rows: BitPlaneRows, planes: int, fit_intercept: bool) -> "CodeColumns":
        """The columns of codes of some planes."""
        means, variances = rows.column_moments
        code_means, code_variances = rows.code_moments(planes)
        if not fit_intercept:
            variances = variances + means * means
            code_variances = code_variances + code_means * code_means
            means = code_means = np.zeros(rows.n_features)
        varies = (variances > 0) & (code_variances > 0)
        scales = np.sqrt(variances / np.where(varies, code_variances, 1.0))
        scales = np.where(varies, np.clip(scales, 1 / MOST, MOST), 1.0)
        return cls(scales, means - scales * code_means)

    def to_codes(self, models: np.ndarray) -> np.ndarray:
        """Models of the codes, shape (n_models, n_features + 1), intercepts last."""
        weights = models[:, :-1]
        return joined(weights * self.scales, models[:, -1] + weights @ self.shifts)

    def from_codes(self, models: np.ndarray) -> np.ndarray:
        """Models of the columns from those of the codes."""
        weights = models[:, :-1] / self.scales
        return joined(weights, models[:, -1] - weights @ self.shifts)

    def slopes(self, slopes: np.ndarray) -> np.ndarray:
        """Gradients by models of the columns, from those by models of the codes."""
        return joined(slopes[:, :-1] * self.scales + slopes[:, -1:] * self.shifts, slopes[:, -1])


def joined(weights: np.ndarray, intercepts: np.ndarray) -> np.ndarray:
    """Models of weights, shape (n_models, n_features), and intercepts."""
    models = np.empty((len(weights), weights.shape[1] + 1))
    models[:, :-1], models[:, -1] = weights, intercepts
    return models
