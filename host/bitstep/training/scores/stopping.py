"""Early stopping: the epoch after which a training ends, and the epoch whose model is kept.

After each epoch the score of the models of all outputs is their mean loss, as a share of the loss
of the best constant. It is taken on held-out rows if there are any, else on rows that are trained
on (at most :data:`bitstep.training.scores.scoring.SCORED_ROWS`, evenly spaced). An epoch gains if
its score is more than ``tol`` below the least one before. Training ends once ``patience`` epochs in
a row do not gain. With held-out rows the model of the least score is kept, else the last one.

scikit-learn's SGD estimators have such a rule, too. There it is one for each class, held-out rows
are scored by the accuracy, which moves by whole rows and rests before a training has ended, the
loss of the rows to train on is in its own units, and the last model is kept.

Scores have no rounding that depends on device or machine (:mod:`bitstep.training.scores.scoring`),
so neither has the epoch.
"""

import math
from dataclasses import dataclass

import numpy as np

from bitstep.checks import is_number
from bitstep.options.table import OPTIONS, PATIENCE
from bitstep.pipeline.results import RunResult
from bitstep.training.planning import Plan
from bitstep.training.scores.scoring import SCORED_ROWS, ScoredRows


@dataclass(frozen=True, eq=False)
class Stopping:
    """Rule by which a training stops.

    Parameters
    ----------
    rows : ScoredRows
        Held-out rows, or rows that are trained on.
    held_out : bool
        True for rows that are not trained on.
    tol : float
        Least gain of an epoch, at least 0.
    patience : int
        Epochs in a row without it that end the training, at least 1.

    Raises
    ------
    ValueError
        If a parameter is out of range.
    """

    rows: ScoredRows
    held_out: bool
    tol: float = 0.0
    patience: int = PATIENCE

    def __post_init__(self):
        OPTIONS["tol"].kind.check("tol", self.tol)
        OPTIONS["n_iter_no_change"].kind.check("n_iter_no_change", self.patience)
        if not self.held_out:
            object.__setattr__(self, "rows", self.rows.some(SCORED_ROWS))
        object.__setattr__(self, "_baseline", self.rows.baseline)

    def score(self, plans: list[Plan], results: list[RunResult], epoch: int) -> float:
        """Score of the models after an epoch, counted from 0."""
        models = np.stack([result.models[epoch] for result in results])
        values = self.rows.outputs(plans, models,
                                   [int(result.intercepts[epoch]) for result in results])
        loss = self.rows.mean_loss(values) - self.rows.noise(plans, models)
        return loss / self._baseline        # type: ignore[attr-defined]


class StopRule:
    """The rule, while epochs are finished.

    Attributes
    ----------
    epochs : int
        Epochs seen.
    best : int
        The one with the least score, counted from 0.
    ended : bool
        True once training is to stop.
    """

    def __init__(self, tol: float, patience: int):
        self._tol, self._patience = tol, patience
        self._least, self._idle = math.inf, 0
        self.epochs = self.best = 0
        self.ended = False

    @property
    def ahead(self) -> int:
        """Epochs that are trained before the rule can end the training, at least 1."""
        return max(1, self._patience - self._idle)

    def see(self, score: float) -> None:
        """Take in the score of the next epoch."""
        self._idle = 0 if self._least - score > self._tol else self._idle + 1
        if score < self._least:
            self._least, self.best = score, self.epochs
        self.epochs += 1
        self.ended = self.ended or self._idle >= self._patience


class EarlyStopping:
    """The rule at work: rounds of epochs, after each of which the models are scored.

    A round has as many epochs as there are before the rule can end the training, so none is trained
    in vain. It is a run of its own, which goes on from the weights of the one before, as a
    training from a checkpoint does: bit for bit the epochs of one long run.

    Parameters
    ----------
    stopping : Stopping
    """

    def __init__(self, stopping: Stopping):
        self.stopping = stopping
        self.restart()

    def restart(self) -> None:
        """Begin again, since an output has: other models have other scores."""
        self.rule = StopRule(self.stopping.tol, self.stopping.patience)

    @property
    def until(self) -> int:
        """Epochs after which the next round ends, if there are as many."""
        return self.rule.epochs + self.rule.ahead

    def ends(self, plans: list[Plan], results: list[RunResult], until: int) -> bool:
        """Score the epochs up to ``until``, which all outputs have; True if the training ends."""
        for epoch in range(self.rule.epochs, until):
            self.rule.see(self.stopping.score(plans, results, epoch))
            if self.rule.ended:
                return True
        return until == len(plans[0].job.epochs)

    @property
    def best(self) -> int | None:
        """Epoch of the least score, counted from 0; None without held-out rows."""
        return self.rule.best if self.stopping.held_out else None


def check_fraction(fraction: float) -> None:
    """Raise ValueError unless this can be ``validation_fraction``."""
    if not is_number(fraction) or not 0 < fraction < 1:
        raise ValueError("validation_fraction must be between 0 and 1, without either, not "
                         f"{fraction!r}")


def held_out(n_rows: int, fraction: float, seed: int,
             classes: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the rows to train on and of those to hold out, each in their order.

    Classes are held out in proportion, and each keeps a row to train on.

    Parameters
    ----------
    n_rows : int
    fraction : float
        Share of the rows to hold out, between 0 and 1.
    seed : int
        Seed of ``Generator(PCG64(seed))``, whose permutation chooses.
    classes : ndarray, shape (n_rows,), or None
        Class of each row; None of a regression.

    Raises
    ------
    ValueError
        If the fraction is not between 0 and 1, or there are too few rows.
    """
    check_fraction(fraction)
    order = np.random.Generator(np.random.PCG64(seed)).permutation(n_rows)
    groups = np.zeros(n_rows, np.int64) if classes is None else np.unique(
        classes, return_inverse=True)[1].reshape(-1)
    order = order[np.argsort(groups[order], kind="stable")]
    first = np.unique(groups[order], return_index=True)[1]      # of each class: stays
    order = np.delete(order, first)
    count = min(max(1, round(n_rows * fraction)), len(order))
    if not count:
        raise ValueError(f"early_stopping holds rows out, and needs more than the {n_rows} there "
                         "are: at least 2, and more rows than classes")
    held = order[np.arange(1, 2 * count, 2, dtype=np.int64) * len(order) // (2 * count)]
    train = np.ones(n_rows, bool)
    train[held] = False
    return np.flatnonzero(train), np.sort(held)
