"""Search over steps and penalties, whose candidates are trained in one pass over the rows."""

from numbers import Number
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_classifier
from sklearn.metrics import check_scoring
from sklearn.model_selection import ParameterGrid, check_cv
from sklearn.utils import indexable
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _num_samples, check_is_fitted

from bitstep.checks import check_bool
from bitstep.data.dataset import check_unmasked
from bitstep.data.views import is_sparse
from bitstep.pipeline.results import RangeOverflowError


def _has(name: str):
    """True if the estimator of a search has a method."""
    return available_if(lambda search: hasattr(search.estimator, name))


class LowPrecisionSearchCV(MetaEstimatorMixin, BaseEstimator):
    """Cross-validated search over steps and penalties of a low-precision estimator.

    Rows of a fold are quantized once, and all candidates are trained on them side by side: the
    device reads each row once for as many models as it trains in a pass. Each model is the one that
    the estimator's own ``fit`` gives, bit for bit, if ``random_state`` is an integer.

    Parameters
    ----------
    estimator : LowPrecisionRegressor or LowPrecisionClassifier
        Parameters that the grid leaves as they are.
    param_grid : dict or list of dict
        As of scikit-learn's ``ParameterGrid``: lists of ``step``, ``schedule``, ``l2``, ``l1``,
        ``box``, ``epsilon``, ``model_range``, ``model_bits`` or ``update_bits``.
    cv : int, splitter or iterable, default=None
        As of scikit-learn's ``GridSearchCV``: None is 5 folds.
    scoring : str, callable or None, default=None
        Score to maximise; None is the estimator's own.
    refit : bool, default=True
        True to train the best candidate on all rows; predictions need it.

    Attributes
    ----------
    cv_results_ : dict
        ``params`` (list of dict), ``split<i>_test_score``, ``mean_test_score``,
        ``std_test_score`` and ``rank_test_score``, arrays with an entry for each candidate. The
        score is NaN where a number left its range, or ``scoring`` has none.
    best_index_, best_params_, best_score_ : int, dict, float
        Candidate of the best mean score; the first of equal ones.
    best_estimator_ : estimator
        With ``refit``.
    n_splits_ : int
        Folds.
    n_features_in_, feature_names_in_
        Those of ``best_estimator_``.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from bitstep import LowPrecisionRegressor, LowPrecisionSearchCV
    >>> X, y = load_diabetes(return_X_y=True)
    >>> search = LowPrecisionSearchCV(LowPrecisionRegressor(random_state=0),
    ...                               {"step": [0.003, 0.01, 0.03], "l2": [0, 0.01]}, cv=3)
    >>> search.fit(X, y).best_score_ > 0.4
    True
    >>> len(search.cv_results_["params"])
    6
    """

    def __init__(self, estimator, param_grid, *, cv=None, scoring=None, refit=True):
        self.estimator = estimator
        self.param_grid = param_grid
        self.cv = cv
        self.scoring = scoring
        self.refit = refit

    def fit(self, X, y, sample_weight=None, groups=None):
        """Train every candidate on every fold, then the best one on all rows.

        Parameters
        ----------
        X, y, sample_weight
            As of the estimator's ``fit``. Scores do not use the weights.
        groups : array, shape (n_rows,), or None
            Group of each row, for a ``cv`` that splits by them, such as ``GroupKFold``.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If data or a parameter cannot be used, or every candidate left the range of a number or
            has no score in some fold.
        """
        if not hasattr(self.estimator, "fit_candidates"):
            raise TypeError("The estimator must be a LowPrecisionRegressor or "
                            f"LowPrecisionClassifier, not {self.estimator!r}")
        if y is None:
            raise ValueError("LowPrecisionSearchCV requires y to be passed, but the target y is "
                             "None")
        check_bool("refit", self.refit)
        if not (self.scoring is None or isinstance(self.scoring, str) or callable(self.scoring)):
            raise ValueError("scoring must be a name, a function or None, which give one score, "
                             f"not {self.scoring!r}; scikit-learn's GridSearchCV has several")
        for name, values in (("X", X), ("y", y), ("sample_weight", sample_weight)):
            check_unmasked(name, values)        # folds have no masks
        X, y, groups = indexable(X, y, groups)
        if isinstance(sample_weight, Number):       # of every row
            sample_weight = np.full(_num_samples(X), sample_weight)
        X, y, sample_weight = indexable(X, y, sample_weight)
        candidates = list(ParameterGrid(self.param_grid))
        scorer = check_scoring(self.estimator, self.scoring)
        folds: Any = check_cv(5 if self.cv is None else self.cv, y,
                              classifier=is_classifier(self.estimator))
        splits = list(folds.split(X, y, groups))
        if not splits:
            raise ValueError(f"cv must give at least one fold, but {self.cv!r} gives none; give a "
                             "number of folds, or pairs of rows to train on and rows to score")
        scores, left = zip(*(self._scores(X, y, sample_weight, split, candidates, scorer)
                             for split in splits), strict=True)
        self._learn(candidates, np.array(scores), np.array(left))
        if self.refit:
            best: Any = clone(self.estimator)
            best.set_params(**self.best_params_)
            self.best_estimator_: Any = best.fit(X, y, sample_weight=sample_weight)
        return self

    def _scores(self, X, y, weights, split, candidates,
                scorer) -> tuple[list[float], list[bool]]:
        """Score of every candidate on the rows that a fold leaves out, and which left a range."""
        train, test = ((_rows(X, part), _rows(y, part)) for part in split)
        fitted = self.estimator.fit_candidates(
            *train, candidates, None if weights is None else _rows(weights, split[0]))
        left = [isinstance(one, RangeOverflowError) for one in fitted]
        scores: list[Any] = [np.nan if gone else scorer(one, *test)
                             for one, gone in zip(fitted, left, strict=True)]
        for score in scores:
            # Of several scores none is that of the best candidate.
            if not isinstance(score.item() if hasattr(score, "item") else score, Number):
                raise ValueError(f"scoring must give one number, but {self.scoring!r} gives "
                                 f"{score!r}; choose one score")
        return scores, left

    def _learn(self, candidates: list[dict[str, Any]], scores: np.ndarray,
               left: np.ndarray) -> None:
        """Set the learned attributes from scores, and where a range was left, both of shape
        (n_folds, n_candidates).
        """
        mean = scores.mean(axis=0)
        order = np.where(np.isnan(mean), -np.inf, mean)
        if np.isnan(mean).all():
            if left.any(axis=0).all():
                raise ValueError(f"All {len(candidates)} candidates left the range of a number in "
                                 "some fold; choose smaller steps, or a larger model_range")
            scoring = "the estimator's own score" if self.scoring is None else \
                f"scoring={self.scoring!r}"
            raise ValueError("A candidate must have a score in every fold, but "
                             f"{scoring} is NaN in some fold for every candidate; choose another "
                             "scoring, or folds with more rows, of every class")
        self.n_splits_ = len(scores)
        self.best_index_ = int(np.argmax(order))
        self.best_params_ = candidates[self.best_index_]
        self.best_score_ = float(mean[self.best_index_])
        self.cv_results_ = {
            "params": candidates,
            **{f"split{number}_test_score": part for number, part in enumerate(scores)},
            "mean_test_score": mean, "std_test_score": scores.std(axis=0),
            "rank_test_score": 1 + (order[None] > order[:, None]).sum(axis=1)}

    @_has("predict")
    def predict(self, X) -> np.ndarray:
        """Predictions of the best estimator."""
        return self._best().predict(X)

    @_has("decision_function")
    def decision_function(self, X) -> np.ndarray:
        """Decision values of the best estimator, a classifier."""
        return self._best().decision_function(X)

    @_has("predict_proba")
    def predict_proba(self, X) -> np.ndarray:
        """Probabilities of the best estimator, a logistic regression."""
        return self._best().predict_proba(X)

    def score(self, X, y) -> float:
        """Score of the best estimator, by ``scoring``."""
        scorer: Any = check_scoring(self.estimator, self.scoring)
        return scorer(self._best(), X, y)

    @property
    def classes_(self) -> np.ndarray:
        """Labels of the best estimator, a classifier."""
        return self._best().classes_

    @property
    def n_features_in_(self) -> int:
        """Features of a row, of the best estimator."""
        return self._best().n_features_in_

    @property
    def feature_names_in_(self) -> np.ndarray:
        """Names of the features of the best estimator, if the data had any."""
        return self._best().feature_names_in_

    def _best(self) -> Any:
        check_is_fitted(self, "best_estimator_", msg="This search has no best estimator: call fit, "
                        "with refit=True")
        return self.best_estimator_

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        own = self.estimator.__sklearn_tags__()
        tags.estimator_type, tags.classifier_tags = own.estimator_type, own.classifier_tags
        tags.regressor_tags, tags.target_tags = own.regressor_tags, own.target_tags
        tags.input_tags = own.input_tags
        return tags


def _rows(data: Any, part: np.ndarray) -> Any:
    """Some rows of an array, a sparse matrix or a data frame."""
    if is_sparse(data):
        return data.tocsr()[part]
    return data.iloc[part] if hasattr(data, "iloc") else np.asarray(data)[part]
