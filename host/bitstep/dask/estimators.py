"""Estimators on Dask collections."""

import copy
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import dask.array as da
import numpy as np
from dask.base import compute, is_dask_collection
from dask.delayed import delayed
from distributed import Client, default_client
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from bitstep import estimators as ordinary
from bitstep.checks import check_integer
from bitstep.dask.devices import DeviceChoice
from bitstep.dask.engine import Engine
from bitstep.dask.scores import PartScore, accuracy_of, part_score, r2_of
from bitstep.dask.sources import Sources, is_array, is_frame, numbers_of, part_of, sources_of
from bitstep.dask.training import Collected, collected, on_devices
from bitstep.data.dataset import DataError
from bitstep.estimators.classifier import has_probabilities
from bitstep.options.types import Number
from bitstep.pipeline.parts.formats import BIT_PLANES
from bitstep.progress import Progress
from bitstep.quantization.bounds import Bounds
from bitstep.training.choices import OptimumWarning, RowChoice
from bitstep.training.copies import WeightWarning
from bitstep.training.shards.passes import shard_losses, train_shards
from bitstep.training.trained import TrainedModel

# Parameters that the ordinary estimators have by the same names.
COMMON = ("loss", "epochs", "step", "l2", "scaler", "fit_intercept", "random_state", "planes",
          "tol", "shuffle")
TIMEOUT = Number(0)         # seconds, as of bitstep train


