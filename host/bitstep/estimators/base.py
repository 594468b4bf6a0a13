"""What both estimators do."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from bitstep.data.dataset import check_unmasked
from bitstep.data.views import dense_blocks
from bitstep.estimators.files import estimator_model, restore
from bitstep.estimators.parameters import given
from bitstep.estimators.preparing import Prepared, Preparing
from bitstep.options.table import OPTIONS, SCHEDULES
from bitstep.pipeline.device import Device
from bitstep.pipeline.losses import LossFunction
from bitstep.pipeline.results import RangeOverflowError
from bitstep.quantization import BitPlaneRows, QuantizedRows
from bitstep.quantization.bounds import Bounds, ClippingWarning
from bitstep.quantization.scaling import clipped_features
from bitstep.training.choices import OptimumWarning, Resolved, RowChoice, check_candidates
from bitstep.training.chunks import Clipped, fingerprint, opened_model, warn_of_clipping
from bitstep.training.copies import Pass
from bitstep.training.losses import outputs
from bitstep.training.noise_floor import NoiseFloor, noise_floor
from bitstep.training.objective import Objective, Training, loss_of
from bitstep.training.pipelines import pipeline_of_all
from bitstep.training.schedules import automatic_step
from bitstep.training.scores.clipping import beyond_clip, costly_clipping
from bitstep.training.scores.fits import (
    history_entries,
    print_history,
    print_solver,
    scored_rows,
    watched,
)
from bitstep.training.scores.scoring import (
    ScoredRows,
    above_constant,
    best_constant,
    falls,
    scored_features,
)
from bitstep.training.scores.stopping import Stopping
from bitstep.training.train import train_candidates, train_model
from bitstep.training.trained import TrainedModel, without_columns

# Parameters of candidates that are trained side by side: those that leave the rows as they are.
CANDIDATE_PARAMETERS = tuple(name for name, option in OPTIONS.items() if option.search)


def _facts(chunk: bool) -> dict[str, Any]:
    """Facts of a call, for the rules between options."""
    return {"partial_fit": True} if chunk else {}


class LowPrecisionModel(Preparing):
    """Base class of both estimators."""

    coef_: Any
    intercept_: Any
    _rows: RowChoice

    @contextmanager
    def _kept_unless_trained(self) -> Iterator[None]:
        """Where a call ends without a model, all that was learned before is as it was: the columns
        of the call's rows are learned first, and the model before does not know them.
        """
        before = dict(vars(self))
        try:
            yield
        except BaseException:
            if vars(self).get("coef_") is before.get("coef_"):
                for name in vars(self).keys() - before.keys():
                    delattr(self, name)
                vars(self).update(before)
            raise

    def _train(self, rows: Pass, *, resume: bool, chunk: bool,
               classes: np.ndarray | None = None) -> None:
        """Train all outputs and set the learned attributes; a chunk is trained one epoch.

        On Ctrl-C the attributes are those of the last finished epoch, and KeyboardInterrupt goes
        on.
        """
        prepared = self._prepare(rows, resume, **_facts(chunk))
        resolved = prepared.resolved
        epochs = 1 if chunk else resolved.epochs(*prepared.size)
        print_solver(self.verbose, resolved.solver, resolved.solver_reason)
        before = self.n_iter_ if resume else 0
        objective, training = self._wishes(prepared, resolved, before + epochs, resume)
        if resume and getattr(self, "multinomial_", False) and not objective.multinomial:
            warnings.warn(f"The multinomial model goes on one-vs-rest, by solver "
                          f"{resolved.solver!r}, from the weights that it has: its probabilities "
                          "are then those of each class alone", OptimumWarning, stacklevel=4)
        initial = (np.atleast_2d(self.coef_), np.atleast_1d(self.intercept_)) if resume else None
        if prepared.kept and initial:
            initial = opened_model(*initial, Bounds(*self.feature_range_), prepared.columns.bounds)
        config = pipeline_of_all(prepared.rows, [(objective, training)],
                                 prepared.options["lookahead"], prepared.options["packed"])
        if not (prepared.kept and any(self.clipped_.values())):
            warn_of_clipping([prepared.columns.outside, prepared.labels.outside])
        with self._opened(config, prepared.options) as device, self._watched(
                prepared, device, epochs, loss_of(objective, prepared.outputs)) as watch:
            trained = train_model(prepared.outputs, device, config, objective, training,
                                  initial=initial, first_epoch=before, on_epoch=watch)
        bounds = prepared.columns.bounds
        trained = without_columns(trained, bounds.single, bounds.low, prepared.rows.scaler)
        try:
            measured = self._measured(prepared, trained, objective, training, before)
        except KeyboardInterrupt:       # the epochs are trained: as one that comes in the last
            trained = replace(trained, interrupted=True)
            measured = self._measured(prepared, trained, objective, training, before)
        self._finish(prepared, trained, objective, training, before, classes, *measured)
        if trained.interrupted:
            raise KeyboardInterrupt
        if short := trained.short_of(training.tol, epochs, objective):
            warnings.warn(f"Training ended before its goal: {short}", ConvergenceWarning,
                          stacklevel=4)
        elif not (chunk or resume):
            self._warn_of_losses(prepared, trained, objective, resolved.step_asked,
                                 [one["train_loss"] for one in measured[0]])

    def _warn_of_losses(self, prepared: Prepared, trained: TrainedModel, objective: Objective,
                        step_asked: bool, losses: list[float]) -> None:
        """Warn of a chosen step by which nothing was learned, and of what clipping costs."""
        rule, kept = loss_of(objective, prepared.outputs), trained.kept
        targets, weights = prepared.labels.values, prepared.weights
        found = above_constant(losses, kept, best_constant(rule, targets, weights), rule)
        if found and step_asked and self.fit_intercept:
            ways = "it was still falling: choose more epochs or step='auto'" if falls(losses) \
                else "choose a smaller step"
            warnings.warn(f"Training learned nothing: {found}; {ways}", ConvergenceWarning,
                          stacklevel=5)
        elif self.solver_ == "sgd" and (cost := costly_clipping(
                beyond_clip(prepared.features, prepared.columns.clip, rule), targets, weights, rule,
                trained.coefs[kept], trained.intercepts[kept], losses[kept])):
            warnings.warn(cost, ClippingWarning, stacklevel=5)

    def _watched(self, prepared: Prepared, device: Device, epochs: int, loss: LossFunction):
        """Progress of a training."""
        return watched(self.verbose, device, epochs, prepared.columns.values,
                       prepared.labels.values, self._scored(prepared, loss))

    def _wishes(self, prepared: Prepared, resolved: Resolved, epochs: int,
                resume: bool) -> tuple[Objective, Training]:
        """What is minimised, and how."""
        objective = resolved.objective(prepared.rows_meant)
        step = self._next_step(prepared.rows, objective, resolved) \
            if resume else self.step
        return objective, resolved.training(
            prepared.rows, objective, epochs=epochs, step=step,
            certified=not prepared.other_weights,
            stopping=self._stopping(prepared, resolved, loss_of(objective, prepared.outputs)))

    def _stopping(self, prepared: Prepared, resolved: Resolved,
                  loss: LossFunction) -> Stopping | None:
        """The rule by which a training stops early."""
        held = prepared.held
        return resolved.stopping(
            None if held is None else scored_features(
                held.features, held.targets, prepared.rows.scaler, loss,
                classes=self._is_classifier, weights=held.weights),
            self._scored(prepared, loss))

    def _scored(self, prepared: Prepared, loss: LossFunction) -> Callable[[int], ScoredRows]:
        """Makes some of the rows to train on, to score models on."""
        return partial(scored_rows, prepared.columns.values, prepared.labels.values,
                       prepared.weights, prepared.rows.scaler, loss, classes=self._is_classifier)

    def _measured(self, prepared: Prepared, trained: TrainedModel, objective: Objective,
                  training: Training,
                  before: int) -> tuple[list[dict[str, Any]], NoiseFloor | None]:
        """Entries of the history after ``before`` epochs of earlier calls, and the noise floor."""
        entries = history_entries(trained, loss_of(objective, prepared.outputs),
                                  prepared.columns.values,
                                  prepared.labels.values, prepared.weights, prepared.held, before,
                                  classes=self._is_classifier)
        kept = trained.kept
        return entries, noise_floor(
            prepared.rows, objective, training, weights=trained.weights[kept],
            steps=trained.steps[:kept + 1], loss=entries[kept]["train_loss"])

    def _finish(self, prepared: Prepared, trained: TrainedModel, objective: Objective,
                training: Training, before: int, classes: np.ndarray | None,
                entries: list[dict[str, Any]], floor: NoiseFloor | None) -> None:
        """Set the learned attributes after ``before`` epochs of earlier calls and these."""
        named = isinstance(self.schedule, str) and self.schedule in ("auto", *SCHEDULES)
        self.solver_, self.l2_, self.batch_ = training.solver, objective.l2, int(training.batch)
        self.step_ = float(training.steps[0]) if named else None
        self.noise_floor_ = None if floor is None else floor.share
        rows = prepared.choice      # as far as a model file holds them
        self._rows = RowChoice(bits=rows.bits, encoding=rows.encoding, refetch=rows.refetch,
                               levels=rows.levels, scaler=rows.scaler)
        if classes is not None:
            self.multinomial_ = objective.multinomial
        self._keep_ranges(prepared.features, prepared.columns, prepared.labels, prepared.kept)
        self._learn(trained, entries, before, classes)      # the model last: it counts as trained

    def _next_step(self, rows: QuantizedRows | BitPlaneRows, objective: Objective,
                   resolved: Resolved) -> Any:
        """First step of a training that goes on: as it was, or, with ``auto``, what these rows need
        if that is less. Few rows may be shorter than those that follow.
        """
        solver = resolved.solver
        if getattr(self, "solver_", solver) != solver:    # older files do not say
            return self.step
        if self.step_ is None or given(self.step) is not None or resolved.exact:
            return self.step_
        return min(self.step_, automatic_step(
            rows, resolved.batch(rows.n_rows), self.fit_intercept, objective.loss,
            resolved.request["schedule"], objective.l2))

    def _learn(self, trained: TrainedModel, entries: list[dict[str, Any]], before: int,
               classes: np.ndarray | None) -> None:
        """Set the learned attributes; ``before`` epochs were trained earlier."""
        if self.verbose > 1:
            print_history(entries)
        self.history_ = (self.history_ if before else []) + entries
        self.n_iter_ = before + trained.epochs_done
        self.best_epoch_ = before + trained.kept + 1
        self.gap_ = entries[-1].get("gap")
        self.counters_ = trained.counters
        self.model_range_ = trained.model_range
        self.restarts_ = [one.entry() for one in trained.restarts]
        if classes is not None:
            self.classes_ = classes
        self._set_model(trained.coefs[trained.kept], trained.intercepts[trained.kept])

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

    def _set_model(self, coef: np.ndarray, intercept: np.ndarray) -> None:
        raise NotImplementedError

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
            ``l2``, ``l1``, ``box``, ``epsilon``, ``model_range``, ``model_bits`` and
            ``update_bits``.

        Returns
        -------
        list of estimator or RangeOverflowError
            For each candidate a new estimator, bit for bit the one that ``fit`` makes with its
            parameters and an integer as ``random_state``; or the error with which its training
            ended. All have as many epochs: where ``epochs`` is ``auto``, 20 if a step or schedule
            is among the parameters of one.

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
        check_candidates([one._request().asking(sweep=True) for one in estimators])
        passed, classes = estimators[0]._checked(X, y, sample_weight)
        for one in estimators[1:]:
            one._checked(X, y, chunk=True)      # names and number of the features
        prepared = estimators[0]._prepare(passed, False)
        resolved = [one._resolved(passed) for one in estimators]
        epochs = min(one.epochs(*prepared.size) for one in resolved)
        wishes = [one._wishes(prepared, options, epochs, False)
                  for one, options in zip(estimators, resolved, strict=True)]
        config = pipeline_of_all(prepared.rows, wishes, prepared.options["lookahead"],
                                 prepared.options["packed"])
        few = next((one for one, (_, training) in zip(estimators, wishes, strict=True)
                    if training.few_bits), estimators[0])
        warn_of_clipping([prepared.columns.outside, prepared.labels.outside])
        with few._opened(config, prepared.options) as device:
            found = train_candidates(prepared.outputs, device, config, wishes)
        for number, (one, model) in enumerate(zip(estimators, found, strict=True)):
            if isinstance(model, RangeOverflowError):
                estimators[number] = model
                continue
            if model.interrupted:
                raise KeyboardInterrupt
            one._finish(prepared, model, *wishes[number], 0, classes,
                        *one._measured(prepared, model, *wishes[number], 0))
        return estimators

    def save(self, path) -> None:
        """Write the model to a file, which :meth:`load` and ``bitstep predict`` read.

        Parameters
        ----------
        path : path
            The name should end in .npz; a file there is replaced by a whole one.

        Raises
        ------
        ValueError
            If the classes are neither numbers nor strings.
        OSError
            If the file cannot be written.
        """
        check_is_fitted(self, "coef_")
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
            opened device and a RandomState.

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
        check_is_fitted(self, "coef_")
        check_unmasked("X", X)
        rows: Any = validate_data(self, X, dtype=[np.float64, np.float32], reset=False,
                                  accept_sparse="csr")
        model = np.atleast_2d(self.coef_)[None], np.atleast_1d(self.intercept_)[None]
        return np.concatenate([outputs(clipped_features(block, self.clip_range_), *model)[:, 0]
                               for block in dense_blocks(rows)])

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
