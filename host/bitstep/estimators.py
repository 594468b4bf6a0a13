"""scikit-learn estimators: linear regression, linear SVMs and logistic regression on quantized
rows.
"""

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from inspect import signature
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from bitstep.data.views import dense_blocks
from bitstep.devices import default_device, device_class, open_device
from bitstep.pipeline.config import FLOAT_BITS, WOVEN
from bitstep.pipeline.device import Device
from bitstep.pipeline.results import SaturationError
from bitstep.quantization import (
    QuantizedDataset,
    QuantizedRows,
    WovenRows,
    label_bits_of,
    quantize_labels,
    quantize_rows,
    scaler_of_ranges,
    weave_rows,
)
from bitstep.quantization.bounds import Bounds, given_bounds
from bitstep.quantization.scaling import (
    RangeWarning,
    clipped_features,
    columns_of,
    scaler_of_columns,
)
from bitstep.training.choices import RowChoice, resolve_rows, resolve_training
from bitstep.training.chunks import (
    Clipped,
    chunk_seed,
    clipped,
    fingerprint,
    opened_model,
    warn_of_clipping,
)
from bitstep.training.estimator_file import estimator_model, restore
from bitstep.training.losses import decide, outputs
from bitstep.training.models import MODELS, Model
from bitstep.training.noise_floor import noise_floor
from bitstep.training.objective import Objective, Training, check_batch
from bitstep.training.pipelines import pipeline_of
from bitstep.training.schedules import SCHEDULES, automatic_step
from bitstep.training.scores.fits import (
    Held,
    check_verbose,
    history_entries,
    hold_out,
    print_history,
    scored_rows,
    status_of,
    stopping_of,
    watched,
)
from bitstep.training.train import (
    class_targets,
    target_outputs,
    train_candidates,
    train_model,
)
from bitstep.training.trained import TrainedModel
from bitstep.training.weights import checked_weights, pass_rows, row_weights

# Parameters of candidates that are trained side by side: those that leave the rows as they are.
CANDIDATE_PARAMETERS = ("step", "schedule", "l2", "l1", "box", "model_range")
CLASSIFIERS = {kind.sklearn_loss: kind for kind in MODELS.values()
               if kind.task == "classification"}


@dataclass(frozen=True, eq=False)
class _Prepared:
    """Data of a call as the device takes them."""

    features: Any               # ndarray, or RowView
    options: dict[str, Any]
    batch: int
    choice: RowChoice
    kept: bool
    columns: Clipped
    labels: Clipped
    rows: QuantizedRows | WovenRows
    outputs: list[QuantizedDataset]
    held: Held | None


