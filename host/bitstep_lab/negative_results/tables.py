"""The experiment of section 5.4 of the ZipML paper, and its table."""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from bitstep.data import DataError, load
from bitstep.quantization import fit_scaler
from bitstep_lab.markdown import markdown_table
from bitstep_lab.negative_results.chebyshev import FORMS, hinge_derivative, logistic_derivative
from bitstep_lab.negative_results.methods import (
    BoundsRefetch,
    Method,
    Rounded,
    Sampled,
    SketchRefetch,
    check_loss,
    loss_values,
)
from bitstep_lab.negative_results.sgd import SgdResult, run_sgd

DEGREE = 15
GAP = 0.1               # of the hinge's polynomial, as a share of radius + 1
RADII = (8.0, 32.0)     # limits of the margins with which polynomials are tried
STEPS = 2.0 ** np.arange(-2, 9)
EPOCHS, BATCH, SEEDS = 20, 16, 5


@dataclass(frozen=True, eq=False)
class Problem:
    """A two-class data set, scaled.

    Parameters
    ----------
    name : str
    train_rows, test_rows : ndarray of float64, shape (n_rows, n_features + 1)
        Features scaled so that those of the training rows are in [-1, 1]; the last column is 1.
    train_labels, test_labels : ndarray of float64, shape (n_rows,)
        1 or -1.
    """

    name: str
    train_rows: np.ndarray
    train_labels: np.ndarray
    test_rows: np.ndarray
    test_labels: np.ndarray


def make_problem(name: str, features: np.ndarray, labels: np.ndarray, train_rows: int) -> Problem:
    """A problem of which the first rows train and the others test.

    Parameters
    ----------
    name : str
    features : ndarray of float64, shape (n_rows, n_features)
    labels : ndarray of float64, shape (n_rows,)
        1 or -1.
    train_rows : int
        From 1 to one less than there are rows.

    Returns
    -------
    Problem

    Raises
    ------
    ValueError
        If no row would be left to test, or none to train.
    """
    if not 1 <= train_rows < len(features):
        raise ValueError(f"train_rows must be from 1 to {len(features) - 1}, not {train_rows}")
    scaled = fit_scaler(features[:train_rows], "minmax").transform(features)
    rows = np.hstack([scaled, np.ones((len(scaled), 1))])
    return Problem(name, rows[:train_rows], labels[:train_rows], rows[train_rows:],
                   labels[train_rows:])


