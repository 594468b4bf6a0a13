"""What it costs that a scaler clips columns."""

from typing import Any

import numpy as np

from bitstep.data.views import rows_at
from bitstep.pipeline.losses import LossFunction
from bitstep.training.losses import CHUNK_VALUES, measures
from bitstep.training.scores.scoring import best_constant


def costly_clipping(clip: np.ndarray | None, features: Any, targets: np.ndarray,
                    weights: np.ndarray | None, rule: LossFunction, coefs: np.ndarray,
                    intercepts: np.ndarray, loss: float) -> str | None:
    """A sentence if few rows have most of the training loss, as their values are clipped; None if
    not, or if that is at most a twentieth of what the best constant has.

    Parameters
    ----------
    clip : ndarray of float64, shape (2, n_features), or None
        See :class:`bitstep.quantization.Scaler`.
    features : ndarray of float or RowView, shape (n_rows, n_features)
        Clipped.
    targets : ndarray of float, shape (n_rows, n_outputs)
    weights : ndarray, shape (n_rows,), or None
        Weights of the rows.
    rule : LossFunction
    coefs : ndarray of float, shape (n_outputs, n_features)
        The model, in the features' units.
    intercepts : ndarray of float, shape (n_outputs,)
    loss : float
        Training loss of the model.
    """
    if clip is None:
        return None
    rows = _rows_at_ends(features, clip)
    if not 0 < 10 * len(rows) <= len(targets):
        return None
    own = None if weights is None else weights[rows]
    found, _ = measures(rule, rows_at(features, rows), targets[rows], coefs[None],
                        intercepts[None], classes=False, weights=own)
    share = len(rows) / len(targets) if weights is None or own is None \
        else own.sum(dtype=np.float64) / weights.sum(dtype=np.float64)
    part = float(found[0]) * share
    if part <= max(loss / 2, best_constant(rule, targets, weights) / 20):
        return None
    return (f"{len(rows):,} of {len(targets):,} rows have values that scaler 'quantile' clips, and "
            f"{100 * part / loss:.0f} % of the training loss; scaler 'minmax' clips none")


def _rows_at_ends(features, clip):
    """Numbers of the rows that have a value at an end of a column that is clipped."""
    columns = np.flatnonzero(np.isfinite(clip).any(axis=0))
    size = max(1, CHUNK_VALUES // features.shape[1])
    found = [np.zeros(0, np.int64)]
    for start in range(0, features.shape[0], size):
        values = features[start:start + size][:, columns]
        low, high = clip[:, columns].astype(values.dtype)       # as they were clipped
        found.append(start + np.flatnonzero(((values <= low) | (values >= high)).any(axis=1)))
    return np.concatenate(found)
