"""Losses and accuracies of a whole training run, on features or on quantized rows.

Everything is float64, and done in chunks of rows so that the residuals of many epochs and classes
need little memory.
"""

import functools
from collections.abc import Callable, Sequence
from contextlib import nullcontext

import numpy as np

from bitstep.machine import in_threads, one_blas_thread
from bitstep.pipeline.losses import LossFunction, formula_of
from bitstep.pipeline.registers import Loss
from bitstep.quantization import QuantizedDataset

CHUNK_VALUES = 1 << 16      # residuals, or features, that a thread has in memory at a time: 512 kB.
                            # With less, threads wait for Python; with more, for fresh memory
_CHUNKS = 32                # that a thread takes at a time


class Moments:
    """Mean and variance of values that come in pieces.

    Attributes
    ----------
    count : int
    mean : float
    """

    def __init__(self):
        self.count, self.mean, self._squares = 0, 0.0, 0.0

    @property
    def variance(self) -> float:
        """Mean squared distance to the mean."""
        return self._squares / self.count

    def add(self, values: np.ndarray) -> None:
        """Take in values, at least one."""
        count, mean = len(values), float(np.mean(values))
        total, apart = self.count + count, mean - self.mean
        # Squares about the mean of each piece: those about 0 would cancel.
        self._squares += float(np.sum((values - mean) ** 2)) \
            + apart ** 2 * self.count * count / total
        self.mean += apart * count / total
        self.count = total


def measures(loss: Loss | LossFunction, features: np.ndarray, targets: np.ndarray,
             coefs: np.ndarray, intercepts: np.ndarray, *, classes: bool,
             weights: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray | None]:
    """:func:`mean_losses`, and with ``classes`` the share of the rows that every model classifies
    correctly; each row times its weight, if there are ``weights``.
    """
    def summed(values: np.ndarray, start: int, stop: int) -> np.ndarray:
        return values.sum(axis=0) if shares is None else shares[start:stop] @ values

    def sums(start: int, stop: int) -> np.ndarray:
        values = outputs(features[start:stop], coefs, intercepts)
        losses = formula_of(loss).value(values, targets[start:stop, None])
        total = losses.sum(axis=(0, 2)) if shares is None else \
            summed(losses.sum(axis=2), start, stop)
        if not classes:
            return np.stack([total])
        right = decide(values) == decide(targets[start:stop])[:, None]
        return np.stack([total, summed(right, start, stop)])

    shares = None if weights is None else weights / weights.mean(dtype=np.float64)
    total, *correct = _over_chunks(sums, len(features), features.shape[1], intercepts.size)
    return (total / (len(features) * intercepts.shape[1]),
            correct[0] / len(features) if classes else None)


def mean_losses(loss: Loss | LossFunction, features: np.ndarray, targets: np.ndarray,
                coefs: np.ndarray, intercepts: np.ndarray) -> np.ndarray:
    """Loss of every model, the mean over the rows and outputs.

    The formulas are those of :data:`bitstep.pipeline.losses.LOSSES`.

    Parameters
    ----------
    loss : Loss or LossFunction
        The Huber loss with its bound: :func:`bitstep.training.objective.loss_of`.
    features : ndarray of float, shape (n_rows, n_features)
    targets : ndarray of float, shape (n_rows, n_outputs)
        Targets of the outputs, in label units; +1 and -1 for a classification, which all but
        least squares are.
    coefs : ndarray of float, shape (n_models, n_outputs, n_features)
        In the features' units.
    intercepts : ndarray of float, shape (n_models, n_outputs)

    Returns
    -------
    ndarray of float64, shape (n_models,)
    """
    return measures(loss, features, targets, coefs, intercepts, classes=False)[0]


def squared_losses(features: np.ndarray, targets: np.ndarray, coefs: np.ndarray,
                   intercepts: np.ndarray) -> np.ndarray:
    """:func:`mean_losses` of least squares: 1/(2K) sum of squared residuals over the K rows."""
    return mean_losses(Loss.LEAST_SQUARES, features, targets, coefs, intercepts)


