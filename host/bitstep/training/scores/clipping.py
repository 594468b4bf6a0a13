"""What it costs that a scaler clips columns."""

from typing import Any, NamedTuple

import numpy as np

from bitstep.data.blocks import row_blocks
from bitstep.data.views import rows_at
from bitstep.pipeline.losses import LossFunction
from bitstep.training.losses import measures
from bitstep.training.scores.scoring import best_constant

FEW = 10                    # rows for each that is clipped
VALUES = 1 << 22            # of the rows that are kept, 32 MB; more of them are not few


class BeyondClip(NamedTuple):
    """Rows with values that are clipped.

    Attributes
    ----------
    rows : ndarray of int64, shape (n_some,)
        Their numbers.
    features : ndarray of float, shape (n_some, n_features)
        As they were.
    clip : ndarray of float64, shape (2, n_features)
        See :class:`bitstep.quantization.Scaler`.
    """

    rows: np.ndarray
    features: np.ndarray
    clip: np.ndarray


def beyond_clip(features: Any, clip: np.ndarray | None, rule: LossFunction) -> BeyondClip | None:
    """Rows of a regression with values that are clipped; None if there are none, more than a tenth
    of all, or more than 2^22 values in them.

    Of a classification None: a sign is right by chance, however far off a value is.

    Parameters
    ----------
    features : ndarray of float or RowView, shape (n_rows, n_features)
        Before they are clipped.
    clip : ndarray of float64, shape (2, n_features), or None
    rule : LossFunction
    """
    if clip is None or rule.signs:
        return None
    columns = np.flatnonzero(np.isfinite(clip).any(axis=0))
    low, high = clip[:, columns]
    found = [np.zeros(0, np.int64)]
    for _, start, stop in row_blocks(*features.shape):
        values = features[start:stop][:, columns]
        found.append(start + np.flatnonzero(((values < low) | (values > high)).any(axis=1)))
    rows = np.concatenate(found)
    if not 0 < FEW * len(rows) <= features.shape[0] or len(rows) * features.shape[1] > VALUES:
        return None
    return BeyondClip(rows, np.array(rows_at(features, rows)[0:len(rows)]), clip)


def costly_clipping(beyond: BeyondClip | None, targets: np.ndarray, weights: np.ndarray | None,
                    rule: LossFunction, coefs: np.ndarray, intercepts: np.ndarray,
                    loss: float) -> str | None:
    """A sentence if the rows that are clipped have most of the training loss, and more than a
    twentieth of what the best constant has; else None, and where their values are outliers: without
    clipping the model then has more than twice their loss.

    Parameters
    ----------
    beyond : BeyondClip or None
    targets : ndarray of float, shape (n_rows, n_outputs)
    weights : ndarray, shape (n_rows,), or None
        Weights of the rows.
    rule : LossFunction
    coefs : ndarray of float, shape (n_outputs, n_features)
        The model, in the features' units.
    intercepts : ndarray of float, shape (n_outputs,)
    loss : float
        Training loss of the model, on clipped rows.
    """
    if beyond is None:
        return None
    rows, features, clip = beyond
    given = np.ones(len(targets)) if weights is None else weights
    share = given[rows].sum(dtype=np.float64) / given.sum(dtype=np.float64)
    clipped, whole = (share * float(measures(
        rule, values, targets[rows], coefs[None], intercepts[None], classes=False,
        weights=given[rows])[0][0]) for values in (np.clip(features, *clip), features))
    if clipped <= max(loss / 2, whole / 2, best_constant(rule, targets, weights) / 20):
        return None
    return (f"{len(rows):,} of {len(targets):,} rows have values that scaler 'quantile' clips, and "
            f"{100 * clipped / loss:.0f} % of the training loss; scaler 'minmax' clips none")
