"""Losses and accuracies of a whole training run, on features or on quantized rows.

Everything is float64, and done in chunks of rows so that the residuals of many epochs and classes
need little memory.
"""

from typing import TYPE_CHECKING

import numpy as np

from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.levels import decode, unpack_codes, unpack_labels
from bitstep.pipeline.memory import unpack_floats
from bitstep.pipeline.registers import LabelFormat, Loss

if TYPE_CHECKING:
    from bitstep.quantization import QuantizedDataset

CHUNK_VALUES = 1 << 21      # residuals, or features, that are in memory at a time


def mean_losses(loss: Loss, features: np.ndarray, targets: np.ndarray, coefs: np.ndarray,
                intercepts: np.ndarray) -> np.ndarray:
    """Loss of every model, the mean over the rows and outputs.

    With z what the model gives for a row and y its target: (z - y)^2 / 2 for least squares,
    max(0, 1 - y z)^2 / 2 for the squared hinge, max(0, 1 - y z) for the hinge and
    log(1 + exp(-y z)) for the logistic loss.

    Parameters
    ----------
    loss : Loss
    features : ndarray of float, shape (n_rows, n_features)
    targets : ndarray of float, shape (n_rows, n_outputs)
        What each output should be, in label units; +1 and -1 for a classification, which all but
        least squares are.
    coefs : ndarray of float, shape (n_models, n_outputs, n_features)
        In the features' units.
    intercepts : ndarray of float, shape (n_models, n_outputs)

    Returns
    -------
    ndarray of float64, shape (n_models,)
    """
    total = np.zeros(coefs.shape[0])
    for start, stop in _chunks(features, intercepts.size):
        values = outputs(features[start:stop], coefs, intercepts)
        total += _row_losses(loss, values, targets[start:stop, None]).sum(axis=(0, 2))
    return total / (len(features) * intercepts.shape[1])


def squared_losses(features: np.ndarray, targets: np.ndarray, coefs: np.ndarray,
                   intercepts: np.ndarray) -> np.ndarray:
    """:func:`mean_losses` of least squares: 1/(2K) sum of squared residuals over the K rows."""
    return mean_losses(Loss.LEAST_SQUARES, features, targets, coefs, intercepts)


def _row_losses(loss, values, targets):
    """Loss of every output value; overwrites the values."""
    if loss == Loss.LEAST_SQUARES:
        values -= targets
        values *= values
        values /= 2
        return values
    values *= targets
    if loss == Loss.LOGISTIC:
        return np.logaddexp(0, -values)     # no overflow, however wrong a row is
    np.subtract(1, values, out=values)
    np.maximum(values, 0, out=values)
    return values if loss == Loss.HINGE else values * values / 2


def accuracies(features: np.ndarray, labels: np.ndarray, classes: np.ndarray, coefs: np.ndarray,
               intercepts: np.ndarray) -> np.ndarray:
    """Share of the rows that every model classifies correctly.

    Parameters
    ----------
    labels : ndarray, shape (n_rows,)
        Elements of ``classes``.
    coefs, intercepts
        As for :func:`squared_losses`; one output for two classes, else one for each class.

    Returns
    -------
    ndarray of float64, shape (n_models,)
    """
    correct = np.zeros(coefs.shape[0])
    for start, stop in _chunks(features, intercepts.size):
        chosen = decide(outputs(features[start:stop], coefs, intercepts))
        correct += (classes[chosen] == labels[start:stop, None]).sum(axis=0)
    return correct / len(features)


def outputs(features: np.ndarray, coefs: np.ndarray, intercepts: np.ndarray) -> np.ndarray:
    """What the models give, shape (n_rows, *intercepts.shape); parameters as above."""
    flat = features @ coefs.reshape(-1, features.shape[1]).T
    return flat.reshape(len(features), *intercepts.shape) + intercepts


def decide(values: np.ndarray) -> np.ndarray:
    """Number of the class for output values of shape (..., n_outputs)."""
    return (values[..., 0] > 0).astype(int) if values.shape[-1] == 1 else values.argmax(axis=-1)


def code_losses(data: "QuantizedDataset", weights: np.ndarray, intercepts: np.ndarray,
                loss: Loss = Loss.LEAST_SQUARES) -> np.ndarray:
    """Loss of every model of one output, from quantized rows alone.

    Where the rows are kept at full precision, or are floating-point numbers, it is the mean loss on
    those. Else it is estimated from codes:

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
    loss : Loss

    Returns
    -------
    ndarray of float64, shape (n_models,)
        Least squares in label units squared; without bias for the encodings that draw, so it may
        be below 0 by chance.
    """
    targets = data.label_offset + data.label_scale * unpack_labels(
        data.labels, LabelFormat(data.label_format), data.n_rows)
    total = np.zeros(len(weights))
    for start, stop in _chunks(np.empty((data.n_rows, data.n_features), np.bool_), len(weights)):
        dots, gradients = row_values(data, slice(start, stop))
        if loss != Loss.LEAST_SQUARES:
            values = dots @ weights.T + intercepts
            total += _row_losses(loss, values, targets[start:stop, None]).sum(axis=0)
            continue
        first = dots @ weights.T + intercepts - targets[start:stop, None]
        second = first if gradients is dots else \
            gradients @ weights.T + intercepts - targets[start:stop, None]
        total += (first * second).sum(axis=0)
    if loss != Loss.LEAST_SQUARES:
        return total / data.n_rows
    if data.family == "single" and data.full is None:
        total -= data.n_rows * (weights ** 2 @ np.asarray(data.variance))
    return total / (2 * data.n_rows)


def row_values(data: "QuantizedDataset",
               rows: slice | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Scaled features of some rows, as exactly as the data know them: at full precision where there
    is such a copy, else :func:`code_levels`, whose shapes these are.
    """
    if data.full is None:
        return code_levels(data, rows)
    scale = data.level_limit * 2.0 ** data.row_config.full_fraction
    values = data.full[rows] / scale
    return values, values


def code_levels(data: "QuantizedDataset",
                rows: slice | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Scaled features that the codes of some rows of the first copy stand for.

    Returns
    -------
    dots, gradients : ndarray of float64, shape (rows chosen, n_features)
        Both samples of family ``double``; the same array twice for the others.
    """
    if data.family == "float":
        values = unpack_floats(data.rows[0][rows], data.n_features).astype(np.float64)
        return values, values
    config = PipelineConfig(bus_width=data.bus_width, bits=data.bits, family=data.family)
    codes = unpack_codes(np.ascontiguousarray(data.rows[0][rows]), config, data.n_features)
    dots, gradients = decode(codes, bits=data.bits, family=data.family)
    scaled = dots / data.level_limit
    return scaled, scaled if gradients is dots else gradients / data.level_limit


def _chunks(features, n_outputs):
    size = max(1, CHUNK_VALUES // max(n_outputs, features.shape[1]))
    for start in range(0, len(features), size):
        yield start, min(start + size, len(features))
