"""Scores and CPU seconds of estimators as they are by default."""

import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.linear_model import LogisticRegression, Ridge, SGDClassifier, SGDRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bitstep import LowPrecisionClassifier, LowPrecisionRegressor
from bitstep.writing import text_table
from bitstep_lab.defaults.problems import Problem

NEAR = 0.02             # below the best of all that a default may be
OURS = "bitstep"


class Score(NamedTuple):
    """Mean over the parts of a problem.

    Attributes
    ----------
    value : float
        Accuracy or R2.
    cpu_s : float
        CPU seconds of one training, of all its threads.
    """

    value: float
    cpu_s: float


def contestants(task: str, seed: int, ours: dict[str, Any]) -> dict[str, Callable[[], Any]]:
    """What makes each estimator of a task.

    Parameters
    ----------
    task : {"regression", "classification"}
    seed : int
    ours : dict
        Parameters of our estimator that are not the defaults; those it lacks are left out.
    """
    if task == "regression":
        kinds: Sequence[Any] = (LowPrecisionRegressor, SGDRegressor, Ridge)
        names = (OURS, "SGD", "Ridge")
    else:
        kinds = (LowPrecisionClassifier, SGDClassifier, LogisticRegression)
        names = (OURS, "SGD", "LogisticRegression")
    own = {name: value for name, value in ours.items() if name in kinds[0]().get_params()}
    return {
        names[0]: lambda: kinds[0](random_state=seed, **own),
        names[1]: lambda: make_pipeline(StandardScaler(), kinds[1](random_state=seed)),
        names[2]: lambda: make_pipeline(StandardScaler(), kinds[2]())}


def score(make: Callable[[], Any], problem: Problem) -> Score:
    """Train on each part of a problem, and test."""
    values, seconds = [], []
    for train, test in problem.parts():
        estimator = make()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")     # of convergence
            start = time.process_time()
            estimator.fit(*train)
            seconds.append(time.process_time() - start)
            values.append(estimator.score(*test))
    return Score(float(np.mean(values)), float(np.mean(seconds)))


def table(problems: Sequence[Problem], seed: int = 0, ours: dict[str, Any] | None = None) -> str:
    """Scores of all problems, and how far ours is below the best.

    The first training of each of our estimators, which may compile its loops, is not counted.
    """
    rows, far = [], []
    for problem in problems:
        makers = contestants(problem.task, seed, ours or {})
        for features, labels in (part for part, _ in list(problem.parts())[:1]):
            makers[OURS]().fit(features, labels)
        found = {name: score(make, problem) for name, make in makers.items()}
        short = max(one.value for one in found.values()) - found[OURS].value
        if short > NEAR:
            far.append(problem.name)
        cells = [f"{one.value:.3f} ({one.cpu_s:.3f} s)" for one in found.values()]
        rows.append([problem.name, "R2" if problem.task == "regression" else "accuracy", *cells,
                     f"{short:.3f}"])
    head = ["data", "score", OURS, "SGD", "LogisticRegression or Ridge", "below the best"]
    return text_table(head, rows) + (
        f"\nMore than {NEAR:g} below the best: {', '.join(far) or 'none'}.")
