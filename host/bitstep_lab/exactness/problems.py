"""Least-squares problems whose optimum is known, and sets of other shapes to try claims on."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from bitstep.quantization import Scaler, fit_scaler
from bitstep.training.train import class_targets
from bitstep_lab.races.race_data import race_data

SETS = ("cadata", "cpusmall", "diabetes", "digits", "synthetic-100", "noisy-100")
HELD_OUT = ("correlated-24", "heavy-tails-30", "scales-300", "one-hot-40", "breast_cancer")


@dataclass(frozen=True, eq=False)
class Problem:
    """Rows and targets of least squares.

    Attributes
    ----------
    name : str
    features : ndarray of float64, shape (n_rows, n_features)
    targets : ndarray of float64, shape (n_rows, n_outputs)
        Of a classification +1 and -1, one class against the rest.
    regression : bool
    source : str
        Where the rows are from.
    """

    name: str
    features: np.ndarray
    targets: np.ndarray
    regression: bool
    source: str

    @cached_property
    def scaler(self) -> Scaler:
        """Columns to [-1, 1] by their range."""
        return fit_scaler(self.features, "minmax")

    @cached_property
    def design(self) -> np.ndarray:
        """Scaled features and a column of ones, shape (n_rows, n_features + 1)."""
        scaled = (self.features - self.scaler.centre) / self.scaler.scale
        return np.hstack([scaled, np.ones((len(scaled), 1))])

    @cached_property
    def least(self) -> np.ndarray:
        """Least loss of every output, 1/(2K) sum of squared residuals."""
        best = np.linalg.lstsq(self.design, self.targets, rcond=None)[0]
        return ((self.design @ best - self.targets) ** 2).mean(axis=0) / 2

    def excess(self, models: np.ndarray) -> np.ndarray:
        """(loss - optimum) / optimum, the mean over the outputs.

        Parameters
        ----------
        models : ndarray of float64, shape (n_models, n_outputs, n_features + 1)
            Weights of scaled features, and the intercept.

        Returns
        -------
        ndarray of float64, shape (n_models,)
            Infinite or NaN where a model is not finite.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            losses = np.array([((self.design @ model.T - self.targets) ** 2).mean(axis=0) / 2
                               for model in models])
            return ((losses - self.least) / self.least).mean(axis=1)


def problem(name: str, data_home: str | Path | None = None, seed: int = 0) -> Problem:
    """One of :data:`SETS` or :data:`HELD_OUT`, its rows in an order drawn by the seed."""
    if name in _MADE:
        features, labels = _MADE[name](np.random.default_rng([seed, 7]))
        return Problem(name, features, labels[:, None], True, "generated")
    found = race_data(name, data_home=data_home, seed=seed)
    order = np.random.default_rng(seed).permutation(found.dataset.n_rows)
    features = np.asarray(found.dataset.features, np.float64)[order]
    labels = np.asarray(found.dataset.labels, np.float64)[order]
    if found.dataset.task == "regression":
        return Problem(name, features, labels[:, None], True, found.source)
    return Problem(name, features, class_targets(labels, np.unique(labels)), False, found.source)


def _labelled(rng, features, noise):
    labels = features @ rng.standard_normal(features.shape[1])
    return features, labels + noise * labels.std() * rng.standard_normal(len(labels))


def _correlated(rng):
    mix = np.eye(24) + rng.standard_normal((24, 24)) / 5
    return _labelled(rng, rng.standard_normal((6000, 24)) @ mix, 0.14)


def _heavy_tails(rng):
    return _labelled(rng, np.exp(rng.standard_normal((9000, 30))), 0.5)


def _scales(rng):
    return _labelled(rng, rng.standard_normal((4000, 300)) * np.linspace(0.1, 2, 300), 0.5)


def _one_hot(rng):
    return _labelled(rng, (rng.random((5000, 40)) < 0.05).astype(float), 1.0)


_MADE = {"correlated-24": _correlated, "heavy-tails-30": _heavy_tails, "scales-300": _scales,
         "one-hot-40": _one_hot}
