"""Gradient estimators from exact and quantized rows, for losses that are not quadratic.

Rows are quantized once, as they would be stored; what a method draws beyond that (arrangements of
samples, sketches) is fresh.
"""

import math
from typing import NamedTuple, Protocol

import numpy as np

from bitstep.checks import check_choice
from bitstep.pipeline.levels import decode
from bitstep.quantization import encode
from bitstep_lab.negative_results.chebyshev import Polynomial
from bitstep_lab.negative_results.multisample import code_bits, decode_samples, encode_samples
from bitstep_lab.negative_results.sketches import (
    bounds_refetch,
    residual_bounds,
    sign_matrix,
    sketch_error,
    sketch_refetch,
    sketched_residuals,
)

LOSSES = ("logistic", "hinge")
EXACT_BITS = 32     # of a value that is read again, or not rounded
SKETCH_BITS = 16    # of an entry of a row's sketch


def loss_values(margins: np.ndarray, loss: str) -> np.ndarray:
    """Loss at margins z = y (a . x) of any shape.

    Parameters
    ----------
    margins : ndarray of float64
    loss : {"logistic", "hinge"}
        log(1 + exp(-z)), or max(0, 1 - z).

    Raises
    ------
    ValueError
        If the loss is unknown.
    """
    check_loss(loss)
    return np.logaddexp(0, -margins) if loss == "logistic" else np.maximum(0, 1 - margins)


def loss_derivatives(margins: np.ndarray, loss: str) -> np.ndarray:
    """Derivative of :func:`loss_values`, from -1 to 0; the hinge's is 0 at z = 1."""
    check_loss(loss)
    if loss == "logistic":
        return 0.5 * np.tanh(0.5 * margins) - 0.5
    return np.where(margins < 1, -1.0, 0.0)


def check_loss(loss: str) -> None:
    """Raise ValueError unless the loss is one of :data:`LOSSES`."""
    check_choice("loss", loss, LOSSES)


class Slopes(NamedTuple):
    """Estimates of a method for a batch of rows.

    Attributes
    ----------
    slopes : ndarray of float64, shape (batch, n_models)
        Estimates of l'(z).
    rows : ndarray of float64, shape (batch, n_inputs)
        Rows that the slopes are multiplied with.
    refetched : ndarray of bool, shape (batch, n_models), or None
        True where the exact row is taken instead.
    """

    slopes: np.ndarray
    rows: np.ndarray
    refetched: np.ndarray | None = None


class Method(Protocol):
    """An estimator of gradients.

    Rows have the constant 1 in the last column, for the intercept; it is never quantized.
    """

    @property
    def bits(self) -> float:
        """Bits read for a value of every row, those read again not counted."""
        ...

    def store(self, rows: np.ndarray, rng: np.random.Generator) -> None:
        """Quantize rows, shape (n_rows, n_inputs), with values in [-1, 1]; called once."""
        ...

    def start_epoch(self, rng: np.random.Generator) -> None:
        """Draw what one pass over the rows needs."""
        ...

    def slopes(self, batch: slice, labels: np.ndarray, weights: np.ndarray,
               rng: np.random.Generator) -> Slopes:
        """Estimate the slopes of some stored rows.

        Parameters
        ----------
        batch : slice
            The rows.
        labels : ndarray of float64, shape (batch,)
        weights : ndarray of float64, shape (n_models, n_inputs)
        rng : numpy.random.Generator
        """
        ...


class Rounded:
    """The straw man (section 5.4): round every value once, and pretend it was exact.

    Parameters
    ----------
    loss : {"logistic", "hinge"}
    encoding : {"stochastic", "nearest", "exact"}
        How values are rounded; ``exact`` keeps them.
    bits : int
        Stored bits of a value, 1 to 8.

    Raises
    ------
    ValueError
        If the loss is unknown, or on :meth:`store` if the rounding is.
    """

    def __init__(self, loss: str, encoding: str = "stochastic", bits: int = 8):
        check_loss(loss)
        self.loss, self.encoding = loss, encoding
        self.bits = float(EXACT_BITS if encoding == "exact" else bits)
        self.stored = self.exact = np.zeros((0, 0))

    @property
    def spacing(self) -> float:
        """Most that a stored value may differ from the exact one."""
        between = 2 / max(1, 2 ** int(self.bits) - 2)
        return {"exact": 0.0, "nearest": between / 2, "stochastic": between}[self.encoding]

    def store(self, rows, rng):
        """See :class:`Method`."""
        self.exact = self.stored = rows
        if self.encoding != "exact":
            bits = int(self.bits)
            codes = encode(rows[:, :-1], bits=bits, encoding=self.encoding, rng=rng)
            levels = decode(codes, bits=bits, row_format="one_level")[0]
            self.stored = np.hstack([levels / max(1, 2 ** (bits - 1) - 1), rows[:, -1:]])

    def start_epoch(self, rng):
        """See :class:`Method`."""

    def slopes(self, batch, labels, weights, rng):
        """See :class:`Method`."""
        rows = self.stored[batch]
        return Slopes(loss_derivatives(labels[:, None] * (rows @ weights.T), self.loss), rows)