def accuracies(features: np.ndarray, labels: np.ndarray, classes: np.ndarray, coefs: np.ndarray,
               intercepts: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Share of the rows that every model classifies correctly.

    Parameters
    ----------
    labels : ndarray, shape (n_rows,)
        Elements of ``classes``.
    coefs, intercepts
        As for :func:`squared_losses`; one output for two classes, else one for each class.
    weights : ndarray, shape (n_rows,), or None
        Weights of the rows.

    Returns
    -------
    ndarray of float64, shape (n_models,)
    """
    def correct(start: int, stop: int) -> np.ndarray:
        chosen = decide(outputs(features[start:stop], coefs, intercepts))
        right = classes[chosen] == labels[start:stop, None]
        # As float64: a sum of uint16 times bool would be uint16, and wrap.
        return right.sum(axis=0) if weights is None \
            else weights[start:stop].astype(np.float64) @ right

    total = _over_chunks(correct, len(features), features.shape[1], intercepts.size)
    return total / (len(features) if weights is None else weights.sum(dtype=np.float64))


def code_accuracies(datasets: Sequence[QuantizedDataset], weights: np.ndarray,
                    intercepts: np.ndarray) -> np.ndarray:
    """:func:`accuracies`, from quantized rows alone: on what their codes, or fine rows, stand for.

    Parameters
    ----------
    datasets : sequence of QuantizedDataset
        The same rows, with the signs of each output.
    weights : ndarray of float, shape (n_models, n_outputs, n_features)
        For scaled features.
    intercepts : ndarray of float, shape (n_models, n_outputs)

    Returns
    -------
    ndarray of float64, shape (n_models,)
    """
    def correct(values: np.ndarray, signs: np.ndarray) -> np.ndarray:
        return decide(values) == decide(signs)[:, None]

    return _over_codes(correct, datasets, weights, intercepts) / _count(datasets[0])


def joint_code_losses(datasets: Sequence[QuantizedDataset], weights: np.ndarray,
                      intercepts: np.ndarray, loss: Loss | LossFunction) -> np.ndarray:
    """:func:`mean_losses` of a loss of all outputs together, from quantized rows alone; parameters
    as of :func:`code_accuracies`.
    """
    def losses(values: np.ndarray, signs: np.ndarray) -> np.ndarray:
        return formula_of(loss).value(values, signs[:, None]).sum(axis=2)

    total = _over_codes(losses, datasets, weights, intercepts)
    return total / (_count(datasets[0]) * len(datasets))


def _over_codes(measure: Callable[[np.ndarray, np.ndarray], np.ndarray],
                datasets: Sequence[QuantizedDataset], weights: np.ndarray,
                intercepts: np.ndarray) -> np.ndarray:
    """Sum over quantized rows of a measure of all outputs' values and signs, of each model."""
    def work(start: int, stop: int) -> np.ndarray:
        dots, _ = first.rows.values(slice(start, stop))
        signs = np.column_stack([data.labels.part(start, stop) for data in datasets])
        return _over_rows(measure(outputs(dots, weights, intercepts), signs), first, start, stop)

    first = datasets[0]
    return _over_chunks(work, first.n_rows, first.n_features, intercepts.size)


def losses_of_codes(datasets: Sequence[QuantizedDataset], weights: np.ndarray,
                    intercepts: np.ndarray, loss: Loss | LossFunction) -> np.ndarray:
    """Loss of every model, the mean over the outputs, from quantized rows alone: one of all outputs
    together, or :func:`code_losses` of each; parameters as of :func:`code_accuracies`.
    """
    if formula_of(loss).joint:
        return joint_code_losses(datasets, weights, intercepts, loss)
    return np.mean([code_losses(data, weights[:, number], intercepts[:, number], loss)
                    for number, data in enumerate(datasets)], axis=0)


def outputs(features: np.ndarray, coefs: np.ndarray, intercepts: np.ndarray) -> np.ndarray:
    """Outputs of models for every row.

    Parameters
    ----------
    features : ndarray, shape (n_rows, n_features)
    coefs : ndarray, shape (..., n_features)
    intercepts : ndarray, shape (...)

    Returns
    -------
    ndarray, shape (n_rows, ...)
    """
    flat = features @ coefs.reshape(-1, features.shape[1]).T
    return flat.reshape(len(features), *intercepts.shape) + intercepts


def decide(values: np.ndarray) -> np.ndarray:
    """Number of the class for output values of shape (..., n_outputs)."""
    if values.shape[-1] == 1:
        return (values[..., 0] > 0).astype(np.int64)
    return values.argmax(axis=-1)


def code_losses(data: QuantizedDataset, weights: np.ndarray, intercepts: np.ndarray,
                loss: Loss | LossFunction = Loss.LEAST_SQUARES) -> np.ndarray:
    """Loss of every model of one output, from quantized rows alone; by their weights.

    Where there are fine rows, or rows are floating-point numbers, it is the mean loss on those.
    Else it is estimated from codes:

    - Least squares. The residuals of quantized rows are larger than those of the features by the
      noise of rounding, whose mean square is known: 1/(2K) sum (q.x - y)^2 - 1/2 sum D_k x_k^2.
      With two samples a value (``double``) the product of both residuals needs no such term.
    - The other losses. The mean loss on the first sample, which is biased by rounding: being
      convex, it is too large, on average, for encodings that draw.

    Parameters
    ----------
    data : QuantizedDataset
    weights : ndarray of float, shape (n_models, n_features)
        For scaled features.
    intercepts : ndarray of float, shape (n_models,)
    loss : Loss or LossFunction

    Returns
    -------
    ndarray of float64, shape (n_models,)
        Least squares in label units squared; without bias for the encodings that draw, so it may
        be below 0 by chance.
    """
    def losses(start: int, stop: int) -> np.ndarray:
        dots, gradients = data.rows.values(slice(start, stop))
        targets = data.label_offset + data.label_scale * data.labels.part(start, stop)
        if not rule.quadratic:
            values = dots @ weights.T + intercepts
            return _over_rows(rule.value(values, targets[:, None]), data, start, stop)
        first = dots @ weights.T + intercepts - targets[:, None]
        second = first if gradients is dots else \
            gradients @ weights.T + intercepts - targets[:, None]
        return _over_rows(first * second, data, start, stop)

    rule = formula_of(loss)
    total = _over_chunks(losses, data.n_rows, data.n_features, len(weights))
    if not rule.quadratic:
        return total / _count(data)
    if data.row_format == "one_level" and data.fine_rows is None:
        total -= _count(data) * (weights ** 2 @ np.asarray(data.variance))
    return total / (2 * _count(data))


def _over_rows(values: np.ndarray, data: QuantizedDataset, start: int, stop: int) -> np.ndarray:
    """Sum over some rows of values, shape (rows, n_models), each times its row's weight."""
    if data.rows.weights is None:
        return values.sum(axis=0)
    # As float64: a product of uint16 and bool would be uint16, and wrap.
    return data.rows.weights[start:stop].astype(np.float64) @ values


def _count(data: QuantizedDataset) -> float:
    """Sum of the weights of all rows; without weights their number."""
    return data.n_rows if data.rows.weights is None \
        else data.rows.weights.sum(dtype=np.float64)


def _over_chunks(work: Callable[[int, int], np.ndarray], n_rows: int, n_features: int,
                 n_outputs: int) -> np.ndarray:
    """Sum of ``work(start, stop)`` over chunks of rows, some chunks at a time by each core.

    Which of them are summed first does not depend on the cores.
    """
    def summed(first: int) -> np.ndarray:
        return functools.reduce(np.add, (
            work(start, min(start + size, n_rows))
            for start in range(first, min(first + part, n_rows), size)))

    size = max(1, CHUNK_VALUES // max(n_outputs, n_features))
    part = _CHUNKS * size
    with one_blas_thread() if n_rows > size else nullcontext():
        return functools.reduce(np.add, in_threads(summed, range(0, n_rows, part)))
