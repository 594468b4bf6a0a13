"""Rows that a command scores models on while they are trained."""

from functools import partial

import numpy as np

from bitstep.cli.problem import Problem
from bitstep.training.choices import Resolved
from bitstep.training.scores.scoring import ScoredRows, scored_codes, scored_features, spaced
from bitstep.training.scores.stopping import Stopping
from bitstep.training.train import class_targets


def stopping_of(resolved: Resolved, problem: Problem) -> Stopping | None:
    """The rule that the options ask for; None for all epochs."""
    held = problem.held
    return resolved.stopping(None if held is None else _scored(problem, *held[:3]),
                             partial(scored_rows, problem))


def scored_rows(problem: Problem, count: int) -> ScoredRows:
    """At most so many of the rows that are trained on, to score models on."""
    data = problem.train_set
    if data is None:
        return scored_codes(problem.outputs, problem.loss, count=count,
                            classes=problem.task == "classification")
    pick = spaced(data.n_rows, count)
    return _scored(problem, data.features[pick], data.labels[pick],
                   None if problem.weights is None else problem.weights[pick])


def _scored(problem: Problem, features: np.ndarray, labels: np.ndarray,
            weights: np.ndarray | None) -> ScoredRows:
    return scored_features(features, class_targets(labels, problem.classes),
                           problem.outputs[0].scaler, problem.loss,
                           classes=problem.task == "classification", weights=weights)