def two_classes(name: str, *, noise: float, flips: float, seed: int, n_features: int = 8,
                n_rows: int = 4000) -> Problem:
    """Gaussian features on two sides of a random plane; half of the rows train.

    Parameters
    ----------
    name : str
    noise : float
        Standard deviation of the distance by which a row is misjudged; the features' is 1.
    flips : float
        Share of the labels that are turned over afterwards, from 0 to 1.
    seed : int
    n_features, n_rows : int
        At least 1, and at least 2.

    Returns
    -------
    Problem

    Raises
    ------
    ValueError
        If ``flips`` is not a share.
    """
    if not 0 <= flips <= 1:
        raise ValueError(f"flips must be from 0 to 1, not {flips}")
    rng = np.random.default_rng(seed)
    normal = rng.normal(size=n_features)
    features = rng.normal(size=(n_rows, n_features))
    distance = features @ normal / np.linalg.norm(normal) + 0.3
    labels = np.where(distance + noise * rng.normal(size=n_rows) > 0, 1.0, -1.0)
    labels[rng.random(n_rows) < flips] *= -1
    return make_problem(name, features, labels, n_rows // 2)


def problems() -> list[Problem]:
    """The data sets of the table; breast_cancer only if scikit-learn is installed."""
    found = [two_classes("separable", noise=0.1, flips=0.0, seed=1),
             two_classes("noisy", noise=0.5, flips=0.1, seed=2)]
    try:
        cancer = load("breast_cancer")
    except DataError as error:
        print(f"breast_cancer is left out: {error}", file=sys.stderr)
        return found
    order = np.random.default_rng(0).permutation(cancer.n_rows)
    labels = np.where(cancer.labels == cancer.labels.max(), 1.0, -1.0)
    return [make_problem("breast_cancer", cancer.features[order], labels[order], 400), *found]


class Entry(NamedTuple):
    """A row of the table; ``make`` gives a fresh method for every run."""

    name: str
    radius: float
    make: Callable[[], Method]


def entries(loss: str, radii: Sequence[float] = RADII) -> list[Entry]:
    """Methods to compare; the first one of every radius is float64, which tunes the step.

    Parameters
    ----------
    loss : {"logistic", "hinge"}
    radii : sequence of float
        Limits of the margins with which polynomials are tried; positive.

    Returns
    -------
    list of Entry

    Raises
    ------
    ValueError
        If the loss is unknown or a radius is not positive.
    """
    check_loss(loss)

    def rounded(encoding, bits=8):
        return partial(Rounded, loss, encoding, bits)

    found = [Entry("float64", np.inf, rounded("exact")),
             Entry("straw man: stochastic, 8 bits", np.inf, rounded("stochastic")),
             Entry("straw man: nearest, 8 bits", np.inf, rounded("nearest")),
             Entry("straw man: stochastic, 4 bits", np.inf, rounded("stochastic", 4))]
    if loss == "hinge":
        found += [Entry("l1 refetch, 8 bits", np.inf, BoundsRefetch),
                  Entry("l1 refetch, nearest, 8 bits", np.inf, partial(BoundsRefetch, "nearest")),
                  Entry("l2 refetch, sketch of 64", np.inf, partial(SketchRefetch, 64)),
                  Entry("l2 refetch, sketch of 1024", np.inf, partial(SketchRefetch, 1024))]
    for radius in radii:
        polynomial = logistic_derivative(radius, DEGREE) if loss == "logistic" else \
            hinge_derivative(radius, GAP * (radius + 1), DEGREE)
        found += [Entry("float64", radius, rounded("exact")),
                  Entry("straw man: stochastic, 8 bits", radius, rounded("stochastic"))]
        found += [Entry(f"Chebyshev, {form}, 4 + 4 bits", radius,
                        partial(Sampled, polynomial, form)) for form in FORMS]
        if loss == "hinge":
            found.append(Entry("l2 refetch, sketch of 1024, Chebyshev", radius,
                               partial(_sketch_and_polynomial, 1024, polynomial)))
    return found


def _sketch_and_polynomial(size, polynomial):
    return SketchRefetch(size, inner=Sampled(polynomial))


class Result(NamedTuple):
    """Figures of an entry on a problem, each of shape (seeds, steps)."""

    losses: np.ndarray
    accuracies: np.ndarray
    refetched: np.ndarray
    flipped: np.ndarray
    bits: np.ndarray


def measure(entry: Entry, problem: Problem, loss: str, *, steps: np.ndarray = STEPS,
            epochs: int = EPOCHS, seeds: int = SEEDS) -> Result:
    """Train with every step and seed.

    Parameters
    ----------
    entry : Entry
    problem : Problem
    loss : {"logistic", "hinge"}
    steps : ndarray of float64, shape (n_steps,)
        Of the first epoch; positive.
    epochs, seeds : int
        At least 1.

    Returns
    -------
    Result
        Losses on the training rows as they were before quantization, accuracies on the test rows.
    """
    runs: list[SgdResult] = [
        run_sgd(problem.train_rows, problem.train_labels, entry.make(), loss=loss, steps=steps,
                epochs=epochs, batch=BATCH, radius=entry.radius, seed=seed)
        for seed in range(seeds)]
    weights = np.array([run.weights for run in runs])
    train_margins = problem.train_labels * (weights @ problem.train_rows.T)
    correct = problem.test_labels * (weights @ problem.test_rows.T) > 0
    return Result(loss_values(train_margins, loss).mean(axis=-1), correct.mean(axis=-1),
                  np.array([run.refetched for run in runs]),
                  np.array([run.flipped for run in runs]),
                  np.array([run.bits_read for run in runs]))


def tables(chosen: Sequence[Problem], *, own_step: bool = False, radii: Sequence[float] = RADII,
           epochs: int = EPOCHS, seeds: int = SEEDS) -> str:
    """The tables of docs/results/negative-results.md, in Markdown.

    Parameters
    ----------
    chosen : sequence of Problem
    own_step : bool
        If true, every method takes its own best step; else it takes that of float64 with the same
        limit of the margins, as in the paper (section 5).
    radii : sequence of float
        See :func:`entries`.
    epochs, seeds : int
        At least 1.

    Returns
    -------
    str
        Losses with their standard deviations over the seeds, for each loss; then what the hinge's
        methods read: rows read again, rows with the wrong side of the hinge, bits for a value.
    """
    parts = []
    for loss in ("logistic", "hinge"):
        rows, reads = [], []
        best = [0] * len(chosen)
        for entry in entries(loss, radii):
            cells, read = [], []
            for place, problem in enumerate(chosen):
                result = measure(entry, problem, loss, epochs=epochs, seeds=seeds)
                if own_step or entry.name == "float64":
                    best[place] = int(result.losses.mean(axis=0).argmin())
                at = best[place]
                cells += [f"{result.losses[:, at].mean():.4f} ± {result.losses[:, at].std():.4f}",
                          f"{100 * result.accuracies[:, at].mean():.1f} %"]
                read += [f"{100 * result.refetched[:, at].mean():.1f} %",
                         f"{100 * result.flipped[:, at].mean():.2f} %",
                         f"{result.bits[:, at].mean():.1f}"]
            radius = "none" if np.isinf(entry.radius) else f"{entry.radius:g}"
            rows.append([entry.name, radius, *cells])
            if "refetch" in entry.name or "straw" in entry.name:
                reads.append([entry.name, radius, *read])
        head = ["method", "R"]
        parts.append(markdown_table(
            head + [f"{problem.name}: {what}" for problem in chosen
                    for what in (f"{loss} loss", "accuracy")], rows))
        if loss == "hinge":
            parts.append(markdown_table(
                head + [f"{problem.name}: {what}" for problem in chosen
                        for what in ("refetched", "wrong sign", "bits")], reads))
    return "\n\n".join(parts)
