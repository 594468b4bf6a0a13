"""SGD in float64 with any of the methods.

Several models, which differ in their step only, are trained side by side on the same rows.
"""

from dataclasses import dataclass

import numpy as np

from bitstep_lab.float_sgd import descend
from bitstep_lab.negative_results.methods import EXACT_BITS, Method, check_loss, loss_derivatives


@dataclass(frozen=True, eq=False)
class SgdResult:
    """Result of :func:`run_sgd`.

    Parameters
    ----------
    weights : ndarray of float64, shape (n_models, n_inputs)
        Models after the last epoch.
    refetched : ndarray of float64, shape (n_models,)
        Share of the visited rows that were read again with 16 bits a value.
    flipped : ndarray of float64, shape (n_models,)
        Share of the visited rows for which the slope was more than 1/2 off.
    bits : float
        Bits read for a value of every row, without those read again.
    """

    weights: np.ndarray
    refetched: np.ndarray
    flipped: np.ndarray
    bits: float

    @property
    def bits_read(self) -> np.ndarray:
        """Bits read for a value, refetched rows included, shape (n_models,)."""
        return self.bits + EXACT_BITS * self.refetched


def run_sgd(rows: np.ndarray, labels: np.ndarray, method: Method, *, loss: str, steps: np.ndarray,
            epochs: int, batch: int, radius: float = np.inf, seed: int = 0) -> SgdResult:
    """Mini-batch SGD with steps that fall as 1 / epoch (section 5), once for every first step.

    Rows are visited in order.

    Parameters
    ----------
    rows : ndarray of float64, shape (n_rows, n_inputs)
        Scaled features, in [-1, 1], and the constant 1 in the last column.
    labels : ndarray of float64, shape (n_rows,)
        1 or -1.
    method : Method
        Of the same loss; one object for one run.
    loss : {"logistic", "hinge"}
        That of exact slopes, with which the method's are compared.
    steps : ndarray of float, shape (n_models,)
        Steps of the first epoch; positive.
    epochs, batch : int
        Passes over the rows, and rows for each update; at least 1. The last batch may be shorter.
    radius : float
        Limit of the margins: after each update a model is shortened to ``radius / max |row|``
        (section 4.2 has |row| <= 1 and |model| <= R).
    seed : int
        Seed of all that is random.

    Returns
    -------
    SgdResult

    Raises
    ------
    ValueError
        If an argument is out of range.
    """
    steps = np.asarray(steps, np.float64)
    _check(rows, labels, loss=loss, steps=steps, epochs=epochs, batch=batch, radius=radius)
    rng = np.random.default_rng(seed)
    method.store(rows, rng)
    gradients = _Gradients(rows, labels, method, loss, rng, len(steps))
    limit = radius / np.linalg.norm(rows, axis=1).max()

    def shorten(part, weights, step):
        lengths = np.linalg.norm(weights, axis=1, keepdims=True)
        weights *= np.minimum(1, limit / np.maximum(lengths, 1e-300))

    shares = 1 / np.arange(1, epochs + 1)
    *_, weights = descend(np.zeros((len(steps), rows.shape[1])), np.outer(shares, steps)[..., None],
                          n_rows=len(rows), batch=batch, gradient=gradients.mean,
                          project=shorten if np.isfinite(limit) else None)
    visits = epochs * len(rows)
    return SgdResult(weights, gradients.refetched / visits, gradients.flipped / visits, method.bits)


class _Gradients:
    """Gradients of a method, with counts of rows read again and of slopes that are far off."""

    def __init__(self, rows, labels, method, loss, rng, n_models):
        self._rows, self._labels, self._method = rows, labels, method
        self._loss, self._rng = loss, rng
        self.refetched, self.flipped = np.zeros(n_models), np.zeros(n_models)

    def mean(self, part, weights):
        """Mean gradient of a batch, for every model."""
        if part.start == 0:
            self._method.start_epoch(self._rng)
        exact, signs = self._rows[part], self._labels[part]
        estimate = self._method.slopes(part, signs, weights, self._rng)
        true = loss_derivatives(signs[:, None] * (exact @ weights.T), self._loss)
        self.flipped += (np.abs(estimate.slopes - true) > 0.5).sum(axis=0)
        slopes = estimate.slopes * signs[:, None]
        if estimate.refetched is None:
            return slopes.T @ estimate.rows / len(signs)
        self.refetched += estimate.refetched.sum(axis=0)
        return ((slopes * ~estimate.refetched).T @ estimate.rows
                + (slopes * estimate.refetched).T @ exact) / len(signs)


def _check(rows, labels, *, loss, steps, epochs, batch, radius):
    check_loss(loss)
    if steps.ndim != 1 or not (steps > 0).all():
        raise ValueError(f"steps must be a list of positive numbers, not {steps}")
    if epochs < 1 or batch < 1:
        raise ValueError(f"epochs and batch must be at least 1, not {epochs} and {batch}")
    if not radius > 0:
        raise ValueError(f"radius must be positive, not {radius}")
    if not np.isin(labels, (-1, 1)).all() or labels.shape != (len(rows),):
        raise ValueError(f"labels must be 1 or -1, one for each of the {len(rows)} rows")
    if not (rows[:, -1] == 1).all():
        raise ValueError("rows must have the constant 1 in the last column")
