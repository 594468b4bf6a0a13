"""Scores and CPU seconds of estimators as they are by default."""

import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.linear_model import LogisticRegression, Ridge, SGDClassifier, SGDRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bitstep import LowPrecisionClassifier, LowPrecisionRegressor
from bitstep_lab.defaults.problems import Problem
from bitstep_lab.markdown import markdown_table

NEAR, FAR = 0.01, 0.03      # below the reference
LARGE = 10_000              # values of rows to train on: sets of more of them count for times
REFERENCE, SKLEARN_SGD = "LogisticRegression or Ridge", "SGDClassifier or SGDRegressor"
# Parameters of our contestants.
OURS: dict[str, dict[str, Any]] = {
    "default": {},
    **{f"{bits} bit{'s' * (bits > 1)}": {"solver": "sgd", "bits": bits} for bits in (1, 2, 4, 8)},
    "SGD": {"solver": "sgd"},
    "bit-centred": {"solver": "bit-centred"}}
CONTESTANTS = (*OURS, REFERENCE, SKLEARN_SGD)
PAUSE, PAUSES = 0.01, 50    # seconds that other threads must be idle for, and how often to look
SCORES = {"classification": "accuracy", "regression": "R2"}


class Score(NamedTuple):
    """Result of a contestant on a problem.

    Attributes
    ----------
    value : float
        Mean accuracy or R2 over the parts.
    cpu_s : float
        CPU seconds of one training, of all its threads: the median over the parts.
    """

    value: float
    cpu_s: float


class Result(NamedTuple):
    """Scores of a problem, by contestant."""

    problem: Problem
    scores: dict[str, Score]

    def below(self, name: str) -> float:
        """Difference of the reference's score to a contestant's."""
        return self.scores[REFERENCE].value - self.scores[name].value

    @property
    def large(self) -> bool:
        """True if the problem counts for times."""
        return self.problem.features.size > LARGE


def maker(name: str, task: str, seed: int, ours: dict[str, Any]) -> Callable[[], Any]:
    """Function that makes the estimator of a contestant.

    Parameters
    ----------
    name : str
        One of :data:`CONTESTANTS`.
    task : {"regression", "classification"}
    seed : int
    ours : dict
        Parameters that all our estimators have beside their own; those a kind lacks are left out.
    """
    regression = task == "regression"
    if name in OURS:
        kind: Any = LowPrecisionRegressor if regression else LowPrecisionClassifier
        parameters = {"random_state": seed, **ours, **OURS[name]}
        known = kind().get_params()
        return lambda: kind(**{key: value for key, value in parameters.items() if key in known})
    if name == REFERENCE:
        return lambda: make_pipeline(StandardScaler(), Ridge() if regression
                                     else LogisticRegression())
    return lambda: make_pipeline(StandardScaler(), (SGDRegressor if regression else SGDClassifier)(
        random_state=seed))


def score(make: Callable[[], Any], problem: Problem) -> Score:
    """Train on each part of a problem, and test.

    A problem of one part is trained on twice, since the first training of a kind compiles its
    loops; of more parts the median leaves that out.
    """
    values, seconds = [], []
    parts = list(problem.parts())
    for train, test in parts if len(parts) > 1 else 2 * parts:
        estimator = make()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")     # of convergence
            _rest()
            start = time.process_time()
            estimator.fit(*train)
            seconds.append(time.process_time() - start)
            values.append(estimator.score(*test))
    return Score(float(np.mean(values)),
                 float(np.median(seconds) if len(parts) > 1 else seconds[-1]))


def _rest() -> None:
    """Wait until threads of what ran before are idle: those of BLAS turn for 100 ms after their
    last work, and their seconds would be those of the next training.
    """
    for _ in range(PAUSES):
        before = time.process_time()
        time.sleep(PAUSE)
        if time.process_time() - before < PAUSE / 4:
            return


def contest(problems: Sequence[Problem], names: Sequence[str] = CONTESTANTS, seed: int = 0,
            ours: dict[str, Any] | None = None,
            on_result: Callable[[Result], None] | None = None) -> list[Result]:
    """Let contestants train on problems.

    Parameters
    ----------
    problems : sequence of Problem
    names : sequence of str
        Some of :data:`CONTESTANTS`; the reference always runs.
    seed, ours
        See :func:`maker`.
    on_result : callable, optional
        Called with the result of each problem.
    """
    results = []
    for problem in problems:
        results.append(Result(problem, {
            name: score(maker(name, problem.task, seed, ours or {}), problem)
            for name in CONTESTANTS if name in names or name == REFERENCE}))
        if on_result is not None:
            on_result(results[-1])
    return results


def tables(results: Sequence[Result]) -> str:
    """Summary and scores of results, in Markdown."""
    parts = [summary(results)]
    for task, measure in SCORES.items():
        chosen = [one for one in results if one.problem.task == task]
        if not chosen:
            continue
        names = list(chosen[0].scores)
        head = [task, "half", "rows x features", *names]
        parts += [f"Scores: {measure}, and CPU milliseconds of a training.", markdown_table(head, [
            [one.problem.name, one.problem.half,
             "{:,} x {:,}".format(*one.problem.features.shape),
             *(f"{found.value:.3f} ({1000 * found.cpu_s:.0f})" for found in one.scores.values())]
            for one in chosen])]
    return "\n\n".join(parts)


def summary(results: Sequence[Result]) -> str:
    """A row for each contestant, in Markdown: on how many problems it is below the reference, by
    how much at most, and its time relative to the reference's.
    """
    rows = []
    for name in (name for name in results[0].scores if name != REFERENCE):
        row = [name]
        for task in SCORES:
            for half in (None, "choosing", "confirming"):
                row.append(_count([one for one in results if one.problem.task == task
                                   and half in (None, one.problem.half)], name))
            mine = [one for one in results if one.problem.task == task]
            worst = max(mine, key=lambda one: one.below(name), default=None)
            row.append("-" if worst is None else
                       f"{worst.below(name):.3f} ({worst.problem.name})")
        times = [one.scores[name].cpu_s / one.scores[REFERENCE].cpu_s
                 for one in results if one.large]
        row.append(f"{np.median(times):.2g}" if times else "-")
        rows.append(row)
    return markdown_table([
        "contestant", "classes: below", "choosing", "confirming", "at most",
        "values: below", "choosing", "confirming", "at most", "time"], rows)


def _count(results: Iterable[Result], name: str) -> str:
    short = [one.below(name) for one in results]
    far = sum(value > FAR for value in short)
    return f"{sum(value > NEAR for value in short)} of {len(short)}" + f" ({far} far)" * bool(far)
