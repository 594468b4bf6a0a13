"""Trained models in the units of the features."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bitstep.quantization import Scaler
from bitstep.training.objective import Objective

NEAR = 1e-5                 # gradient, over the first, with which bit-centred training may end
_EPSILON = np.finfo(np.float64).eps     # of the largest weight: a smaller one does not count
_LEAST = 2.0 ** -1054       # weight that still has 20 of its 53 bits
LARGE_L2 = 1.0              # of standardized columns, which bends the objective more than rows do


@dataclass(frozen=True)
class Restart:
    """A job that left its range and started again.

    Attributes
    ----------
    output : int
        Number of the job, from 0.
    epoch : int
        Epoch in which a number left its range, from 1.
    model_range : float
        The range from then on, as a multiple of the largest label.
    counters : mapping of str to int or None
        Of the epochs that were given up.
    """

    output: int
    epoch: int
    model_range: float
    counters: Mapping[str, int | None]

    def entry(self) -> dict[str, Any]:
        """Entry of reports (docs/report.md)."""
        return {"output": self.output + 1, "epoch": self.epoch, "model_range": self.model_range}


@dataclass(frozen=True)
class TrainedModel:
    """The models after every finished epoch.

    Attributes
    ----------
    coefs : ndarray of float64, shape (epochs_done, n_outputs, n_features)
        In the units of features and labels.
    intercepts : ndarray of float64, shape (epochs_done, n_outputs)
    weights, scaled_intercepts : ndarray of float64
        The same for scaled features.
    steps : ndarray of float64, shape (epochs_done,)
        Steps as the hardware took them.
    counters : mapping of str to int or None
        Sums over the outputs' runs.
    still : ndarray of bool, shape (epochs_done,)
        Epochs that changed no word of any output's model.
    step_error : float
        See :class:`bitstep.training.planning.Plan`; the largest of the outputs.
    model_range : float
        Largest weight that was representable, as a multiple of the largest label; the largest of
        the outputs.
    interrupted : bool
        True if Ctrl-C, SIGTERM or a closed terminal ended the training.
    ends : sequence of int, or None
        Cycles to the end of each epoch, the sum over the outputs' runs; None where not known.
    planes : ndarray of int, shape (epochs_done, n_outputs), or None
        Bit planes of bit-plane rows that each epoch read; None for others. Of solver
        ``bit-centred`` those of the inner passes, 0 once an output's training had stopped.
    restarts : tuple of Restart
        Outputs that left an automatic range and were trained again with a larger one, in their
        order; ``counters`` contain the epochs that were given up.
    best : int or None
        Epoch, counted from 0, whose model is to be kept; None: the last one
        (:mod:`bitstep.training.scores.stopping`).
    bytes_read : ndarray of int64, shape (epochs_done,), or None
        Bytes of bit-plane rows that each epoch read, the sum over the outputs, without labels; None
        for other rows. Of solver ``bit-centred`` with all its full passes.
    gradients : ndarray of float64, shape (epochs_done, n_outputs), or None
        Of solver ``bit-centred``: largest component of the gradient after each outer step, as a
        multiple of that at weights of 0 (docs/results/exactness.md).
    gaps : ndarray of float64, shape (epochs_done, n_outputs), or None
        Of solver ``bit-centred`` with l2: certificates, by which the objective of each output is
        at most so far above its optimum after each outer step; infinite where there is none yet.
        None unless the training is ``certified``.
    """

    coefs: np.ndarray
    intercepts: np.ndarray
    weights: np.ndarray
    scaled_intercepts: np.ndarray
    steps: np.ndarray
    counters: Mapping[str, int | None]
    still: np.ndarray
    step_error: float
    model_range: float
    interrupted: bool = False
    ends: Sequence[int] | None = None
    planes: np.ndarray | None = None
    bytes_read: np.ndarray | None = None
    gradients: np.ndarray | None = None
    gaps: np.ndarray | None = None
    best: int | None = None
    restarts: tuple[Restart, ...] = ()

    @property
    def epoch_cycles(self) -> np.ndarray | None:
        """``ends`` as an array of int64, counted now; None where not known."""
        return None if self.ends is None else np.array(list(self.ends), np.int64)

    @property
    def epochs_done(self) -> int:
        """Number of finished epochs."""
        return len(self.coefs)

    @property
    def kept(self) -> int:
        """Epoch of the model to keep, counted from 0."""
        return self.epochs_done - 1 if self.best is None else self.best

    def facts(self) -> list[dict[str, Any]]:
        """One entry an epoch, empty for rows that are not bit-plane rows: ``planes`` and
        ``bytes_read``, and of solver ``bit-centred`` ``gradient``, the largest of the outputs, and
        ``gap``, their mean, None where an output has none.
        """
        entries: list[dict[str, Any]] = [{} for _ in range(self.epochs_done)]
        if self.planes is not None and self.bytes_read is not None:
            for entry, planes, read in zip(entries, self.planes.tolist(), self.bytes_read.tolist(),
                                           strict=True):
                entry |= {"planes": planes[0] if len(planes) == 1 else planes, "bytes_read": read}
        if self.gradients is not None:
            for entry, gradients in zip(entries, self.gradients, strict=True):
                entry["gradient"] = float(gradients.max())
        if self.gaps is not None:
            for entry, gap in zip(entries, self.gaps.mean(axis=1).tolist(), strict=True):
                entry["gap"] = gap if math.isfinite(gap) else None
        return entries

    def short_of(self, tol: float, epochs: int, objective: Objective) -> str | None:
        """A sentence if solver ``bit-centred`` ended before the gradient was as small as asked
        for; None if it did not.

        Parameters
        ----------
        tol : float
            0: nothing was asked for. Then a gradient that outer steps could not make smaller is
            what words can hold, unless it is more than :data:`NEAR`; and none may have grown.
        epochs : int
            Outer steps that were to be taken.
        objective : Objective
            A ridge penalty of at least :data:`LARGE_L2` is not to be larger.
        """
        if self.gradients is None or self.interrupted:
            return None
        gradient = float(self.gradients[-1].max())
        short = self.epochs_done < epochs
        if gradient <= (tol or (NEAR if short else 1.0)):
            return None
        stopped = " of which the last made it no smaller" if short else ""
        asked = f", more than {tol:g} times (tol)" if tol else ""
        more = "more planes" if short else "more epochs or more planes"
        larger = "" if objective.l2 >= LARGE_L2 else \
            "a larger l2 where a plane separates the classes or columns depend on each other, "
        return (f"the gradient is {gradient:.2g} times that of the first model after "
                f"{self.epochs_done} outer steps{stopped}{asked}: give {more}, {larger}or a "
                "larger tol")


def without_columns(trained: TrainedModel, columns: np.ndarray, values: np.ndarray,
                    scaler: Scaler) -> TrainedModel:
    """The models without the weights of columns with a single value, whose part of the outputs goes
    to the intercept. Codes without a level for 0 give such a column a weight, by chance.

    Parameters
    ----------
    columns : ndarray of bool, shape (n_features,)
    values : ndarray of float64, shape (n_features,)
        Their values, in the units of the features.
    scaler : Scaler
    """
    if not trained.weights[..., columns].any():
        return trained
    scaled = scaler.transform(values[None])[0]
    return replace(
        trained, coefs=np.where(columns, 0.0, trained.coefs),
        intercepts=trained.intercepts + trained.coefs[..., columns] @ values[columns],
        weights=np.where(columns, 0.0, trained.weights),
        scaled_intercepts=trained.scaled_intercepts
        + trained.weights[..., columns] @ scaled[columns])


def in_feature_units(scaler: Scaler, weights: np.ndarray, intercepts: np.ndarray,
                     **others: Any) -> TrainedModel:
    """The model of weights for scaled features.

    Parameters
    ----------
    scaler : Scaler
    weights : ndarray of float64, shape (epochs_done, n_outputs, n_features)
    intercepts : ndarray of float64, shape (epochs_done, n_outputs)
    others
        Other attributes of :class:`TrainedModel`.

    Raises
    ------
    ValueError
        If a weight leaves the range of floating-point numbers, or one that counts is too small for
        them.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        coefs, offsets = scaler.unscale_model(weights, intercepts)
    good = np.isfinite(coefs).all(axis=(0, 1))
    for epoch, then in zip(weights, coefs, strict=True):    # all at once take as much memory again
        sizes = np.abs(epoch)
        counts = sizes > _EPSILON * sizes.max(axis=1, keepdims=True, initial=0)
        good &= ~(counts & (np.abs(then) < _LEAST)).any(axis=0)
    if not (good.all() and np.isfinite(offsets).all()):
        column = int(np.argmin(good))
        raise ValueError(
            f"Feature {column} (counted from 0) must have a range that fits 64-bit floating point "
            f"together with that of the labels, not {2 * scaler.scale[column]:.3g}; "
            "scale the column")
    return TrainedModel(coefs, offsets, weights, intercepts, **others)