class Sampled:
    """The unbiased estimator of sections 4.2 and 4.3: one sample more than the polynomial's degree.

    Parameters
    ----------
    polynomial : Polynomial
        In place of the loss's derivative.
    form : {"monomial", "chebyshev", "symmetric"}
        See :meth:`Polynomial.estimate`.
    levels : int
        Levels of one sample; 16 are the paper's 4 bits.
    """

    def __init__(self, polynomial: Polynomial, form: str = "symmetric", levels: int = 16):
        self.polynomial, self.form, self.levels = polynomial, form, levels
        self.samples = polynomial.degree + 1
        self.bits = float(code_bits(levels=levels, samples=self.samples))
        self.codes, self.drawn = np.zeros((0, 0), np.int64), np.zeros((self.samples, 0, 0))

    def store(self, rows, rng):
        """See :class:`Method`."""
        self.codes = encode_samples(rows[:, :-1], levels=self.levels, samples=self.samples, rng=rng)

    def start_epoch(self, rng):
        """See :class:`Method`."""
        drawn = decode_samples(self.codes, levels=self.levels, samples=self.samples, rng=rng)
        self.drawn = np.concatenate([drawn, np.ones((*drawn.shape[:2], 1))], axis=2)

    def slopes(self, batch, labels, weights, rng):
        """See :class:`Method`."""
        *dots, rows = self.drawn[:, batch]
        margins = labels[:, None] * (np.array(dots) @ weights.T)
        return Slopes(self.polynomial.estimate(margins, self.form), rows)


class BoundsRefetch:
    """l1 refetching for the hinge loss (G.4).

    Parameters
    ----------
    encoding : {"stochastic", "nearest"}
    bits : int
        Of the rounded row.
    """

    def __init__(self, encoding: str = "stochastic", bits: int = 8):
        self.inner = Rounded("hinge", encoding, bits)
        self.bits = self.inner.bits

    def store(self, rows, rng):
        """See :class:`Method`."""
        self.inner.store(rows, rng)

    def start_epoch(self, rng):
        """See :class:`Method`."""

    def slopes(self, batch, labels, weights, rng):
        """See :class:`Method`."""
        rows = self.inner.stored[batch]
        exact = labels[:, None] * (self.inner.exact[batch] @ weights.T)
        spacing = np.full(rows.shape[1], self.inner.spacing)
        spacing[-1] = 0.0       # the constant input
        low, high = residual_bounds(rows, labels, weights, spacing)
        refetched = bounds_refetch(low, high)
        slopes = np.where(refetched, loss_derivatives(exact, "hinge"),
                          np.where(low > 0, -1.0, 0.0))
        return Slopes(slopes, rows, refetched)


class SketchRefetch:
    """l2 refetching for the hinge loss (G.3.1): sketches decide which rows are read again.

    Each batch has its own matrix, because the bound holds for models that do not depend on it.

    Parameters
    ----------
    size : int
        Length of a sketch.
    failure : float
        Probability with which a sketch may be further off than assumed, tau in the paper.
    inner : Method, optional
        Estimator for rows that are not read again. The paper takes a polynomial
        (:class:`Sampled`). Default: the sign that the sketch has just told, times the row rounded
        to 8 bits.

    Raises
    ------
    ValueError
        If size or failure is out of range, or a sketch of this size has no bound.
    """

    def __init__(self, size: int, failure: float = 0.05, inner: Method | None = None):
        self.gamma, self.size = sketch_error(size, failure), size
        if math.isinf(self.gamma):
            raise ValueError(f"size must be at least {math.ceil(12 * math.log(4 / failure))} for "
                             f"failure {failure:g}, not {size}")
        self.inner = Rounded("hinge") if inner is None else inner
        self.trust_sketch = inner is None
        self.exact = np.zeros((0, 0))

    @property
    def bits(self) -> float:
        """Bits of the inner method and of the sketch, for each feature."""
        return self.inner.bits + SKETCH_BITS * self.size / (self.exact.shape[1] - 1)

    def store(self, rows, rng):
        """See :class:`Method`."""
        self.exact = rows
        self.inner.store(rows, rng)

    def start_epoch(self, rng):
        """See :class:`Method`."""
        self.inner.start_epoch(rng)

    def slopes(self, batch, labels, weights, rng):
        """See :class:`Method`."""
        features, coefs = self.exact[batch, :-1], weights[:, :-1]
        matrix = sign_matrix(features.shape[1], self.size, rng)
        estimates = sketched_residuals(features, labels, coefs, matrix)
        estimates -= labels[:, None] * weights[:, -1]       # the intercept needs no sketch
        # Both sides know their own length, so delta is as small as this row and model allow.
        gaps = self.gamma * np.linalg.norm(features, axis=1)[:, None] * \
            np.linalg.norm(coefs, axis=1)
        refetched = sketch_refetch(estimates, gaps)
        exact = loss_derivatives(labels[:, None] * (self.exact[batch] @ weights.T), "hinge")
        found = self.inner.slopes(batch, labels, weights, rng)
        kept = np.where(estimates > 0, -1.0, 0.0) if self.trust_sketch else found.slopes
        return Slopes(np.where(refetched, exact, kept), found.rows, refetched)
