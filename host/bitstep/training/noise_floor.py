"""Noise floor: the loss that rounding to few bits adds to that of float SGD, estimated from a run.

Let q = u + e be a decoded row, with e the error of rounding and D_j = var(e_j). The corrected
gradient q (q.x - y) - D x is right on average. With r = u.x - y its noise is

    e r + u (e.x) + (e (e.x) - D x)

Its covariance in the basis of the eigenvectors w_i of H = mean(u u'), with eigenvalues l_i, is
about c_i = (2 L + S) w_i' D w_i + l_i S, with L the mean of r^2 / 2 and S = sum_j D_j x_j^2. SGD
carries it into the loss in two ways::

    F = s / (4 B) sum_i c_i  +  1 / (2 K C) sum_i a_i c_i / l_i

The first one is the stationary noise of the last step s with batch B: its covariance V solves
H V + V H = s C / B for gradients with noise of covariance C [1]. The second one is the distance
between the minimum of K rows of codes, of which there are C copies, and that of the features: a
mean of K C draws; a_i = (1 - exp(-l_i K / B sum of the steps))^2 is the share of the way that the
steps have gone.

Against float SGD of the same steps F is an order of magnitude: single runs differ from it by a
factor of 3 to 5 and more, means of seeds by less (docs/report.md).

[1] Mandt, Hoffman, Blei: Stochastic Gradient Descent as Approximate Bayesian Inference, 2017.
"""

from typing import NamedTuple

import numpy as np

from bitstep.pipeline.encodings import encoding_of
from bitstep.pipeline.registers import Loss
from bitstep.quantization import BitPlaneRows, QuantizedRows
from bitstep.training.objective import Objective, Training

MAX_FEATURES = 256          # eigenvectors of more may take longer than the training
SAMPLE_ROWS = 4096
MATTERS = 0.005             # of the loss: less is not worth a sentence


class NoiseFloor(NamedTuple):
    """Estimate of a noise floor.

    Attributes
    ----------
    floor : float
        F, in squared units of the label.
    share : float
        F over the loss without it, which is about that of float SGD.
    """

    floor: float
    share: float


def noise_floor(rows: QuantizedRows | BitPlaneRows, objective: Objective, training: Training, *,
                weights: np.ndarray, steps: np.ndarray, loss: float) -> NoiseFloor | None:
    """Estimate the noise floor of a training, the mean over its outputs.

    Parameters
    ----------
    rows : QuantizedRows or BitPlaneRows
    objective, training
        As for :func:`bitstep.training.train.train_model`.
    weights : ndarray of float64, shape (n_outputs, n_features)
        For scaled features, after the last epoch.
    steps : ndarray of float64, shape (epochs_done,)
        Steps as the hardware took them.
    loss : float
        Mean loss of its last epoch, in label units.

    Returns
    -------
    NoiseFloor or None
        None where the formula does not hold: for other losses than the squared error, encodings
        without corrections, bit-plane rows, a model or updates of few bits, penalties or a box, and
        more than 256 features.
    """
    if objective.loss != Loss.LEAST_SQUARES or not encoding_of(rows.encoding).corrected \
            or training.few_bits or rows.weights is not None or objective.held_by \
            or rows.n_features > MAX_FEATURES:
        return None
    noise = np.asarray(rows.variance)
    values, vectors = _spectrum(rows, training.fit_intercept)
    spread = (noise @ vectors[:len(noise)] ** 2)            # w_i' D w_i; the intercept has none
    with np.errstate(over="ignore"):
        travelled = (1 - np.exp(-values * steps.sum() * rows.n_rows / training.batch)) ** 2
    share_of_rows = np.divide(travelled, values, out=np.zeros_like(values),
                              where=values > 1e-12 * values.max())
    factors = steps[-1] / (4 * training.batch) + share_of_rows / (2 * rows.n_rows * rows.copies)
    total = float(np.mean(weights ** 2 @ noise))  # S, the mean over the outputs
    floor = float(factors @ ((2 * loss + total) * spread + values * total))
    return NoiseFloor(floor, floor / max(loss - floor, 0.1 * loss) if loss > 0 else 0.0)


def _spectrum(rows: QuantizedRows | BitPlaneRows,
              fit_intercept: bool) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues and eigenvectors of the mean of u u', from the codes of some rows."""
    pick = np.linspace(0, rows.n_rows - 1, min(rows.n_rows, SAMPLE_ROWS)).astype(np.int64)
    sample, _ = rows.levels(pick)
    noise = np.asarray(rows.variance)
    if fit_intercept:
        sample = np.hstack([sample, np.ones((len(sample), 1))])
        noise = np.append(noise, 0.0)
    values, vectors = np.linalg.eigh(sample.T @ sample / len(sample) - np.diag(noise))
    return np.maximum(values, 0.0), vectors


def advice(found: NoiseFloor | None, bits: int) -> str | None:
    """A sentence on a noise floor that matters; None for others.

    Parameters
    ----------
    found : NoiseFloor or None
    bits : int
        Stored bits of a value.
    """
    if found is None or found.share <= MATTERS:
        return None
    more = next((other for other in range(bits + 1, 8)
                 if found.share * _variance(other) / _variance(bits) <= MATTERS), 8)
    left = found.share * _variance(more) / _variance(bits)
    remedy = f"; {more} bits would leave about {_percent(left)} %" if bits < 8 else ""
    return (f"the noise of {bits} bit{'s' * (bits > 1)} adds about {_percent(found.share)} % to "
            f"the loss of float SGD ({found.floor:.3g}, an estimate){remedy}, and smaller last "
            "steps leave less")


def _percent(share: float) -> str:
    """A share in percent, to two digits."""
    return f"{float(f'{100 * share:.2g}'):,g}"


def _variance(bits: int) -> float:
    """Quantization variance in proportion to the square of a level."""
    return 1.0 / max(1, (1 << (bits - 1)) - 1) ** 2
