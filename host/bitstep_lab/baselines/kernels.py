"""The compiled loops of the baselines; importing this needs numba.

A model is float32 of shape (n_features + 1,), the intercept last: as a part of the same array it
is loaded and stored like a weight, so Hogwild's threads see each other's. Rows are float32, or
int8 levels that are converted in registers. A product is summed in any order, which is what makes
its loop a vector loop (:mod:`bitstep_lab.baselines.vectors`); nothing else is relaxed. A row is in
the first-level cache when its update reads it again.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from bitstep.pipeline.registers import Loss
from bitstep_lab.baselines.vectors import combine, dot

ONE, ZERO = np.float32(1), np.float32(0)
LEAST_SQUARES, SQUARED_HINGE, HINGE = (
    int(Loss.LEAST_SQUARES), int(Loss.SQUARED_HINGE), int(Loss.HINGE))


class Factors(NamedTuple):
    """Numbers of an update, all float32.

    A row r with derivative d makes ``w <- (1 - step l2) w - step gain d r``; the intercept loses
    ``intercept_step d``.
    """

    step: np.float32
    gain: np.float32
    l2: np.float32
    intercept_step: np.float32


@njit(nogil=True)
def derivative(loss, value, target):
    """Derivative of a row's loss by the value that the model gives, in float32.

    Parameters
    ----------
    loss : int
    value, target : float32
    """
    if loss == LEAST_SQUARES:
        return value - target
    margin = target * value
    if loss == SQUARED_HINGE:
        return value - target if margin < ONE else ZERO
    if loss == HINGE:
        return -target if margin < ONE else ZERO
    return -target / (ONE + math.exp(margin))   # exp may be infinite: the derivative is then 0


@njit(nogil=True)
def stream(loss, rows, targets, model, factors, start, stop):
    """SGD over the rows from ``start`` to ``stop``, with an update after each of them.

    Parameters
    ----------
    loss : int
    rows : ndarray of float32 or int8, shape (n_rows, n_features)
    targets : ndarray of float32, shape (n_rows,)
    model : ndarray of float32, shape (n_features + 1,)
        Changed in place; other threads may do so at the same time.
    factors : Factors
    start, stop : int
    """
    n_features = rows.shape[1]
    keep = ONE - factors.step * factors.l2
    for i in range(start, stop):
        row = rows[i]
        value = dot(row, model) + model[n_features]
        slope = derivative(loss, value, targets[i])
        if slope != ZERO or keep != ONE:
            combine(row, model, keep, factors.step * factors.gain * slope)
            model[n_features] -= factors.intercept_step * slope


@njit(nogil=True)
def stream_batches(loss, rows, targets, model, factors, start, stop, batch, gradient):
    """:func:`stream` with an update after each ``batch`` rows, which all meet the same model.

    A shorter last batch keeps the factor 1 / batch.

    Parameters
    ----------
    loss, rows, targets, model, factors, start, stop
        As for :func:`stream`.
    batch : int
    gradient : ndarray of float32, shape (n_features,)
        Overwritten: the gradient's sum grows here while a row is in the cache.
    """
    n_features = rows.shape[1]
    share = ONE / np.float32(batch)
    for first in range(start, stop, batch):
        last = min(first + batch, stop)
        gradient[:] = ZERO
        slopes = ZERO
        for i in range(first, last):
            row = rows[i]
            value = dot(row, model) + model[n_features]
            slope = derivative(loss, value, targets[i])
            if slope != ZERO:
                combine(row, gradient, ONE, -slope)
                slopes += slope
        keep = ONE - factors.step * factors.l2 * share * np.float32(last - first)
        combine(gradient, model, keep, factors.step * factors.gain * share)
        model[n_features] -= factors.intercept_step * share * slopes


@njit(nogil=True)
def blas_batches(loss, rows, targets, model, factors, batch, gradient, values):
    """:func:`stream_batches` over all rows, with both products of a batch done by BLAS.

    ``np.dot`` in compiled code is a call of BLAS's ``sgemv`` (SciPy's), without the interpreter in
    between, which would cost more than the product of a small batch.

    Parameters
    ----------
    loss, rows, targets, model, factors, batch, gradient
        As for :func:`stream_batches`; the gain is 1.
    values : ndarray of float32, shape (batch,)
        Overwritten.
    """
    n_rows, n_features = rows.shape
    weights = model[:n_features]
    share = ONE / np.float32(batch)
    for first in range(0, n_rows, batch):
        last = min(first + batch, n_rows)
        block, slopes = rows[first:last], values[:last - first]
        np.dot(block, weights, slopes)
        total = ZERO
        for i in range(last - first):
            slopes[i] = derivative(loss, slopes[i] + model[n_features], targets[first + i])
            total += slopes[i]
        np.dot(slopes, block, gradient)
        keep = ONE - factors.step * factors.l2 * share * np.float32(last - first)
        combine(gradient, weights, keep, factors.step * share)
        model[n_features] -= factors.intercept_step * share * total


@njit(nogil=True, fastmath={"reassoc", "nsz"})
def total(values):
    """Sum of float32 values, which reads each of them once."""
    result = ZERO
    for i in range(values.size):
        result += values[i]
    return result
