"""Rows that a command scores models on while they are trained."""

from dataclasses import replace

import numpy as np

from bitstep.cli.problem import Problem
from bitstep.cli.validation import stops
from bitstep.data import Dataset
from bitstep.options.rules import Request
from bitstep.options.table import PATIENCE
from bitstep.training.scores.scoring import (
    SCORED_ROWS,
    ScoredRows,
    scored_codes,
    scored_features,
    spaced,
)
from bitstep.training.scores.stopping import Stopping
from bitstep.training.train import class_targets


def stopping_of(request: Request, problem: Problem) -> Stopping | None:
    """The rule that the options ask for; None for all epochs."""
    if not stops(request):
        return None
    held = problem.validation_set is not None
    rows = _scored(problem, problem.validation_set) if problem.validation_set is not None \
        else scored_rows(problem, SCORED_ROWS)
    return Stopping(rows, held, request["tol"] or 0.0,
                    request["n_iter_no_change"] or PATIENCE)


def scored_rows(problem: Problem, count: int) -> ScoredRows:
    """At most so many of the rows that are trained on, to score models on."""
    data = problem.train_set
    if data is None:
        return scored_codes(problem.outputs, problem.loss, count=count,
                            classes=problem.task == "classification")
    pick = spaced(data.n_rows, count)
    return _scored(problem, replace(data, features=data.features[pick], labels=data.labels[pick]),
                   None if problem.weights is None else problem.weights[pick])


def _scored(problem: Problem, data: Dataset, weights: np.ndarray | None = None) -> ScoredRows:
    return scored_features(data.features, class_targets(data.labels, problem.classes),
                           problem.outputs[0].scaler, problem.loss,
                           classes=problem.task == "classification", weights=weights)