class _LowPrecisionModel(BaseEstimator):
    """Base class of both estimators."""

    coef_: Any
    intercept_: Any
    clip_range_: np.ndarray | None
    _rows: RowChoice

    def __init__(self, *, bits: Any = "auto", encoding="auto", levels="uniform", epochs=20,
                 step: Any = "auto", schedule: Any = "inverse", batch=1, l2=0.0, l1=0.0,
                 box: Any = None, copies=1, scaler="quantile", feature_range: Any = "auto",
                 label_range: Any = "auto",
                 model_range: Any = "auto", fit_intercept=True, device: Any = "auto",
                 warm_start=False, random_state: Any = None, solver="sgd", planes: Any = None,
                 tol=0.0, early_stopping=False, validation_fraction=0.1, n_iter_no_change=5,
                 verbose=0, model_bits=0, update_bits=0):
        self.bits = bits
        self.encoding = encoding
        self.levels = levels
        self.epochs = epochs
        self.step = step
        self.schedule = schedule
        self.batch = batch
        self.l2 = l2
        self.l1 = l1
        self.box = box
        self.copies = copies
        self.scaler = scaler
        self.feature_range = feature_range
        self.label_range = label_range
        self.model_range = model_range
        self.fit_intercept = fit_intercept
        self.device = device
        self.warm_start = warm_start
        self.random_state = random_state
        self.solver = solver
        self.planes = planes
        self.tol = tol
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.verbose = verbose
        self.model_bits = model_bits
        self.update_bits = update_bits

    def _train(self, features: Any, targets: np.ndarray, *, epochs: int, resume: bool,
               classes: np.ndarray | None = None) -> None:
        """Train all outputs and set the learned attributes.

        ``targets`` has shape (n_rows, n_outputs). On Ctrl-C the attributes are those of the last
        finished epoch, and KeyboardInterrupt goes on.
        """
        prepared = self._prepare(features, targets, resume)
        before = self.n_iter_ if resume else 0
        objective, training = self._wishes(prepared, before + epochs, resume)
        initial = (np.atleast_2d(self.coef_), np.atleast_1d(self.intercept_)) if resume else None
        if prepared.kept and initial:
            initial = opened_model(*initial, Bounds(*self.feature_range_), prepared.columns.bounds)
        config = pipeline_of(prepared.rows, objective, prepared.options["lookahead"])
        if not (prepared.kept and any(self.clipped_.values())):
            warn_of_clipping([prepared.columns.outside, prepared.labels.outside])
        with self._opened(config, prepared.options) as device, self._watched(
                prepared, device, epochs) as watch:
            trained = train_model(prepared.outputs, device, config, objective, training,
                                  initial=initial, first_epoch=before, on_epoch=watch)
        self._finish(prepared, trained, objective, training, before, classes)
        if trained.interrupted:
            raise KeyboardInterrupt
        if short := trained.short_of(training.tol):
            warnings.warn(f"Training ended before its goal: {short}", ConvergenceWarning,
                          stacklevel=4)

    def _prepare(self, features: Any, targets: np.ndarray, resume: bool) -> "_Prepared":
        """Quantized rows and labels."""
        if not self.fit_intercept and self.scaler != "maxabs":
            raise ValueError("fit_intercept=False needs scaler='maxabs', which does not shift "
                             f"columns, not {self.scaler!r}")
        options = self._device_options()
        check_batch(self.batch)
        check_verbose(self.verbose)
        features, targets, held = hold_out(features, targets, self, classes=self._is_classifier,
                                           draw_seed=self._seed)
        batch = min(self.batch, len(features))
        choice = self._choice(self._kind(), batch)
        kept = resume and hasattr(self, "feature_range_")   # a model may come without
        columns = self._columns(features, kept, resume)
        labels = self._labels(targets, kept)
        rows = self._quantized(features, columns, choice, options["bus_width"], kept)
        return _Prepared(features, options, batch, choice, kept, columns, labels, rows,
                         self._outputs(rows, labels), held)

    @property
    def _is_classifier(self) -> bool:
        return self._kind().task == "classification"

    def _watched(self, prepared: "_Prepared", device: Device, epochs: int):
        """Progress of a training."""
        columns, labels = prepared.columns.values, prepared.labels.values
        return watched(self.verbose, device, epochs, columns, labels, partial(
            scored_rows, columns, labels, prepared.rows.scaler, self._kind().loss,
            classes=self._is_classifier))

    def _wishes(self, prepared: "_Prepared", epochs: int,
                resume: bool) -> tuple[Objective, Training]:
        """What is minimised, and how."""
        objective = Objective(loss=self._kind().loss, l2=self.l2, l1=self.l1, box=self.box,
                              refetch=prepared.choice.refetch)
        step = self._next_step(prepared.rows, objective, prepared.batch) if resume else self.step
        return objective, resolve_training(
            prepared.rows, objective, epochs=epochs, schedule=self.schedule, batch=prepared.batch,
            step=step, fit_intercept=self.fit_intercept, model_range=_given(self.model_range),
            solver=self.solver, tol=self.tol if self.solver == "bit-centred" else 0.0,
            planes=self._planes(), model_bits=self.model_bits, update_bits=self.update_bits,
            stopping=stopping_of(
                self, prepared.held, prepared.columns.values, prepared.labels.values,
                prepared.rows.scaler, objective.loss, classes=self._is_classifier))

    def _finish(self, prepared: "_Prepared", trained: TrainedModel, objective: Objective,
                training: Training, before: int, classes: np.ndarray | None) -> None:
        """Set the learned attributes after ``before`` epochs of earlier calls and these."""
        entries = history_entries(trained, objective.loss, prepared.columns.values,
                                  prepared.labels.values, prepared.held, before,
                                  classes=self._is_classifier)
        named = isinstance(self.schedule, str) and self.schedule in SCHEDULES
        self.step_ = float(training.steps[0]) if named else None
        kept = trained.kept
        floor = noise_floor(prepared.rows, objective, training, weights=trained.weights[kept],
                            steps=trained.steps[:kept + 1], loss=entries[kept]["train_loss"])
        self.noise_floor_ = None if floor is None else floor.share
        self._rows = prepared.choice
        self._learn(trained, entries, before, classes)
        self._keep_ranges(prepared.features, prepared.columns, prepared.labels, prepared.kept)

    def fit_candidates(self, X, y, candidates: Sequence[dict[str, Any]],
                       sample_weight=None) -> list[Any]:
        """Train an estimator for each of several candidates, in as few passes over the rows as the
        device needs.

        Parameters
        ----------
        X, y, sample_weight
            See :meth:`fit`.
        candidates : sequence of dict
            Parameters of each, of those that leave the rows as they are: ``step``, ``schedule``,
            ``l2``, ``l1``, ``box`` and ``model_range``.

        Returns
        -------
        list of estimator or SaturationError
            For each candidate a new estimator, bit for bit the one that ``fit`` makes with its
            parameters and an integer as ``random_state``; or the error with which its training
            ended.

        Raises
        ------
        ValueError
            If data or a parameter cannot be used.
        KeyboardInterrupt
            On Ctrl-C.
        """
        for name in dict.fromkeys(name for candidate in candidates for name in candidate):
            if name not in CANDIDATE_PARAMETERS:
                raise ValueError(f"A candidate may have {', '.join(CANDIDATE_PARAMETERS)}, which "
                                 f"leave the quantized rows as they are, not {name!r}; search "
                                 "over it with scikit-learn's GridSearchCV")
        copies: list[Any] = [clone(self) for _ in candidates]
        estimators: list[Any] = [one.set_params(**chosen)
                                 for one, chosen in zip(copies, candidates, strict=True)]
        if not estimators:
            raise ValueError("There must be at least one candidate")
        features, targets, classes = estimators[0]._checked(X, y, sample_weight)
        for one in estimators[1:]:
            one._checked(X, y)          # names and number of the features
        prepared = estimators[0]._prepare(features, targets, False)
        wishes = [one._wishes(prepared, self.epochs, False) for one in estimators]
        widest = max((objective for objective, _ in wishes), key=lambda one: one.proximal)
        config = pipeline_of(prepared.rows, widest, prepared.options["lookahead"])
        warn_of_clipping([prepared.columns.outside, prepared.labels.outside])
        with self._opened(config, prepared.options) as device:
            found = train_candidates(prepared.outputs, device, config, wishes)
        for number, (one, model) in enumerate(zip(estimators, found, strict=True)):
            if isinstance(model, SaturationError):
                estimators[number] = model
                continue
            if model.interrupted:
                raise KeyboardInterrupt
            one._finish(prepared, model, *wishes[number], 0, classes)
        return estimators

    def _checked(self, X, y, sample_weight=None) -> tuple[Any, np.ndarray, np.ndarray | None]:
        """Rows of a pass, targets of the outputs, and classes of a first call."""
        raise NotImplementedError

    def _weighted(self, X, targets, weights, resume, groups=None) -> tuple[Any, np.ndarray]:
        """Rows of a pass with their targets; without a row only where a model stays as it is."""
        features, targets = pass_rows(X, targets, weights, self._seed, groups)
        if not len(targets) and not resume:
            raise ValueError("The weights must leave at least one row to train on, but they add up "
                             f"to {np.sum(weights):g}, and none was drawn; multiply all of them by "
                             "a number")
        return features, targets

    def _seed(self) -> int:
        """The seed, or one that is drawn."""
        if isinstance(self.random_state, (int, np.integer)):
            return int(self.random_state)
        return check_random_state(self.random_state).randint(np.iinfo(np.int32).max)

    def _columns(self, features: Any, kept: bool, resume: bool) -> Clipped:
        """Features within the ranges in effect."""
        given = given_bounds("feature_range", self.feature_range, features.shape[1])
        clip = None if given else self.clip_range_ if resume else self._own_clip(features)
        return clipped(features, "feature values", symmetric=self.scaler == "maxabs",
                       before=Bounds(*self.feature_range_) if kept else None,
                       rows_before=self.n_samples_seen_ if kept else 0, given=given, clip=clip)

    def _own_clip(self, features: Any) -> np.ndarray | None:
        """The clip of the first rows, or a warning where one would help."""
        return scaler_of_columns(columns_of(features), self.scaler, lambda text: warnings.warn(
            f"{text}; scaler='quantile' clips it", RangeWarning, stacklevel=5)).clip

    def _labels(self, targets: np.ndarray, kept: bool) -> Clipped:
        """Targets of the outputs within the range in effect; those of classes are as they are."""
        return Clipped(targets, Bounds(np.array([-1.0]), np.array([1.0])), 0, "")

    def _check_partial(self) -> None:
        """Raise ValueError if parameters are those of a whole training."""
        if self.early_stopping:
            raise ValueError("early_stopping must be False for partial_fit, which trains one epoch "
                             "and cannot hold rows out of all calls; score the model on rows of "
                             "your own between the calls")

    def _next_step(self, rows: QuantizedRows | WovenRows, objective: Objective,
                   batch: int) -> float | None:
        """First step of a training that goes on: as it was, or, with ``auto``, what these rows need
        if that is less. Few rows may be shorter than those that follow.
        """
        if self.step_ is None or _given(self.step) is not None or self.solver == "bit-centred":
            return self.step_
        return min(self.step_, automatic_step(rows, batch, self.fit_intercept, objective.loss))

    def _keep_ranges(self, features: Any, columns: Clipped, labels: Clipped,
                     kept: bool) -> None:
        """Set the learned attributes that the next chunk needs."""
        if not kept:
            self.first_rows_ = fingerprint(features)
            self.clipped_, self.n_samples_seen_ = {"features": 0, "labels": 0}, 0
        self.clipped_ = {"features": self.clipped_["features"] + columns.count,
                         "labels": self.clipped_["labels"] + labels.count}
        self.n_samples_seen_ += len(features)
        self.feature_range_ = np.array([columns.bounds.low, columns.bounds.high])
        self.clip_range_ = columns.clip

    def _learn(self, trained: TrainedModel, entries: list[dict[str, Any]], before: int,
               classes: np.ndarray | None) -> None:
        """Set the learned attributes; ``before`` epochs were trained earlier."""
        if self.verbose > 1:
            print_history(entries)
        self.history_ = (self.history_ if before else []) + entries
        self.n_iter_ = before + trained.epochs_done
        self.best_epoch_ = before + trained.kept + 1
        self.counters_ = trained.counters
        self.model_range_ = trained.model_range
        if classes is not None:
            self.classes_ = classes
        self._set_model(trained.coefs[trained.kept], trained.intercepts[trained.kept])

    def _planes(self) -> Any:
        """Planes of woven rows as asked for; None: rows of fixed bits."""
        return "auto" if self.planes is None and self.solver == "bit-centred" else self.planes

    def _kind(self) -> Model:
        """Loss and default rows of what the parameters ask for."""
        raise NotImplementedError

    def _choice(self, model: Model, batch: int) -> RowChoice:
        """Bits, encoding and refetching, with the defaults filled in."""
        if isinstance(self.bits, str) and self.bits != "auto":
            raise ValueError(f"bits must be 'auto', an integer from 1 to 8, or {FLOAT_BITS}, "
                             f"not {self.bits!r}")
        woven = self._planes() is not None
        if woven and (_given(self.encoding) is not None or self.copies != 1):
            raise ValueError("Woven rows (planes, or solver 'bit-centred') have an encoding of "
                             "their own and one copy; leave encoding and copies out, not "
                             f"{self.encoding!r} and {self.copies}")
        encoding = WOVEN if woven else _given(self.encoding)
        return resolve_rows(model, bits=_given(self.bits), encoding=encoding,
                            refetch=self._asked_refetch(), batch=batch, levels=self.levels,
                            few_bits=bool(self.model_bits or self.update_bits))

    def _asked_refetch(self) -> bool | None:
        """Refetching as asked for; None: wherever it is possible."""
        return False

    def _quantized(self, features: Any, columns: Clipped, choice: RowChoice,
                   bus_width: int, kept: bool) -> QuantizedRows | WovenRows:
        seed = self._seed()
        if isinstance(self.random_state, (int, np.integer)) and kept and seed >= 0:
            seed = chunk_seed(seed, features, self.first_rows_)
        scaler = scaler_of_ranges(columns.bounds.low, columns.bounds.high, self.scaler)
        if choice.encoding == WOVEN:
            return weave_rows(columns.values, bus_width=bus_width, scaler=scaler, seed=seed)
        return quantize_rows(columns.values, bits=choice.bits, encoding=choice.encoding,
                             bus_width=bus_width, scaler=scaler, copies=self.copies,
                             seed=seed, fine_rows=choice.refetch, levels=choice.levels)

    def _device_options(self) -> dict[str, Any]:
        options: dict[str, Any] = {"bus_width": 64, "lookahead": "auto"}
        if isinstance(self.device, str):
            return options | {"name": default_device() if self.device == "auto" else self.device}
        if isinstance(self.device, dict):
            if "name" not in self.device:
                raise ValueError("device must have a 'name' if it is a dictionary, not only "
                                 f"{', '.join(map(repr, self.device)) or 'nothing'}")
            return options | self.device
        return options | {"bus_width": self.device.config.bus_width, "opened": self.device}

    @contextmanager
    def _opened(self, config, options) -> Iterator[Device]:
        if "opened" in options:
            yield options["opened"]
            return
        extra = {key: value for key, value in options.items()
                 if key not in ("name", "bus_width", "lookahead")}
        if "progress" in signature(device_class(options["name"])).parameters:
            extra.setdefault("progress", status_of(self.verbose, options["name"]))
        few_bits = bool(self.model_bits or self.update_bits)
        with open_device(options["name"], config, few_bits=few_bits, **extra) as device:
            if "progress" in extra and hasattr(extra["progress"], "clear"):
                extra["progress"].clear()
            yield device

    def _outputs(self, rows: QuantizedRows | WovenRows, labels: Clipped) -> list[QuantizedDataset]:
        """Quantized rows with the labels of each output."""
        raise NotImplementedError

    def _set_model(self, coef: np.ndarray, intercept: np.ndarray) -> None:
        raise NotImplementedError

    def _validated(self, X, y, resume: bool, **options) -> tuple[np.ndarray, np.ndarray]:
        checked: Any = validate_data(self, X, y, dtype=[np.float64, np.float32], reset=not resume,
                                     accept_sparse="csr", **options)
        return checked

    def save(self, path) -> None:
        """Write the model to a file, which :meth:`load` and ``bitstep predict`` read.

        Parameters
        ----------
        path : path
            The name should end in .npz; a file there is replaced by a whole one.

        Raises
        ------
        ValueError
            If the classes are not numbers.
        OSError
            If the file cannot be written.
        """
        check_is_fitted(self)
        estimator_model(self, self._kind(), self._rows).save(path)

    @classmethod
    def load(cls, path):
        """The estimator of a file of :meth:`save`, or of ``bitstep train --out``.

        Parameters
        ----------
        path : path

        Returns
        -------
        estimator
            With the same predictions, and, of a file of :meth:`save`, with all parameters but an
            opened device.

        Raises
        ------
        ValueError
            If the file is none, damaged, or holds a model of the other kind.
        """
        estimator = cls()
        model, estimator._rows = restore(estimator, path, estimator._kind().task)
        estimator._set_model(model.coef, model.intercept)
        estimator.clip_range_ = model.clip
        return estimator

    def _values(self, X) -> np.ndarray:
        """Output values, shape (n_rows, n_outputs)."""
        check_is_fitted(self)
        rows: Any = validate_data(self, X, dtype=[np.float64, np.float32], reset=False,
                                  accept_sparse="csr")
        model = np.atleast_2d(self.coef_)[None], np.atleast_1d(self.intercept_)[None]
        return np.concatenate([outputs(clipped_features(block, self.clip_range_), *model)[:, 0]
                               for block in dense_blocks(rows)])

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class LowPrecisionRegressor(RegressorMixin, _LowPrecisionModel):
    """Linear regression by SGD on rows of 1 to 8 bits a value, or of floating-point numbers.

    Parameters
    ----------
    bits : int or "auto", default="auto"
        Stored bits of a value, 1 to 8, or 32: floating-point rows, which are not quantized.
        ``auto``: 4; 32 with encoding ``float``.
    encoding : str, default="auto"
        ``nearest``, ``stochastic``, ``compensated``, ``double-symmetric``, ``double``, or, for 32
        bits, ``float``; see docs/number-formats.md. ``auto``: ``compensated``;
        ``float`` with 32 bits.
    levels : {"uniform", "optimal"}, default="uniform"
        ``optimal``: each column has a table of its own levels, those of least variance for the
        rows; with ``nearest``, ``stochastic`` and ``compensated`` up to 5 bits.
    epochs : int, default=20
        Passes over the rows.
    step : float or "auto", default="auto"
        First step, for features scaled to [-1, 1]; ``auto``: see
        :func:`bitstep.training.schedules.automatic_step`. None with a list of steps as
        ``schedule``.
    schedule : str or sequence of float, default="inverse"
        ``constant``, ``inverse`` (step / epoch), ``inverse-sqrt`` (step / sqrt(epoch)), or the
        steps themselves.
    batch : int, default=1
        Rows of a batch; more than the rows there are means all of them.
    l2 : float, default=0.0
        Ridge penalty, l2 / 2 times the squared norm of the weights of scaled features.
    l1 : float, default=0.0
        Lasso penalty, l1 times the sum of the magnitudes of these weights, as soft thresholds.
    box : float or None, default=None
        Largest magnitude of these weights, in units of the target; None for no bound.
    copies : int, default=1
        Independently drawn copies of the rows, read in turn by the epochs.
    scaler : {"quantile", "minmax", "maxabs"}, default="quantile"
        How columns are taken to [-1, 1]: ``minmax`` from their range, ``maxabs`` from their largest
        magnitude. ``quantile`` is as ``minmax``, but a column whose range between the quantiles
        0.1 % and 99.9 % is at most half of its range is clipped at these: what is beyond counts as
        the nearer one, in :meth:`predict`, too (``clip_range_``).
    feature_range : (low, high) or "auto", default="auto"
        Lowest and highest value of the features that their codes stand for: numbers, or arrays of
        shape (n_features,). A value beyond counts as the nearer end while training, with a
        warning. ``auto``: the range of the rows of :meth:`fit`, or of the first :meth:`partial_fit`
        (of the first calls that have 10 rows together; of a column that has a single value there,
        of those up to the call in which it has more).
    label_range : (low, high) or "auto", default="auto"
        The same for the targets; arrays of shape (n_targets,) for several.
    model_range : float or "auto", default="auto"
        Largest weight of scaled features that is representable, as a multiple of the largest target
        (counted from the centre of its range). A smaller one gives finer updates; a weight beyond
        ends the training with an error. ``auto``: as far as the steps can reach, at most 32, or 128
        for other losses than ``squared_error``.
    fit_intercept : bool, default=True
        True to train an intercept; without one, ``scaler`` must be ``maxabs``.
    device : str, dict or opened device, default="auto"
        ``cpu`` (compiled loops), ``golden`` (NumPy alone), ``sim`` or another installed device;
        ``auto`` is ``cpu``, or ``golden`` where numba is not installed; or a dictionary
        with ``name``, any option of the device, ``bus_width`` (default 64) and ``lookahead``
        (default ``auto``); or what :func:`bitstep.devices.open_device` returned, which stays open.
        All devices give the same model; with 32 bits, ``lookahead`` has a part in its rounding.
    warm_start : bool, default=False
        True for a :meth:`fit` that goes on from the model there is: ``epochs`` more epochs, with
        the schedule going on, too.
    random_state : int, RandomState or None, default=None
        Source of the randomness with which codes and updates are rounded.
    solver : {"sgd", "bit-centred"}, default="sgd"
        ``bit-centred``: the exact optimum, with ``l2``, from passes over few bits
        (:mod:`bitstep.training.bit_centred`); ``epochs`` are its outer steps.
    planes : int, list of int, "auto" or None, default=None
        Bit planes, 1 to 16, that each epoch reads of woven rows: one copy of 16 bits a value, from
        which every precision is read. Of a list the last counts for all epochs beyond it. ``auto``:
        see :mod:`bitstep.training.precision`; 4 with solver ``bit-centred``. None: rows
        of ``bits`` bits, or ``auto`` with solver ``bit-centred``.
    tol : float, default=0.0
        Share of what there was to gain that is not worth an epoch: training stops once the loss
        falls by no more in ``n_iter_no_change`` epochs in a row, as a share of the loss of the best
        constant. 0: never, or with ``early_stopping`` once it does not fall. With solver
        ``bit-centred``: once the largest component of the gradient is at most this share of that
        of the model it started from (``history_``: ``gradient``); a
        :class:`sklearn.exceptions.ConvergenceWarning` says if it was not reached.
    early_stopping : bool, default=False
        True to hold rows out, to stop by the loss on them, and to keep the model of the epoch where
        it was least; one rule for all classes or targets (:mod:`bitstep.training.scores.stopping`).
        Not for :meth:`partial_fit`.
    validation_fraction : float, default=0.1
        Share of the rows that ``early_stopping`` holds out, of each class alike.
    n_iter_no_change : int, default=5
        Epochs in a row that must gain no more than ``tol`` to stop.
    verbose : int, default=0
        1 shows epoch, loss, accuracy and rows a second while training, on standard error: a bar on
        a terminal and in a notebook if tqdm is installed, else lines. 2 also prints the new entries
        of ``history_``.
    model_bits : int, default=0
        Bits, 2 to 16, of the model that the dot products of a batch meet, rounded at random; what
        is learned keeps 32. Best with batches of 16 and more. 0: all bits.
    update_bits : int, default=0
        Bits, 2 to 16, of the update of each row, times a power of two, rounded at random. 0: all.
        Both are for devices ``cpu`` and ``golden``, and 1 to 8 ``bits`` without refetching.

    Attributes
    ----------
    coef_ : ndarray of float64, shape (n_features,), or (n_targets, n_features)
        Coefficients, in the units of features and target; for several targets a row each.
    intercept_ : float, or ndarray of float64, shape (n_targets,)
    n_iter_ : int
        Epochs trained.
    step_ : float
        First step; None with a list of steps. With step ``auto``, the least that any call's rows
        asked for.
    history_ : list of dict
        One entry an epoch: ``epoch``, ``step`` as the hardware took it, and ``train_loss``,
        1/(2K) sum of squared residuals over the K rows of the call, with values beyond their range
        as they were trained on; the mean over several targets. With ``early_stopping`` also
        ``validation_loss``, that of the held-out rows. Of woven rows also ``planes`` (a
        list for several targets) and ``bytes_read``, of solver ``bit-centred`` ``gradient``.
    best_epoch_ : int
        Epoch of the model: with ``early_stopping`` the best one, else the last.
    noise_floor_ : float or None
        Estimate of what the rounding to codes adds to the loss of float SGD, as a share of that
        (:mod:`bitstep.training.noise_floor`); None where there is no estimate: other losses than
        ``squared_error``, encodings without corrections, penalties, more than 256 features.
    feature_range_ : ndarray of float64, shape (2, n_features)
        Lowest and highest value of each feature that its codes stand for; it never shrinks.
    label_range_ : (float, float), or ndarray of float64, shape (2, n_targets)
        The same of the targets.
    clip_range_ : ndarray of float64, shape (2, n_features), or None
        Lowest and highest value of each feature that :meth:`predict` tells apart, with scaler
        ``quantile``; infinite for those that are not clipped, None if none is.
    clipped_ : dict of str to int
        Values beyond these ranges since training began: of ``features`` and ``labels``.
    n_samples_seen_ : int
        Rows of all calls since training began.
    model_range_ : float
        ``model_range`` of the last call.
    first_rows_ : int
        Checksum of the first rows. The same rows are rounded alike in later calls, others by random
        numbers of their own.
    counters_ : dict
        Counters of the last run, by lower-case name of
        :data:`bitstep.pipeline.registers.COUNTERS`; None where the device cannot know.
    n_features_in_ : int
        Features of a row.
    feature_names_in_ : ndarray of str
        Their names, if the data had any.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from bitstep import LowPrecisionRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = LowPrecisionRegressor(bits=4, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.5
    True
    """

    label_range_: Any

    def fit(self, X, y, sample_weight=None):
        """Train on rows X and targets y; several targets read the same quantized rows.

        Parameters
        ----------
        X : array of float or sparse matrix of scipy, shape (n_rows, n_features)
            Sparse rows become dense in blocks (:class:`bitstep.data.views.RowView`).
        y : array of float, shape (n_rows,) or (n_rows, n_targets)
        sample_weight : array of float, shape (n_rows,), optional
            How often a pass reads each row, on average (:mod:`bitstep.training.weights`): whole
            weights repeat a row, bit for bit, and 0 leaves it out.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If data or a parameter cannot be used.
        bitstep.pipeline.results.SaturationError
            If a number left its range; it names the epoch. Choose a smaller step.
        KeyboardInterrupt
            On Ctrl-C; the model is that of the last finished epoch.
        """
        return self._fit(X, y, sample_weight, epochs=self.epochs,
                         resume=self.warm_start and hasattr(self, "coef_"))

    def partial_fit(self, X, y, sample_weight=None):
        """Train one epoch, from the model there is; parameters and errors as for :meth:`fit`.

        Each call may have other rows, one or more. The first rows fix the ranges that are not given
        (see ``feature_range`` and ``label_range``). To the schedule, each call is an epoch: many
        short chunks want ``schedule="constant"`` or ``"inverse-sqrt"``. A call of whose rows small
        weights leave none changes nothing.

        Warns
        -----
        bitstep.quantization.bounds.ClippingWarning
            Once, if values lie beyond the ranges; ``clipped_`` counts them.
        """
        self._check_partial()
        return self._fit(X, y, sample_weight, epochs=1, resume=hasattr(self, "coef_"))

    def _fit(self, X, y, sample_weight, *, epochs, resume):
        X, targets, _ = self._checked(X, y, sample_weight, resume)
        known = len(np.atleast_2d(self.coef_)) if resume else targets.shape[1]
        if targets.shape[1] != known:
            raise ValueError(f"y must have {known} targets, as before, not {targets.shape[1]}")
        if len(targets):
            self._train(X, targets, epochs=epochs, resume=resume)
        return self

    def _checked(self, X, y, sample_weight=None, resume=False):
        X, y = self._validated(X, y, resume, y_numeric=True, multi_output=True)
        if y.ndim == 2 and y.shape[1] == 1:
            y = column_or_1d(y, warn=True)
        targets = np.asarray(y, np.float64).reshape(X.shape[0], -1)
        weights = checked_weights(sample_weight, len(targets))
        return *self._weighted(X, targets, weights, resume), None

    def predict(self, X) -> np.ndarray:
        """Predicted targets of rows X, shape (n_rows,), or (n_rows, n_targets) if there are
        several.
        """
        values = self._values(X)
        return values[:, 0] if values.shape[1] == 1 else values

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        # Few levels and few rows: R2 is below scikit-learn's 0.5 on 200 rows of 10 features.
        precise = self.bits != 2 or self.encoding in ("auto", "nearest", "compensated")
        tags.regressor_tags.poor_score = self.bits == 1 or not precise
        tags.target_tags.multi_output = True
        return tags

    def _kind(self):
        return MODELS["linreg"]

    def _labels(self, targets, kept):
        return clipped(targets, "labels", symmetric=not self.fit_intercept,
                       before=Bounds(*np.reshape(self.label_range_, (2, -1))) if kept else None,
                       rows_before=self.n_samples_seen_ if kept else 0,
                       given=given_bounds("label_range", self.label_range, targets.shape[1]))

    def _outputs(self, rows, labels):
        bounds = labels.bounds
        return [QuantizedDataset(rows, quantize_labels(
            column, rows.n_rows, center_labels=self.fit_intercept,
            label_bits=label_bits_of(rows.encoding),
            label_range=None if single else (low, high)))
            for column, low, high, single in zip(labels.values.T, bounds.low, bounds.high,
                                                 bounds.single, strict=True)]

    def _keep_ranges(self, features, columns, labels, kept):
        super()._keep_ranges(features, columns, labels, kept)
        bounds = labels.bounds
        self.label_range_ = (float(bounds.low[0]), float(bounds.high[0])) if len(bounds.low) == 1 \
            else np.array([bounds.low, bounds.high])

    def _set_model(self, coef, intercept):
        self.coef_, self.intercept_ = (coef[0], float(intercept[0])) if len(coef) == 1 \
            else (coef, intercept)


