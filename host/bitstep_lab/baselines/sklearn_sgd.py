"""scikit-learn's SGD with the same loss, steps and stopping rule."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from bitstep.pipeline.registers import Loss
from bitstep_lab.baselines.runs import CpuResult, Stop, check_numbers, check_rows, run_epochs

CLASSIFIER_LOSSES = {Loss.SQUARED_HINGE: "squared_hinge", Loss.HINGE: "hinge",
                     Loss.LOGISTIC: "log_loss"}


def train_sklearn(features: np.ndarray, targets: np.ndarray, *, loss: Loss,
                  steps: Sequence[float], l2: float = 0.0, fit_intercept: bool = True,
                  stop: Stop | None = None) -> CpuResult:
    """Train ``SGDRegressor`` (least squares) or ``SGDClassifier`` (the other losses).

    One call of ``partial_fit`` is one epoch over the rows in their order, with learning rate
    ``constant`` and the epoch's step, so the model follows that of method ``sgd`` of
    :func:`bitstep_lab.baselines.train_cpu` up to rounding. scikit-learn's squared hinge has no
    factor 1/2: its step is halved and its penalty doubled to make up for that. What
    ``partial_fit`` does before its loop is part of an epoch's time, except for the search for NaN,
    which is switched off (``assume_finite``).

    Parameters
    ----------
    features, targets, loss, steps, l2, fit_intercept, stop
        As for :func:`bitstep_lab.baselines.train_cpu`; features are float32.

    Returns
    -------
    CpuResult
        Of method ``sklearn``, one thread and batches of 1.

    Raises
    ------
    DivergedError, ValueError
        As for :func:`bitstep_lab.baselines.train_cpu`; but scikit-learn clips the derivatives of
        its losses to 1e12, so that what diverges often stays finite.
    ImportError
        If scikit-learn is missing.
    """
    try:
        from sklearn import config_context
    except ImportError as error:
        raise ImportError(f"train_sklearn needs scikit-learn ({error}): pip install "
                          '"bitstep[sklearn]"') from error
    loss = Loss(loss)
    steps = check_numbers(steps, l2)
    check_rows(features, targets, (np.float32,), loss)
    factor = 2 if loss == Loss.SQUARED_HINGE else 1
    estimator = _estimator(loss, alpha=factor * l2, fit_intercept=fit_intercept)
    classes = {} if loss == Loss.LEAST_SQUARES else {"classes": np.array([-1, 1], np.float32)}

    def epoch(step):
        estimator.set_params(eta0=step / factor)
        try:
            estimator.partial_fit(features, targets, **classes)
        except ValueError as error:
            if "overflow" in str(error):    # its word for a model that is no longer finite
                raise OverflowError from error
            raise
        return 0.0

    def model():
        return estimator.coef_.ravel(), float(estimator.intercept_[0])

    with config_context(assume_finite=True):
        return run_epochs(epoch, model, steps, stop, method="sklearn", loss=loss, threads=1,
                          batch=1, bytes_per_epoch=features.nbytes + targets.nbytes)


def _estimator(loss: Loss, **options: Any) -> Any:
    from sklearn.linear_model import SGDClassifier, SGDRegressor
    options |= {"penalty": "l2" if options["alpha"] else None, "learning_rate": "constant",
                "shuffle": False}
    if loss == Loss.LEAST_SQUARES:
        return SGDRegressor(loss="squared_error", **options)
    return SGDClassifier(loss=CLASSIFIER_LOSSES[loss], **options)
