"""Problems whose optimum is known, and sets of other shapes to try claims on."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from bitstep.pipeline.losses import LOSSES
from bitstep.pipeline.registers import Loss
from bitstep.quantization import Scaler, fit_scaler
from bitstep.training.train import class_targets
from bitstep_lab.races.race_data import race_data

SETS = ("cadata", "cpusmall", "diabetes", "digits", "synthetic-100", "noisy-100")
# Of the losses of classes, with l2 = 1 / rows, which is scikit-learn's default.
CLASS_SETS = ("breast_cancer", "digits", "one-hot-classes", "correlated-classes")
HELD_OUT = ("correlated-24", "heavy-tails-30", "scales-300", "one-hot-40", "breast_cancer")

MAX_NEWTON = 200
NEWTON_GOAL = 1e-10         # largest component of the gradient at an optimum


@dataclass(frozen=True, eq=False)
class Problem:
    """Rows, targets and objective.

    Attributes
    ----------
    name : str
    features : ndarray of float64, shape (n_rows, n_features)
    targets : ndarray of float64, shape (n_rows, n_outputs)
        Of a classification +1 and -1, one class against the rest.
    regression : bool
    source : str
        Where the rows are from.
    loss : Loss
    l2 : float
        Penalty of scaled weights.
    """

    name: str
    features: np.ndarray
    targets: np.ndarray
    regression: bool
    source: str
    loss: Loss = Loss.LEAST_SQUARES
    l2: float = 0.0

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
        """Least objective of every output."""
        return np.array([self._objective(self._best(column), column) for column in self.targets.T])

    def _objective(self, model: np.ndarray, targets: np.ndarray) -> float:
        values = LOSSES[self.loss].value(self.design @ model, targets)
        return float(values.mean() + self.l2 / 2 * (model[:-1] ** 2).sum())

    def _best(self, targets: np.ndarray) -> np.ndarray:
        """The best model, by least squares or by Newton's method with halved steps."""
        rule, design = LOSSES[self.loss], self.design
        if rule.quadratic and not self.l2:
            return np.linalg.lstsq(design, targets, rcond=None)[0]
        ridge = np.append(np.full(design.shape[1] - 1, self.l2), 0.0)
        model = np.zeros(design.shape[1])
        for _ in range(MAX_NEWTON):
            values = design @ model
            slope = design.T @ rule.derivative(values, targets) / len(design) + ridge * model
            if np.abs(slope).max() < NEWTON_GOAL:
                return model
            bends = _bends(self.loss, values * targets)
            # A little more, since rows beyond the squared hinge's bound have none.
            matrix = design.T @ (bends[:, None] * design) / len(design) + np.diag(ridge + 1e-13)
            move, share = -np.linalg.solve(matrix, slope), 1.0
            here = self._objective(model, targets)
            while self._objective(model + share * move, targets) > here and share > 1e-12:
                share /= 2
            model = model + share * move
        raise ArithmeticError(f"No optimum of {self.name} was found")

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
            found = np.array([[self._objective(one, column) for one, column in zip(
                model, self.targets.T, strict=True)] for model in models])
            return ((found - self.least) / self.least).mean(axis=1)


def _bends(loss: Loss, margins: np.ndarray) -> np.ndarray:
    """Second derivative of the loss of every row."""
    if loss == Loss.SQUARED_HINGE:
        return (margins < 1).astype(float)
    if loss == Loss.LOGISTIC:
        return 1 / (2 + np.exp(-np.abs(margins)) + np.exp(np.minimum(np.abs(margins), 700.0)))
    return np.ones(len(margins))


def problem(name: str, data_home: str | Path | None = None, seed: int = 0,
            loss: Loss = Loss.LEAST_SQUARES) -> Problem:
    """One of :data:`SETS`, :data:`CLASS_SETS` or :data:`HELD_OUT`, its rows in an order drawn by
    the seed. Losses of classes have l2 = 1 / rows.
    """
    if name in _MADE:
        features, labels = _MADE[name](np.random.default_rng([seed, 7]))
        regression, source = name not in _CLASSES, "generated"
    else:
        found = race_data(name, data_home=data_home, seed=seed)
        order = np.random.default_rng(seed).permutation(found.dataset.n_rows)
        features = np.asarray(found.dataset.features, np.float64)[order]
        labels = np.asarray(found.dataset.labels, np.float64)[order]
        regression, source = found.dataset.task == "regression", found.source
    if regression and LOSSES[loss].signs:
        raise ValueError(f"{name} is a regression, and loss {LOSSES[loss].name} needs classes")
    targets = labels[:, None] if regression else class_targets(labels, np.unique(labels))
    return Problem(name, features, targets, regression, source, loss,
                   1 / len(features) if LOSSES[loss].signs else 0.0)


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


def _classes(rng, features, noise):
    margins = features @ rng.standard_normal(features.shape[1])
    margins -= np.median(margins)
    noise = noise * margins.std() * rng.standard_normal(len(margins))
    return features, (margins + noise > 0).astype(float)


def _one_hot_classes(rng):
    """14 attributes with 9 values each, of unequal frequency: the shape of the set a9a."""
    shares = 0.5 ** np.arange(9)
    codes = rng.choice(9, (8000, 14), p=shares / shares.sum())
    return _classes(rng, (codes[:, :, None] == np.arange(9)).reshape(8000, -1).astype(float), 1.0)


def _correlated_classes(rng):
    mix = np.eye(24) + rng.standard_normal((24, 24)) / 5
    return _classes(rng, rng.standard_normal((6000, 24)) @ mix, 0.5)


_CLASSES = ("one-hot-classes", "correlated-classes")
_MADE = {"correlated-24": _correlated, "heavy-tails-30": _heavy_tails, "scales-300": _scales,
         "one-hot-40": _one_hot, "one-hot-classes": _one_hot_classes,
         "correlated-classes": _correlated_classes}
