"""Weights of rows and classes on their way to a device: beside the rows, or as copies of them.

Where the pipeline has weights of rows (:func:`go_along`), they go along with the rows, 16 bits
each, and multiply the rows' updates; no row is copied but a few heavy ones
(:class:`bitstep.training.weighing.WeightRule`).

Other pipelines, those of boards that were built without, give every row they read the same step. To
read a row several times needs nothing of the hardware: a row of weight w is read w times in a pass,
and a training with whole weights has the bits of one on the repeated rows. So it is for chunks of
:meth:`partial_fit`, too.

Only the ratio of weights counts (:func:`copies_of`). In ratios of whole numbers they are exact:
weights of 1/n are no weights, and .5, 1 and 1.5 are 1, 2 and 3 copies. Of others a row of mean
weight is read up to :data:`COPIES` times, and the rest of each is drawn: the row is read floor(c)
or ceil(c) times, c times on average. So copies deviate from their weights by .41 / COPIES, 2.6 %,
where these are of about one size, as a root mean square; the seed then moves a coefficient by about
that share of its standard error. Rows of much data are read less often (:data:`COPIED_VALUES`).
Rows that are left out are said in words (:attr:`Pass.note`), and where copies deviate, no
certificate is given. Chunks of a stream are parts of a whole that no call knows, so there weights
are numbers of copies as they are.

The copies of a row are spread evenly over the pass: copy j of c copies of row i of n stands at
(i / n + j / c) modulo 1 of it. Copies that follow each other would pull the model to one row, many
times in turn: of 6,000 rows of two classes, 9 to 1, with ``class_weight="balanced"`` and log loss,
the balanced accuracy is .733 with spread copies and .715 without (logistic regression in float:
.732).

Quantized rows take memory for every copy; the rows that they are made of take 8 bytes a copy
(:class:`bitstep.data.views.RowView`).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from bitstep.data.views import RowView, is_sparse, view_of
from bitstep.training.chunks import fingerprint
from bitstep.training.raised import Raised
from bitstep.training.weighing import weigh

COPIES = 16                 # of a row of mean weight, at most, of weights that are drawn
COPIED_VALUES = 1 << 25     # of a pass with copies, unless there are more anyway
MAX_PASS_ROWS = 1 << 20     # of whole weights, unless the data have a COPIES-th of them
CLOSE = 0.05                # deviation of copies from their weights that is worth no more copies
RATIO = 1e-12               # of whole numbers, relative: what division rounds
LEFT_OUT = 0.1, 0.005       # shares of the rows, and of all weight, that are left out with a word
READ_OF_CHUNK = 0.25        # share of a chunk's rows, on average, that are read without a word
MADE = "cpu", "golden", "sim"       # devices whose pipeline is made for the rows
FEW_WEIGHTS = 256           # different ones, of which common multiples are looked for


class Pass(NamedTuple):
    """Rows of a pass.

    Attributes
    ----------
    features : ndarray or RowView, shape (rows of a pass, n_features)
    targets : ndarray, shape (rows of a pass, n_outputs)
    weights : ndarray of uint16, shape (rows of a pass,), or None
        Weights that go along with the rows (:mod:`bitstep.quantization.weights`).
    deviation : float
        Root mean square of what the copies of a row differ from its weight by, over that of the
        weights; 0: copies are in the ratio of the weights.
    note : str or None
        A sentence on rows that have a weight and no copy, if they are a share of :data:`LEFT_OUT`,
        or of a chunk if on average less than :data:`READ_OF_CHUNK` of its rows are read; where
        weights go along, :attr:`bitstep.training.raised.Raised.note`.
    stands_for : float
        Rows that a row of the pass stands for on average: of whole weights that differ, which are
        those of repeated rows, their sum over the rows; less than 1 where rows stand in the pass
        several times, else 1. The default penalty is by these.
    places : ndarray of int, shape (n_rows,), or None
        Number of each row among those that were given; None: these are the rows, in their order.
    """

    features: Any
    targets: np.ndarray
    weights: np.ndarray | None = None
    deviation: float = 0.0
    note: str | None = None
    stands_for: float = 1.0
    places: np.ndarray | None = None

    @property
    def other_weights(self) -> str | None:
        """Why the optimum of the pass is not that of the rows with their weights, as a part of a
        sentence; None if it is, so that its gap may be told.
        """
        if self.deviation:
            return (f"copies of rows deviate from their weights by {100 * self.deviation:.2g} %, "
                    "so no bound of the gap is given (ratios of small whole numbers are exact)")
        if self.weights is not None and self.note:
            return "small weights of rows are raised, so no bound of the gap is given"
        return None


class WeightWarning(UserWarning):
    """Rows have weights that their copies, or 16 bits, do not have."""


def copies_of(weights: np.ndarray, n_features: int = 1) -> tuple[np.ndarray, float]:
    """Copies of each row, on average, in the ratio of the weights.

    Parameters
    ----------
    weights : ndarray of float64, shape (n_rows,)
        Of :func:`bitstep.training.weights.checked_weights`, all above 0.
    n_features : int
        Values of a row.

    Returns
    -------
    copies : ndarray of float64, shape (n_rows,)
        Whole numbers where a pass of at most :data:`MAX_PASS_ROWS` and :data:`COPIED_VALUES`, or of
        :data:`COPIES` for each row, has them in the ratio of the weights: the weights themselves if
        they are whole, else the least ones. Of others the least numbers from which what is drawn
        deviates by :data:`CLOSE`, at most :data:`COPIES` on average.
    deviation : float
        See :class:`Pass`.
    """
    most = max(min(MAX_PASS_ROWS, COPIED_VALUES // n_features), COPIES * len(weights))
    top = weights.max()
    if top <= most and not (weights % 1).any() and weights.sum() <= most:
        return weights, 0.0
    weights = weights / top
    values, counts = np.unique(weights, return_counts=True)
    for unit in range(1, COPIES + 1) if values[0] * most >= 1 else ():
        found = values * (unit / values[0])
        if found @ counts > most:
            break
        if (np.abs(found - np.rint(found)) <= RATIO * found).all():
            return np.rint(weights * (unit / values[0])), 0.0
    limit = min(COPIES, max(1.0, COPIED_VALUES / (len(weights) * n_features))) / weights.mean()
    scales = np.array([limit])
    if len(values) <= FEW_WEIGHTS:
        with np.errstate(over="ignore"):
            scales = np.append((np.arange(1, COPIES + 1) / values[:, None]).ravel(), limit)
        enough = 0.5 / weights.mean()       # for half as many rows as there are
        scales = np.unique(scales[(scales >= enough) & (scales <= limit)])
    size = np.sqrt(values ** 2 @ counts)
    for scale in scales:
        rest = values * scale % 1
        deviation = float(np.sqrt((rest * (1 - rest)) @ counts) / (scale * size))
        if deviation <= CLOSE:
            break
    return weights * scale, deviation


def weighted_order(copies: np.ndarray, seed: Callable[[], int],
                   groups: np.ndarray | None = None) -> np.ndarray:
    """Rows of a pass in their order: each as often as it has copies, these spread evenly.

    Parameters
    ----------
    copies : ndarray of float64, shape (n_rows,)
        On average; at least 0.
    seed : callable
        Gives the seed of what is drawn; called if a number is not whole.
    groups : ndarray of int, shape (n_rows,), or None
        Class of each row. What is drawn is balanced within each: a class whose copies add up to W
        has floor(W) or ceil(W) rows in the pass.

    Returns
    -------
    ndarray of int, shape (rows of a pass,)
        Without a row if the numbers are small and none was drawn.

    Raises
    ------
    ValueError
        If a pass would have more than :data:`MAX_PASS_ROWS`, and more than :data:`COPIES` times
        those there are: more is a slip, and would take the memory of the machine.
    """
    total, most = float(copies.sum()), max(MAX_PASS_ROWS, COPIES * len(copies))
    if total > most:
        raise ValueError(f"The weights of all rows must add up to at most {most:,}, since "
                         f"a row is read as often as its weight says, not to {total:g}; divide "
                         "all of them by a number")
    counts = np.floor(copies)
    rest = copies - counts
    if rest.any():
        counts += _drawn(rest, seed(), groups)
    return spread(counts)


def spread(counts: np.ndarray) -> np.ndarray:
    """Rows in the order of a pass, each as often as it counts, these spread evenly.

    Parameters
    ----------
    counts : ndarray, shape (n_rows,)
        Whole numbers of at least 0.
    """
    counts = counts.astype(np.intp)     # 32-bit machines repeat by no others
    rows = np.flatnonzero(counts)
    counts = counts[rows]
    if (counts == 1).all():
        return rows
    number = np.repeat(np.arange(len(rows)), counts)
    copy = np.arange(len(number)) - np.repeat(np.cumsum(counts) - counts, counts)
    places = (number / len(rows) + copy / counts[number]) % 1.0
    return rows[number[np.argsort(places, kind="stable")]]


def pass_rows(features: Any, targets: np.ndarray, weights: np.ndarray | None,
              seed: Callable[[], int], groups: np.ndarray | None = None, *,
              chunk: bool = False, along: bool = False,
              meant: np.ndarray | None = None) -> Pass:
    """Rows of a pass and their targets.

    Parameters
    ----------
    features : ndarray, RowView or sparse matrix of scipy, shape (n_rows, n_features)
    targets : ndarray, shape (n_rows, n_outputs)
    weights : ndarray of float64, shape (n_rows,), or None
        Of :func:`bitstep.training.weights.checked_weights`; None: all rows once. Rows of weight 0
        have no part in the result.
    seed : callable
        Gives a seed, which is mixed with the values of the rows: chunks of a stream draw
        numbers of their own.
    groups
        See :func:`weighted_order`.
    chunk : bool
        True of rows that others follow: weights are numbers of copies.
    along : bool
        True if weights go along with the rows (:func:`go_along`), but not of a chunk.
    meant : ndarray of float64, shape (n_rows,), or None
        Weights that say how many rows each one stands for: those without factors that make classes
        even; None: the weights.

    Raises
    ------
    ValueError
        As :func:`weighted_order`, of a chunk.
    """
    if weights is None or (weights == 1).all():
        return Pass(RowView(features) if is_sparse(features) else features, targets)
    rows = np.flatnonzero(weights)
    view = view_of(features, rows)
    if along and not chunk:
        found = _weighted(view, targets[rows], weights[rows],
                          (weights if meant is None else meant)[rows],
                          None if groups is None else groups[rows])
        return found._replace(places=rows[found.places])

    def own_seed() -> int:
        entropy = [max(0, seed()), fingerprint(view)]
        return int(np.random.SeedSequence(entropy).generate_state(1)[0])

    copies, deviation = (weights[rows], 0.0) if chunk else copies_of(weights[rows], view.shape[1])
    order = weighted_order(copies, own_seed, None if groups is None else groups[rows])
    return Pass(view.take(order), targets[rows[order]], None, deviation,
                _left_out_of_chunk(copies, order) if chunk else _left_out(copies, order),
                places=rows[order])


def go_along(device: Any) -> bool:
    """True if weights go along with the rows to a device: its pipeline has ``row_weights``, or is
    made for the rows. Else copies stand for them.

    Parameters
    ----------
    device : str or Device
        A device on a board has the pipeline that was built for it.
    """
    return device in MADE if isinstance(device, str) else bool(device.config.row_weights)


def _weighted(view: RowView, targets: np.ndarray, weights: np.ndarray, meant: np.ndarray,
              groups: np.ndarray | None) -> Pass:
    """Rows with their weights, which stand for as many as others say."""
    rule = weigh(weights).rule()
    order, stored = spread(rule.counts(weights)), rule.stored(weights)
    raised = Raised.of(rule, view, targets, weights) if groups is None else Raised.of(
        rule, view, groups, weights, int(groups.max()) + 1)
    return Pass(view.take(order), targets[order], None if stored is None else stored[order],
                note=None if raised is None else raised.note, places=order,
                stands_for=weigh(meant).rule().rows_meant / len(order))


def _left_out(copies: np.ndarray, order: np.ndarray) -> str | None:
    """A sentence on rows of which no copy was drawn, if they are many or have some weight."""
    left = np.ones(len(copies), bool)
    left[order] = False
    rows, weight = left.mean(), copies[left].sum() / copies.sum()
    if rows < LEFT_OUT[0] and weight < LEFT_OUT[1]:
        return None
    return (f"{100 * rows:.2g} % of the rows, with {100 * weight:.2g} % of all weight, are not "
            "read at all: a row is read a whole number of times, here "
            f"{copies.mean():.3g} times on average, and for that these weights are too small")


def _left_out_of_chunk(copies: np.ndarray, order: np.ndarray) -> str | None:
    """A sentence on weights of a chunk that are too small to be numbers of copies."""
    if np.minimum(copies, 1).mean() >= READ_OF_CHUNK:
        return None
    share = 1 - len(np.unique(order)) / len(copies)
    return (f"{100 * share:.3g} % of the rows of this call are not read: weights of partial_fit "
            f"are numbers of copies, here {copies.mean():.3g} on average; multiply those of all "
            "calls by one number")


def _drawn(rest: np.ndarray, seed: int, groups: np.ndarray | None) -> np.ndarray:
    """1 or 0 for each row, 1 with probability ``rest``: systematic sampling in a random order."""
    rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed)))
    order = rng.permutation(len(rest))
    if groups is not None:
        order = order[np.argsort(groups[order], kind="stable")]
    ends = np.floor(np.cumsum(rest[order]) + rng.random())
    found = np.empty(len(rest))
    found[order] = np.diff(ends, prepend=0.0)
    return found
