"""Linear SVMs and logistic regression."""

from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets

from bitstep.estimators.base import LowPrecisionModel
from bitstep.estimators.parameters import PATIENCE, given
from bitstep.pipeline.losses import probabilities
from bitstep.training.losses import decide
from bitstep.training.train import class_targets, target_outputs
from bitstep.training.weights import checked_weights, row_weights


def has_probabilities(estimator):
    """True if a classifier's outputs are log odds."""
    if estimator.loss != "log_loss":
        raise AttributeError(f"Probabilities need loss='log_loss', not {estimator.loss!r}")
    return True


@contextmanager
def _labels_of_one_kind(name):
    """Raise ValueError where labels cannot be put in order, as names and None cannot."""
    try:
        yield
    except TypeError as error:
        raise ValueError(f"{name} must hold labels of one kind, all numbers or all strings, and "
                         f"none that is missing ({error}); leave rows without a label out"
                         ) from error


class LowPrecisionClassifier(ClassifierMixin, LowPrecisionModel):
    """Linear SVM or logistic regression: to its optimum on rows that are read with few
    bits in most passes, or by SGD on rows of 1 to 8 bits a value or of floating-point numbers.

    Labels count as +1 and -1. More than two classes train one model each, on the same stored rows:
    one-vs-rest, or, with solver ``bit-centred`` and ``loss="log_loss"``, all together as a
    multinomial logistic regression, on devices that can (``cpu`` and ``golden``). scikit-learn's
    ``OneVsRestClassifier`` of this estimator is one-vs-rest in any case.

    Parameters
    ----------
    loss : {"squared_error", "squared_hinge", "hinge", "log_loss"}, default="log_loss"
        Loss to minimise, with f(x) the output and y = +1 or -1: 1/2 (f(x) - y)^2 (least-squares
        SVM), 1/2 max(0, 1 - y f(x))^2 (L2-SVM), max(0, 1 - y f(x)) (SVM), or log(1 + exp(-y f(x)))
        (logistic regression).
    refetch : bool or "auto", default="auto"
        Loss ``hinge`` only: True to read rows again at 16 bits whose codes leave open on which side
        of the margin they are, and to use them as such. Needs encoding ``nearest`` or
        ``stochastic`` and ``batch=1``. ``auto``: with these encodings.
    bits : int or "auto", default="auto"
        Stored bits of a value, 1 to 8, or 32: floating-point rows, which are not quantized; for
        solver ``sgd``. ``auto``: 4, or 8 with other losses than ``squared_error``; 32 with
        encoding ``float``.
    encoding : str, default="auto"
        ``nearest``, ``stochastic``, ``compensated``, ``double-symmetric``, ``double``, or, for 32
        bits, ``float``; see docs/number-formats.md. ``auto``: ``compensated`` with loss
        ``squared_error``, ``nearest`` with ``hinge``, else ``stochastic``;
        ``float`` with 32 bits.
    levels : {"uniform", "optimal"}, default="uniform"
        ``optimal``: each column has a table of its own levels, those of least variance for the
        rows; with ``nearest``, ``stochastic`` and ``compensated`` up to 5 bits.
    epochs, step, schedule, batch, l2, l1, box, copies, scaler, feature_range, model_range
        See :class:`LowPrecisionRegressor`.
    class_weight : dict, "balanced" or None, default=None
        Weights by class (1 where it names none), by which those of the rows are multiplied; see
        ``sample_weight`` of :meth:`fit`. ``balanced``: every class has the same weight in a pass.
    fit_intercept
        See there.
    device, warm_start, random_state
        See there.
    solver, planes, tol, early_stopping, validation_fraction, n_iter_no_change, verbose
        See there; ``bit-centred`` is for all losses but ``hinge``.
    shuffle
        See there.
    model_bits, update_bits
        See there; losses other than ``squared_error`` see the noise of a rounded model.

    Attributes
    ----------
    classes_ : ndarray, shape (n_classes,)
        The labels.
    coef_ : ndarray of float64, shape (1, n_features) or (n_classes, n_features)
        Coefficients, in the units of the features.
    intercept_ : ndarray of float64, shape (1,) or (n_classes,)
    multinomial_ : bool
        True if the classes were trained together: probabilities are the softmax of the outputs.
    history_ : list of dict
        One entry an epoch: ``epoch``, ``step`` as the hardware took it, ``train_loss``, the mean
        of the loss over rows and outputs (of a multinomial model over rows), and
        ``train_accuracy``. With ``early_stopping`` also
        ``validation_loss`` and ``validation_accuracy``, those of the held-out rows; of bit-plane
        rows more, see there.
    solver_, n_iter_, l2_, batch_, gap_
        See :class:`LowPrecisionRegressor`.
    best_epoch_, step_, counters_, noise_floor_, feature_range_, clip_range_, clipped_
        See :class:`LowPrecisionRegressor`.
    n_samples_seen_, model_range_, restarts_, first_rows_
        See :class:`LowPrecisionRegressor`.
    n_features_in_, feature_names_in_
        See :class:`LowPrecisionRegressor`.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from bitstep import LowPrecisionClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = LowPrecisionClassifier(random_state=0).fit(X, y)
    >>> model.solver_, model.score(X, y) > 0.98
    ('bit-centred', True)
    >>> model.predict_proba(X[:3]).shape
    (3, 2)

    The hinge loss reads a row again, at 16 bits, where its codes leave open on which side of the
    margin it is:

    >>> svm = LowPrecisionClassifier(loss="hinge", random_state=0).fit(X, y)
    >>> svm.score(X, y) > 0.95
    True
    >>> svm.counters_["refetched_rows"] < 0.1 * svm.n_iter_ * len(X)
    True

    By SGD the squared error needs 4 bits only, since its corrections free it from the noise of
    rounding:

    >>> svm = LowPrecisionClassifier(loss="squared_error", solver="sgd", random_state=0)
    >>> svm.fit(X, y).score(X, y) > 0.93
    True
    """

    _task = "classification"

    def __init__(self, *, loss="log_loss", refetch: Any = "auto", bits: Any = "auto",
                 encoding="auto", levels="uniform", epochs: Any = "auto", step: Any = "auto",
                 schedule: Any = "auto", batch: Any = "auto", l2: Any = "auto", l1=0.0,
                 box: Any = None, copies=1, scaler: Any = "auto", feature_range: Any = "auto",
                 model_range: Any = "auto", fit_intercept=True, device: Any = "auto",
                 warm_start=False, random_state: Any = None, solver="auto", planes: Any = None,
                 tol: Any = "auto", early_stopping=False, validation_fraction=0.1,
                 n_iter_no_change=PATIENCE, verbose=0,
                 class_weight: Any = None, model_bits=0, update_bits=0, shuffle=True):
        super().__init__(
            bits=bits, encoding=encoding, levels=levels, epochs=epochs, step=step,
            schedule=schedule, batch=batch,
            l2=l2, l1=l1, box=box, copies=copies, scaler=scaler, feature_range=feature_range,
            model_range=model_range, fit_intercept=fit_intercept, device=device,
            warm_start=warm_start, random_state=random_state, solver=solver, planes=planes,
            tol=tol, early_stopping=early_stopping, validation_fraction=validation_fraction,
            n_iter_no_change=n_iter_no_change, verbose=verbose, model_bits=model_bits,
            update_bits=update_bits, shuffle=shuffle)
        self.loss = loss
        self.refetch = refetch
        self.class_weight = class_weight

    def fit(self, X, y, sample_weight=None):
        """Train on rows X and labels y.

        Parameters
        ----------
        X, sample_weight
            See :meth:`LowPrecisionRegressor.fit`.
        y : array, shape (n_rows,)
            At least two different labels, in rows of weights above 0.

        Returns
        -------
        self

        Raises
        ------
        ValueError, bitstep.pipeline.results.RangeOverflowError
            As :meth:`LowPrecisionRegressor.fit` does.
        KeyboardInterrupt
            On Ctrl-C; with two classes, the model is that of the last finished epoch, if there
            is one. With more, it is unchanged unless the last class was in training.
        """
        resume = self.warm_start and hasattr(self, "coef_")
        return self._fit(X, y, sample_weight, classes=None, resume=resume)

    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """Train one epoch, from the model there is; parameters and errors as for :meth:`fit`.

        Parameters
        ----------
        classes : array, optional
            All labels; needed by the first call if y lacks some.
        """
        self._check(partial_fit=True)
        return self._fit(X, y, sample_weight, classes=classes,
                         resume=hasattr(self, "coef_"), chunk=True)

    def _fit(self, X, y, sample_weight, *, classes, resume, chunk=False):
        with self._kept_unless_trained():
            rows, known = self._checked(X, y, sample_weight, classes, resume, chunk)
            if len(rows.targets):
                self._train(rows, resume=resume, chunk=chunk, classes=known)
        return self

    def _checked(self, X, y, sample_weight=None, classes=None, resume=False, chunk=False):
        X, y = self._validated(X, y, resume)
        with _labels_of_one_kind("y"):
            check_classification_targets(y)
        with _labels_of_one_kind("classes"):
            classes = None if classes is None else np.unique(classes)
            if classes is not None and classes.dtype.kind in "fc" and np.isnan(classes).any():
                raise TypeError("one is NaN")
        of_rows = checked_weights(sample_weight, len(y))
        weights = row_weights(of_rows, self.class_weight, y, self.classes_ if resume else classes)
        present = y if weights is None else y[weights > 0]      # 0 takes a row away
        known = self.classes_ if resume else np.unique(present) if classes is None else classes
        if len(known) < 2:
            name = "y has" if classes is None else "the parameter classes holds"
            one = f"one class, {known.tolist()[0]!r}" if len(known) else "none"
            where = ", in rows of weights above 0" * (weights is not None and classes is None)
            remedy = "give the first partial_fit all of them as classes" if chunk else \
                "give rows of another one, too"
            raise ValueError(f"A classification must have two classes, but {name} {one}{where}; "
                             f"{remedy}")
        unknown = np.setdiff1d(present, known)
        if len(unknown):
            raise ValueError(f"y must hold classes {known.tolist()} only, not {unknown.tolist()}")
        if resume and classes is not None and not np.array_equal(classes, known):
            raise ValueError(f"classes must be those of the first call, {known.tolist()}, "
                             f"not {classes.tolist()}")
        groups = None if weights is None else np.searchsorted(known, y)
        # Factors that make classes even are no numbers of rows.
        meant = of_rows if isinstance(self.class_weight, str) else None
        return self._pass(X, class_targets(y, known), weights, chunk, groups, meant), known

    def decision_function(self, X) -> np.ndarray:
        """Values whose sign, or largest, decides: shape (n_rows,) or (n_rows, n_classes)."""
        values = self._values(X)
        return values[:, 0] if values.shape[1] == 1 else values

    def predict(self, X) -> np.ndarray:
        """Predicted labels of rows X, shape (n_rows,)."""
        chosen = decide(self._values(X))
        return self.classes_[chosen]

    @available_if(has_probabilities)
    def predict_proba(self, X) -> np.ndarray:
        """Probabilities of the classes, shape (n_rows, n_classes); with loss ``log_loss`` only.

        Of a multinomial model the softmax of the outputs. One-vs-rest: each class's own
        probability, divided by their sum, as of scikit-learn's SGDClassifier.
        """
        values = self._values(X)
        if getattr(self, "multinomial_", False):        # older files do not say
            return probabilities(values)
        if values.shape[1] == 1:        # 1 less a probability next to 1 would have no digits
            values = np.hstack([-values, values])
            return 1 / (1 + np.exp(-np.clip(values, -700, 700)))
        positive = 1 / (1 + np.exp(-np.clip(values, -700, 700)))    # never all of them 0
        return positive / positive.sum(axis=1, keepdims=True)

    @available_if(has_probabilities)
    def predict_log_proba(self, X) -> np.ndarray:
        """Logarithms of :meth:`predict_proba`."""
        if getattr(self, "multinomial_", False):        # where a probability is 0, its log is not
            values = self._values(X)
            values -= values.max(axis=1, keepdims=True)
            return values - np.log(np.exp(values).sum(axis=1, keepdims=True))
        return np.log(self.predict_proba(X))

    def _asked_refetch(self):
        return given(self.refetch)

    def _outputs(self, rows, labels):
        return target_outputs(rows, labels.values)

    def _set_model(self, coef, intercept):
        self.coef_, self.intercept_ = coef, intercept