class _DaskModel(BaseEstimator):
    """Base class of both estimators."""

    KIND: Any = None        # ordinary estimator
    local_: Any
    coef_: Any
    intercept_: Any
    n_iter_: int
    history_: list[dict[str, Any]]

    def __init__(self, *, client: Client | None = None, shard_rows: int | None = None,
                 epochs: Any = "auto", step: Any = "auto", l2: Any = "auto", scaler="auto",
                 fit_intercept=True, device: Any = "auto",
                 resources: Mapping[str, float] | None = None,
                 random_state: Any = None, planes: Any = None, tol: Any = "auto",
                 shuffle=True, verbose=0, timeout=600.0, loss="squared_error"):
        self.client = client
        self.shard_rows = shard_rows
        self.epochs = epochs
        self.step = step
        self.l2 = l2
        self.scaler = scaler
        self.fit_intercept = fit_intercept
        self.device = device
        self.resources = resources
        self.random_state = random_state
        self.planes = planes
        self.tol = tol
        self.shuffle = shuffle
        self.verbose = verbose
        self.timeout = timeout
        self.loss = loss

    def __sklearn_clone__(self):
        return type(self)(**self.get_params(deep=False))    # with the same client

    def __getstate__(self):
        return {**super().__getstate__(), "client": None}

    def _class_weight(self) -> Any:
        return None

    def _local(self) -> Any:
        """The ordinary estimator of these parameters."""
        device = DeviceChoice.of(self.device)
        return self.KIND(
            solver="bit-centred", device=device.name or "auto",
            **{name: getattr(self, name) for name in COMMON})

    def _fit(self, X, y, sample_weight=None):
        if self.shard_rows is not None:
            check_integer("shard_rows", self.shard_rows, 1)
        TIMEOUT.check("timeout", self.timeout)
        if self.resources is not None and not isinstance(self.resources, Mapping):
            raise ValueError("resources must be None or a dictionary of Dask's resources and their "
                             f"amounts, such as {{'bitstep': 1}}, not {self.resources!r}")
        local = self._local()
        sources = sources_of(X, y, sample_weight)
        resolved = local._resolved_for(sources.n_features, many_machines="bitstep.dask")
        engine = Engine(self._client(), self.resources, self.timeout)
        # Solver bit-centred has as many outer steps with any number of rows.
        epochs = resolved.epochs(1)
        progress = Progress(epochs, "training", " outer steps", quiet=not self.verbose, keep=True)
        with collected(engine, part_of, sources.parts, resolved, DeviceChoice.of(self.device),
                       seed=local._seed(), shuffle=bool(self.shuffle), shard_rows=self.shard_rows,
                       fit_intercept=self.fit_intercept,
                       class_weight=self._class_weight()) as data, progress:
            resolved, note = on_devices(resolved, data)
            if note:
                warnings.warn(note, OptimumWarning, stacklevel=3)
            if data.note:
                warnings.warn(data.note, WeightWarning, stacklevel=3)
            objective = resolved.objective(data.rows_meant)
            training = resolved.training(data.rows, objective, certified=not data.note)
            several = len(data.outputs)
            trained = train_shards(
                data.shards, data.outputs, data.config, objective, training,
                step_asked=resolved.step_asked, timeout_s=self.timeout,
                on_epoch=lambda done: progress.to(-(-done // several)))
            losses, shares = shard_losses(data.shards, objective, data.config, trained,
                                          classes=local._is_classifier)
        local.l2_, local.solver_ = objective.l2, training.solver
        local.batch_ = training.batch
        if local._is_classifier:
            local.multinomial_ = objective.multinomial
        self._learn(local, data, sources, trained, training, losses, shares)
        if trained.interrupted:
            raise KeyboardInterrupt
        if short := trained.short_of(training.tol, epochs, objective):
            warnings.warn(f"Training ended before its goal: {short}", ConvergenceWarning,
                          stacklevel=3)
        return self

    def _learn(self, local: Any, data: Collected, sources: Sources, trained: TrainedModel,
               training: Any, losses: np.ndarray, shares: np.ndarray | None) -> None:
        """Set the learned attributes of the ordinary estimator and of this one."""
        entries: list[dict[str, Any]] = [
            {"epoch": epoch + 1, "step": float(trained.steps[epoch]),
             "train_loss": float(losses[epoch]),
             **({} if shares is None else {"train_accuracy": float(shares[epoch])}), **facts}
            for epoch, facts in enumerate(trained.facts())]
        local.step_ = float(training.steps[0])
        local.noise_floor_ = None
        local._rows = RowChoice(bits=data.rows.bits, encoding=BIT_PLANES,
                                scaler=data.plan.scaler.kind)
        trained = replace(trained, counters=dict(trained.counters))
        local._learn(trained, entries, 0, data.plan.classes if shares is not None else None)
        summary, plan = data.summary, data.plan
        local.n_samples_seen_, local.n_features_in_ = summary.n_rows, len(summary.low)
        local.clipped_, local.first_rows_ = {"features": 0, "labels": 0}, None
        found = Bounds(summary.low, summary.high)
        found = found.symmetric() if plan.scaler.kind == "maxabs" else found
        local.feature_range_ = np.array([found.low, found.high])
        local.clip_range_ = None
        if shares is None:
            ends = np.array([plan.target_low, plan.target_high])
            local.label_range_ = tuple(map(float, ends[:, 0])) if ends.shape[1] == 1 else ends
        if sources.names is not None:
            local.feature_names_in_ = np.array(sources.names, object)
        self.local_ = local
        self.n_shards_ = len(data.shards.facts)
        for name in ("coef_", "intercept_", "n_iter_", "history_", "step_", "counters_", "l2_",
                     "gap_", "n_features_in_", "classes_", "multinomial_", "feature_names_in_"):
            if hasattr(local, name):
                setattr(self, name, getattr(local, name))
            elif hasattr(self, name):       # of an earlier fit
                delattr(self, name)

    def _client(self) -> Client:
        if self.client is not None and not isinstance(self.client, Client):
            raise ValueError("client must be a distributed.Client, such as "
                             f"distributed.Client('SCHEDULER:8786'), not {self.client!r}")
        if self.client is not None:
            return self.client
        try:
            return default_client()
        except ValueError as error:
            raise ValueError("client must be a distributed.Client, or one must be connected: "
                             "distributed.Client('SCHEDULER:8786'), or distributed.Client() for "
                             "a cluster on this machine") from error

    def to_local(self) -> Any:
        """The fitted model as an ordinary estimator, which needs no cluster.

        Returns
        -------
        bitstep.LowPrecisionRegressor or bitstep.LowPrecisionClassifier
        """
        check_is_fitted(self, "local_")
        return copy.deepcopy(self.local_)

    def save(self, path) -> None:
        """Write the model file of the ordinary estimator; see
        :meth:`bitstep.LowPrecisionRegressor.save`.
        """
        check_is_fitted(self, "local_")
        self.local_.save(path)

    def _lazy(self, X, method: str, dtype: Any, columns: int | None) -> Any:
        """What a method of the ordinary estimator gives, in partitions as of X."""
        check_is_fitted(self, "local_")
        if not is_dask_collection(X):
            return getattr(self.local_, method)(X)
        self._check_columns(X)
        if is_frame(X):
            shape = (0,) if columns is None else (0, columns)
            return X.map_partitions(_of_block, self.local_, method, dtype,
                                    enforce_metadata=False, meta=np.empty(shape, dtype))
        X = X.rechunk({1: -1}) if X.numblocks[1] > 1 else X
        if columns is None:
            return da.map_blocks(_of_block, X, self.local_, method, dtype, dtype=dtype,
                                 drop_axis=1, meta=np.empty((0,), dtype))
        return da.map_blocks(_of_block, X, self.local_, method, dtype, dtype=dtype,
                             chunks=(X.chunks[0], (columns,)), meta=np.empty((0, columns), dtype))

    def _check_columns(self, X: Any) -> None:
        """Raise DataError unless a collection has the columns of the fit."""
        count, names = self.local_.n_features_in_, getattr(self.local_, "feature_names_in_", None)
        if X.ndim != 2 or (X.shape[1] != count and (names is None or not is_frame(X))):
            found = f"(n_rows, {X.shape[1]})" if X.ndim == 2 else f"{X.ndim} axes"
            raise DataError(f"X must have shape (n_rows, {count}), not {found}")
        if is_frame(X) and names is not None and list(map(str, X.columns)) != list(names):
            raise DataError(f"X must have the columns {', '.join(names)} in this order, not "
                            f"{', '.join(map(str, X.columns))}")

    def _scores(self, X, y, sample_weight) -> list[PartScore]:
        """Sums for the score of each partition of a collection, where the partition is."""
        check_is_fitted(self, "local_")
        self._check_columns(X)
        if is_array(X):         # as scikit-learn does, beside arrays in memory, too
            y, sample_weight = (
                one if one is None or is_dask_collection(one) else da.from_array(np.asarray(one))
                for one in (y, sample_weight))
        local = delayed(_without_names(self.local_), traverse=False)
        tasks = [delayed(part_score, pure=False)(local, list(source))
                 for source in sources_of(X, y, sample_weight).parts]
        return list(compute(*tasks, scheduler=self.client))


def _of_block(block: Any, local: Any, method: str, dtype: Any) -> np.ndarray:
    """What a method of an estimator gives for a block, which may be empty."""
    of_rows = getattr(_without_names(local), method)
    if not block.shape[0]:      # a sparse one has no length
        shape = np.shape(of_rows(np.zeros((1, local.n_features_in_))))
        return np.empty((0, *shape[1:]), dtype)
    if hasattr(block, "columns"):
        block = numbers_of("X", block)
    return np.asarray(of_rows(block))


def _without_names(local: Any) -> Any:
    """An estimator without names of features, which are compared once for all partitions."""
    plain = copy.copy(local)
    if hasattr(plain, "feature_names_in_"):
        del plain.feature_names_in_
    return plain


class LowPrecisionRegressor(RegressorMixin, _DaskModel):
    """Linear least squares or ridge regression of a Dask collection, to its exact optimum.

    Solver ``bit-centred`` over shards (:mod:`bitstep.training.shards.passes`). The model depends on
    rows, partitions and ``random_state``, and not on workers: it is the same, bit for bit, for any
    number of them, and after some were lost.

    Parameters
    ----------
    client : distributed.Client, optional
        Default: the one that was connected last.
    shard_rows : int, optional
        Most rows of a shard; a partition of more becomes several. Some hundred for each feature are
        plenty (docs/dask.md).
    epochs, step, l2, fit_intercept, planes, tol
        See :class:`bitstep.LowPrecisionRegressor` with solver ``bit-centred``. Step ``auto`` is
        that of each shard.
    scaler : {"auto", "minmax", "maxabs"}, default="auto"
        How columns are taken to [-1, 1], by the range that they have in all partitions; ``auto`` is
        ``minmax``.
    device : str or dict, default="auto"
        Device that every worker opens, by name, or a dictionary with ``name`` and options.
        ``auto``: that of each worker's Dask configuration, entry ``bitstep.device``, else the one
        of a desk. All devices give the same model.
    resources : dict, optional
        Dask's resources that a task takes, such as ``{"bitstep": 1}``: only workers that offer them
        (``dask worker --resources "bitstep=1"``) have shards.
    random_state : int, RandomState or None, default=None
        Source of the randomness with which updates are rounded.
    shuffle : bool, default=True
        True to take the rows of a shard in the order of a permutation.
    verbose : int, default=0
        1 shows outer steps on standard error.
    timeout : float, default=600.0
        Seconds, above 0, in which a task must end, and in which a device must make progress.
    loss : {"squared_error"}, default="squared_error"
        Loss to minimise.

    Attributes
    ----------
    coef_, intercept_, n_iter_, step_, l2_, gap_, history_, counters_
        See :class:`bitstep.LowPrecisionRegressor`. Losses are those on the stored rows, counters
        the sums over the shards.
    n_features_in_, feature_names_in_
        See :class:`bitstep.LowPrecisionRegressor`.
    n_shards_ : int
        Shards of the last fit.
    """

    KIND = ordinary.LowPrecisionRegressor

    def fit(self, X, y, sample_weight=None):
        """Train on the partitions of X and y.

        Parameters
        ----------
        X : dask.array of shape (n_rows, n_features), or dask.dataframe
        y : dask.array of shape (n_rows,) or (n_rows, n_targets), or dask.dataframe or series
            Partitioned as X.
        sample_weight : dask.array of shape (n_rows,) or dask series, optional
            Weights of the rows, partitioned as X, of which the ratio counts. They go along with the
            rows, 16 bits each; 0 leaves a row out. A row of more than 4 times the mean weight of
            all rows stands in its shard several times, with equal parts of its weight.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If data or a parameter cannot be used; the message names partition and worker.
        bitstep.pipeline.results.DeviceError
            If workers or the scheduler are lost for good, or no task ends in ``timeout``.
        KeyboardInterrupt
            On Ctrl-C; the model is that of the last finished outer step.
        """
        return self._fit(X, y, sample_weight)

    def predict(self, X) -> Any:
        """Predicted targets: lazy, in partitions as of X, or of an array in memory at once."""
        check_is_fitted(self, "local_")
        several = self.local_.coef_.ndim == 2
        return self._lazy(X, "predict", np.float64, len(self.local_.coef_) if several else None)

    def score(self, X, y, sample_weight=None) -> float:
        """R2 of the predictions, scikit-learn's ``r2_score``; of a collection summed where its
        partitions are.

        Parameters
        ----------
        X, y, sample_weight
            As of :meth:`fit`, or arrays in memory.

        Raises
        ------
        ValueError
            If data cannot be used; the message names the partition.
        """
        if not is_dask_collection(X):
            return super().score(X, y, sample_weight)
        return r2_of(self._scores(X, y, sample_weight))


class LowPrecisionClassifier(ClassifierMixin, _DaskModel):
    """Logistic regression, or another smooth loss of classes, of a Dask collection.

    See :class:`LowPrecisionRegressor`; more than two classes with ``log_loss``
    are a multinomial model, the softmax of all classes, where the devices of all workers can.

    Parameters
    ----------
    loss : {"log_loss", "squared_error", "squared_hinge"}, default="log_loss"
        Loss to minimise; ``hinge`` has no gradient everywhere, which solver ``bit-centred`` needs.
    client, shard_rows, epochs, step, l2, scaler, fit_intercept, device, resources, random_state
        See :class:`LowPrecisionRegressor`.
    planes, tol, shuffle, verbose, timeout
        See :class:`LowPrecisionRegressor`.
    class_weight : dict, "balanced" or None, default=None
        Weight of each class by label, 1 where none is given; it multiplies ``sample_weight``.
        ``balanced``: every class has the same weight, counted over all partitions.

    Attributes
    ----------
    classes_ : ndarray, shape (n_classes,)
        The labels of all partitions; some may lack in a partition.
    coef_, intercept_, n_iter_, step_, l2_, gap_, history_, counters_, n_features_in_
        See :class:`bitstep.LowPrecisionClassifier`.
    feature_names_in_ : ndarray of str
        Names of the columns, of a data frame.
    multinomial_ : bool
        True if classes were trained together.
    n_shards_ : int
        Shards of the last fit.
    """

    KIND = ordinary.LowPrecisionClassifier

    def __init__(self, *, client: Client | None = None, shard_rows: int | None = None,
                 epochs: Any = "auto", step: Any = "auto", l2: Any = "auto", scaler="auto",
                 fit_intercept=True, device: Any = "auto",
                 resources: Mapping[str, float] | None = None,
                 random_state: Any = None, planes: Any = None, tol: Any = "auto",
                 shuffle=True, verbose=0, timeout=600.0, loss="log_loss",
                 class_weight: Any = None):
        super().__init__(
            client=client, shard_rows=shard_rows, epochs=epochs, step=step, l2=l2, scaler=scaler,
            fit_intercept=fit_intercept, device=device, resources=resources,
            random_state=random_state, planes=planes, tol=tol, shuffle=shuffle, verbose=verbose,
            timeout=timeout, loss=loss)
        self.class_weight = class_weight

    def _class_weight(self) -> Any:
        return self.class_weight

    def _local(self) -> Any:
        return super()._local().set_params(class_weight=self.class_weight)

    def fit(self, X, y, sample_weight=None):
        """Train on the partitions of X and y; see :meth:`LowPrecisionRegressor.fit`.

        Parameters
        ----------
        X : dask.array of shape (n_rows, n_features), or dask.dataframe
        y : dask.array of shape (n_rows,), or dask series
            Labels: numbers or names.
        sample_weight
            See :meth:`LowPrecisionRegressor.fit`.
        """
        return self._fit(X, y, sample_weight)

    def decision_function(self, X) -> Any:
        """Values whose sign, or largest, decides; lazy as :meth:`predict`."""
        check_is_fitted(self, "local_")
        count = len(self.local_.coef_)
        return self._lazy(X, "decision_function", np.float64, None if count == 1 else count)

    def predict(self, X) -> Any:
        """Predicted labels: lazy, in partitions as of X, or of an array in memory at once."""
        check_is_fitted(self, "local_")
        return self._lazy(X, "predict", self.local_.classes_.dtype, None)

    def score(self, X, y, sample_weight=None) -> float:
        """Share of the labels that are predicted, scikit-learn's ``accuracy_score``; see
        :meth:`LowPrecisionRegressor.score`.
        """
        if not is_dask_collection(X):
            return super().score(X, y, sample_weight)
        return accuracy_of(self._scores(X, y, sample_weight))

    @available_if(has_probabilities)
    def predict_proba(self, X) -> Any:
        """Probabilities of the classes, with loss ``log_loss``; lazy as :meth:`predict`."""
        check_is_fitted(self, "local_")
        return self._lazy(X, "predict_proba", np.float64, len(self.local_.classes_))