def _has_probabilities(estimator):
    """True if a classifier's outputs are log odds."""
    if estimator.loss != "log_loss":
        raise AttributeError(f"Probabilities need loss='log_loss', not {estimator.loss!r}")
    return True


class LowPrecisionClassifier(ClassifierMixin, _LowPrecisionModel):
    """Linear SVM or logistic regression by SGD on rows of 1 to 8 bits a value, or of
    floating-point numbers; one-vs-rest.

    Labels count as +1 and -1. More than two classes train one model each, on the same packed rows.

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
        Stored bits of a value, 1 to 8, or 32: floating-point rows, which are not quantized.
        ``auto``: 4, or 8 with other losses than ``squared_error``; 32 with encoding ``float``.
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
        Weights by class (1 where it names none), by which those of the rows are multiplied: how
        often a pass reads a row, see ``sample_weight`` of :meth:`fit`. ``balanced``: every class
        has the same weight in a pass, which has as many rows as there are.
    fit_intercept
        See there.
    device, warm_start, random_state
        See there.
    solver, planes, tol, early_stopping, validation_fraction, n_iter_no_change, verbose
        See there; ``bit-centred`` is for all losses but ``hinge``.
    model_bits, update_bits
        See there; losses other than ``squared_error`` see the noise of a rounded model.

    Attributes
    ----------
    classes_ : ndarray, shape (n_classes,)
        The labels.
    coef_ : ndarray of float64, shape (1, n_features) or (n_classes, n_features)
        Coefficients, in the units of the features.
    intercept_ : ndarray of float64, shape (1,) or (n_classes,)
    history_ : list of dict
        One entry an epoch: ``epoch``, ``step`` as the hardware took it, ``train_loss``, the mean
        of the loss over rows and outputs, and ``train_accuracy``. With ``early_stopping`` also
        ``validation_loss`` and ``validation_accuracy``, those of the held-out rows; of woven
        rows more, see there.
    n_iter_, best_epoch_, step_, counters_, noise_floor_, feature_range_, clip_range_, clipped_
        See :class:`LowPrecisionRegressor`.
    n_samples_seen_, model_range_, first_rows_
        See :class:`LowPrecisionRegressor`.
    n_features_in_, feature_names_in_
        See :class:`LowPrecisionRegressor`.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from bitstep import LowPrecisionClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = LowPrecisionClassifier(bits=4, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.95
    True
    >>> model.predict_proba(X[:3]).shape
    (3, 2)

    The hinge loss reads a row again, at 16 bits, where its codes leave open on which side of the
    margin it is:

    >>> svm = LowPrecisionClassifier(loss="hinge", random_state=0).fit(X, y)
    >>> svm.score(X, y) > 0.95
    True
    >>> svm.counters_["refetched_rows"] < 0.1 * 20 * len(X)
    True

    The squared error needs 4 bits only, since its corrections free it from the noise of rounding:

    >>> LowPrecisionClassifier(loss="squared_error", random_state=0).fit(X, y).score(X, y) > 0.93
    True
    """

    def __init__(self, *, loss="log_loss", refetch: Any = "auto", bits: Any = "auto",
                 encoding="auto", levels="uniform", epochs=20, step: Any = "auto",
                 schedule: Any = "inverse", batch=1, l2=0.0, l1=0.0, box: Any = None, copies=1,
                 scaler="quantile", feature_range: Any = "auto", model_range: Any = "auto",
                 fit_intercept=True, device: Any = "auto", warm_start=False,
                 random_state: Any = None, solver="sgd", planes: Any = None, tol=0.0,
                 early_stopping=False, validation_fraction=0.1, n_iter_no_change=5, verbose=0,
                 class_weight: Any = None, model_bits=0, update_bits=0):
        super().__init__(
            bits=bits, encoding=encoding, levels=levels, epochs=epochs, step=step,
            schedule=schedule, batch=batch,
            l2=l2, l1=l1, box=box, copies=copies, scaler=scaler, feature_range=feature_range,
            model_range=model_range, fit_intercept=fit_intercept, device=device,
            warm_start=warm_start, random_state=random_state, solver=solver, planes=planes,
            tol=tol, early_stopping=early_stopping, validation_fraction=validation_fraction,
            n_iter_no_change=n_iter_no_change, verbose=verbose, model_bits=model_bits,
            update_bits=update_bits)
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
        ValueError, bitstep.pipeline.results.SaturationError
            As :meth:`LowPrecisionRegressor.fit` does.
        KeyboardInterrupt
            On Ctrl-C; with two classes, the model is that of the last finished epoch, if there
            is one. With more, it is unchanged unless the last class was in training.
        """
        resume = self.warm_start and hasattr(self, "coef_")
        return self._fit(X, y, sample_weight, classes=None, epochs=self.epochs, resume=resume)

    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """Train one epoch, from the model there is; parameters and errors as for :meth:`fit`.

        Parameters
        ----------
        classes : array, optional
            All labels; needed by the first call if y lacks some.
        """
        self._check_partial()
        if isinstance(self.class_weight, str) and self.class_weight == "balanced":
            raise ValueError(f"class_weight={self.class_weight!r} needs all rows at once, which "
                             "partial_fit has not; give a dictionary of weights by class")
        return self._fit(X, y, sample_weight, classes=classes, epochs=1,
                         resume=hasattr(self, "coef_"))

    def _fit(self, X, y, sample_weight, *, classes, epochs, resume):
        X, targets, known = self._checked(X, y, sample_weight, classes, resume)
        if len(targets):
            self._train(X, targets, epochs=epochs, resume=resume, classes=known)
        return self

    def _checked(self, X, y, sample_weight=None, classes=None, resume=False):
        X, y = self._validated(X, y, resume)
        check_classification_targets(y)
        weights = row_weights(checked_weights(sample_weight, len(y)), self.class_weight, y,
                              self.classes_ if resume else classes)
        present = y if weights is None else y[weights > 0]      # 0 takes a row away
        known = np.unique(self.classes_ if resume else present if classes is None else classes)
        if len(known) < 2:
            where = "" if weights is None else ", in rows of weights above 0"
            raise ValueError("A classification must have two classes, but y has one class, "
                             f"{known.tolist()[0]!r}{where}; give the first partial_fit all of "
                             "them as classes")
        unknown = np.setdiff1d(present, known)
        if len(unknown):
            raise ValueError(f"y must hold classes {known.tolist()} only, not {unknown.tolist()}")
        if resume and classes is not None and not np.array_equal(np.unique(classes), known):
            raise ValueError(f"classes must be those of the first call, {known.tolist()}, "
                             f"not {np.unique(classes).tolist()}")
        groups = None if weights is None else np.searchsorted(known, y)
        return *self._weighted(X, class_targets(y, known), weights, resume, groups), known

    def decision_function(self, X) -> np.ndarray:
        """Values whose sign, or largest, decides: shape (n_rows,) or (n_rows, n_classes)."""
        values = self._values(X)
        return values[:, 0] if values.shape[1] == 1 else values

    def predict(self, X) -> np.ndarray:
        """Predicted labels of rows X, shape (n_rows,)."""
        chosen = decide(self._values(X))
        return self.classes_[chosen]

    @available_if(_has_probabilities)
    def predict_proba(self, X) -> np.ndarray:
        """Probabilities of the classes, shape (n_rows, n_classes); with loss ``log_loss`` only.

        One-vs-rest: each class's own probability, divided by their sum, as of scikit-learn's
        SGDClassifier.
        """
        positive = 1 / (1 + np.exp(-np.clip(self._values(X), -700, 700)))   # never all of them 0
        if positive.shape[1] == 1:
            return np.hstack([1 - positive, positive])
        return positive / positive.sum(axis=1, keepdims=True)

    @available_if(_has_probabilities)
    def predict_log_proba(self, X) -> np.ndarray:
        """Logarithms of :meth:`predict_proba`."""
        return np.log(self.predict_proba(X))

    def _kind(self):
        if self.loss not in CLASSIFIERS:
            raise ValueError(f"loss must be one of {', '.join(map(repr, CLASSIFIERS))}, "
                             f"not {self.loss!r}")
        return CLASSIFIERS[self.loss]

    def _asked_refetch(self):
        if isinstance(self.refetch, str) and self.refetch == "auto":
            return None
        if isinstance(self.refetch, (bool, np.bool_)):
            return bool(self.refetch)
        raise ValueError(f"refetch must be 'auto', True or False, not {self.refetch!r}")

    def _outputs(self, rows, labels):
        return target_outputs(rows, labels.values)

    def _set_model(self, coef, intercept):
        self.coef_, self.intercept_ = coef, intercept


def _given(value: Any) -> Any:
    """None for a parameter that is left open."""
    return None if isinstance(value, str) and value == "auto" else value
