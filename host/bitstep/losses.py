"""Losses and accuracies of a whole training run, on features or on their codes.

Everything is float64, and done in chunks of rows so that the residuals of many epochs and classes
need little memory.
"""

from typing import TYPE_CHECKING

import numpy as np

from bitstep.config import PipelineConfig
from bitstep.golden.levels import decode, unpack_codes, unpack_labels
from bitstep.registers import LabelFormat

if TYPE_CHECKING:
    from bitstep.quantization import QuantizedDataset

CHUNK_VALUES = 1 << 21      # residuals, or features, that are in memory at a time


def squared_losses(features: np.ndarray, targets: np.ndarray, coefs: np.ndarray,
                   intercepts: np.ndarray) -> np.ndarray:
    """Loss of every model, 1/(2K) sum of squared residuals over the K rows.

    Parameters
    ----------
    features : ndarray of float, shape (n_rows, n_features)
    targets : ndarray of float, shape (n_rows, n_outputs)
        What each output should be, in label units; +1 and -1 for a classification.
    coefs : ndarray of float, shape (n_models, n_outputs, n_features)
        In the features' units.
    intercepts : ndarray of float, shape (n_models, n_outputs)

    Returns
    -------
    ndarray of float64, shape (n_models,)
        The mean over the outputs.
    """
    total = np.zeros(coefs.shape[0])
    for start, stop in _chunks(features, intercepts.size):
        residuals = outputs(features[start:stop], coefs, intercepts) - targets[start:stop, None]
        total += np.einsum("rmo,rmo->m", residuals, residuals)
    return total / (2 * len(features) * intercepts.shape[1])


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


def code_losses(data: "QuantizedDataset", weights: np.ndarray,
                intercepts: np.ndarray) -> np.ndarray:
    """Loss of every model of one output, estimated from codes alone.

    The residuals of quantized rows are larger than those of the features by the noise of rounding,
    whose mean square is known: 1/(2K) sum (q.x - y)^2 - 1/2 sum D_k x_k^2. With two samples a value
    (``double``) the product of both residuals needs no such term.

    Parameters
    ----------
    data : QuantizedDataset
    weights : ndarray of float, shape (n_models, n_features)
        For scaled features.
    intercepts : ndarray of float, shape (n_models,)

    Returns
    -------
    ndarray of float64, shape (n_models,)
        In label units; without bias for the encodings that draw, so it may be below 0 by chance.
    """
    targets = data.label_offset + data.label_scale * unpack_labels(
        data.labels, LabelFormat(data.label_format), data.n_rows)
    total = np.zeros(len(weights))
    for start, stop in _chunks(np.empty((data.n_rows, data.n_features), np.bool_), len(weights)):
        dots, gradients = code_levels(data, slice(start, stop))
        first = dots @ weights.T + intercepts - targets[start:stop, None]
        second = first if gradients is dots else \
            gradients @ weights.T + intercepts - targets[start:stop, None]
        total += (first * second).sum(axis=0)
    if data.family == "single":
        total -= data.n_rows * (weights ** 2 @ np.asarray(data.variance))
    return total / (2 * data.n_rows)


def code_levels(data: "QuantizedDataset",
                rows: slice | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Scaled features that the codes of some rows of the first copy stand for.

    Returns
    -------
    dots, gradients : ndarray of float64, shape (rows chosen, n_features)
        Both samples of family ``double``; the same array twice for family ``single``.
    """
    config = PipelineConfig(bus_width=data.bus_width, bits=data.bits, family=data.family)
    codes = unpack_codes(np.ascontiguousarray(data.rows[0][rows]), config, data.n_features)
    dots, gradients = decode(codes, bits=data.bits, family=data.family)
    scaled = dots / data.level_limit
    return scaled, scaled if gradients is dots else gradients / data.level_limit


def _chunks(features, n_outputs):
    size = max(1, CHUNK_VALUES // max(n_outputs, features.shape[1]))
    for start in range(0, len(features), size):
        yield start, min(start + size, len(features))
