"""Linear regression."""

from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils import column_or_1d

from bitstep.estimators.base import LowPrecisionModel
from bitstep.quantization import QuantizedDataset, label_bits_of, quantize_labels
from bitstep.quantization.bounds import Bounds, given_bounds
from bitstep.quantization.labels import near_range
from bitstep.training.chunks import clipped
from bitstep.training.weights import checked_weights


class LowPrecisionRegressor(RegressorMixin, LowPrecisionModel):
    r"""Linear regression: to its optimum on rows that are read with few bits in most passes, or by
    SGD on rows of 1 to 8 bits a value or of floating-point numbers.

    Parameters
    ----------
    bits : int or "auto", default="auto"
        Stored bits of a value, 1 to 8, or 32: floating-point rows, which are not quantized; for
        solver ``sgd``. ``auto``: 4; 32 with encoding ``float``. Solver ``bit-centred`` stores 16.
    encoding : str, default="auto"
        ``nearest``, ``stochastic``, ``compensated``, ``double-symmetric``, ``double``, or, for 32
        bits, ``float``; see docs/number-formats.md. ``auto``: ``compensated``;
        ``float`` with 32 bits.
    levels : {"uniform", "optimal"}, default="uniform"
        ``optimal``: each column has a table of its own levels, those of least variance for the
        rows; with ``nearest``, ``stochastic`` and ``compensated`` up to 5 bits.
    epochs : int or "auto", default="auto"
        Passes over the rows; of solver ``bit-centred`` outer steps, at most 100 with ``auto``. Less
        than 10 ask for solver ``sgd``. Of that solver ``auto`` is 100,000 divided by the rows, but
        at least 20 and at most 1,000, or 20 where ``schedule`` is not ``linear`` by default; of
        more than 67,108 weights at most 2^26 divided by these.
    step : float or "auto", default="auto"
        First step, for features scaled to [-1, 1]; ``auto``: see
        :func:`bitstep.training.schedules.automatic_step`. None with a list of steps as
        ``schedule``.
    schedule : str or sequence of float, default="auto"
        ``constant``, ``inverse`` (step / epoch), ``inverse-sqrt`` (step / sqrt(epoch)), ``linear``
        (from step in the first epoch to step / epochs in the last), or the steps themselves.
        ``auto`` is ``linear``, or ``inverse`` with a given ``step``, where the last epoch is not
        known (with ``early_stopping`` or ``tol``, and in :meth:`partial_fit`), and for encodings
        ``compensated``, ``double-symmetric`` and ``double`` of fewer than 4 bits.
    batch : int or "auto", default="auto"
        Rows of a batch of SGD; more than the rows there are means all of them. ``auto``: 4 from
        5,000 rows on, 16 from 20,000 and 64 from 80,000, but 1 in :meth:`partial_fit`, with
        refetching, with a given ``step`` or steps, and for encodings ``compensated``,
        ``double-symmetric`` and ``double`` of fewer than 4 bits; see
        :func:`bitstep.training.schedules.automatic_batch`.
    l2 : float or "auto", default="auto"
        Ridge penalty, l2 / 2 times the squared norm of weights beside the mean loss. With solver
        ``bit-centred`` they are those of standardized columns (:meth:`bitstep.quantization.\
bit_planes.BitPlaneRows.penalty_units`), and ``auto`` is 1 / n_rows, the penalty of scikit-learn's
        ``Ridge`` and ``LogisticRegression``. With ``sgd`` they are those of features scaled to
        [-1, 1], and ``auto`` is 0.
    l1 : float, default=0.0
        Lasso penalty, l1 times the sum of the magnitudes of the weights of scaled features, as soft
        thresholds.
    box : float or None, default=None
        Largest magnitude of these weights, in units of the target; None for no bound.
    copies : int, default=1
        Independently drawn copies of the rows, read in turn by the epochs.
    scaler : {"auto", "quantile", "minmax", "maxabs"}, default="auto"
        How columns are taken to [-1, 1]: ``minmax`` from their range, ``maxabs`` from their largest
        magnitude. ``auto`` is ``quantile``, ``minmax`` with solver ``bit-centred``, whose optimum a
        clip changes, and ``maxabs`` without an intercept. ``quantile`` is as ``minmax``, but a
        column whose range between the quantiles 0.1 % and 99.9 % is at most half of its range is
        clipped at these: what is beyond counts as the nearer one, in :meth:`predict`, too
        (``clip_range_``).
    feature_range : (low, high) or "auto", default="auto"
        Lowest and highest value of the features that their codes stand for: numbers, or arrays of
        shape (n_features,). A value beyond counts as the nearer end while training, with a
        warning. ``auto``: the range of the rows of :meth:`fit`, or of the first :meth:`partial_fit`
        (of the first calls that have 10 rows together; of a column that has a single value there,
        of those up to the call in which it has more).
    label_range : (low, high) or "auto", default="auto"
        The same for the targets; arrays of shape (n_targets,) for several. Targets of loss
        ``huber`` that are more than 500 times their spread from their median count as that far.
    model_range : float or "auto", default="auto"
        Largest weight of scaled features that is representable, as a multiple of the largest target
        (counted from the centre of its range). A smaller one gives finer updates; a weight beyond
        ends the training with an error. ``auto``: as far as the steps can reach, at most 32
        (``squared_error``, ``huber``) or 128. With other losses than ``squared_error`` training
        starts again with 4 times the range if a weight leaves it, up to 5 times.
    fit_intercept : bool, default=True
        True to train an intercept; without one ``scaler`` is ``maxabs``.
    device : str, dict or opened device, default="auto"
        ``cpu`` (compiled loops), ``golden`` (NumPy alone), ``sim`` or another installed device;
        ``auto`` is ``cpu``, or ``golden`` where numba is not installed; or a dictionary
        with ``name``, any option of the device, ``bus_width`` (default 64, or that of a board's
        widest bitstream for such rows), ``lookahead``
        (default ``auto``) and ``packed`` (True: a pipeline for rows without padding, at most 64
        features); or what :func:`bitstep.devices.open_device` returned, which stays open.
        All devices give the same model; with 32 bits, ``lookahead`` and ``bus_width`` have a part
        in its rounding.
    warm_start : bool, default=False
        True for a :meth:`fit` that goes on from the model there is: ``epochs`` more epochs, whose
        steps are the rest of a schedule over all epochs, those before included.
    random_state : int, RandomState or None, default=None
        Source of the randomness with which codes and updates are rounded.
    solver : {"auto", "sgd", "bit-centred"}, default="auto"
        ``bit-centred``: the exact optimum, with ``l2``, from passes over few bits
        (:mod:`bitstep.training.centred.least_squares`); ``epochs`` are its outer steps. ``auto``:
        ``bit-centred``, or ``sgd`` where another parameter, :meth:`partial_fit` or the device asks
        for it (docs/estimators.md).
    planes : int, list of int, "auto" or None, default=None
        Bit planes, 1 to 16, that each epoch reads of bit-plane rows: one copy of 16 bits a value,
        from which every precision is read. Of a list the last counts for all epochs beyond it.
        ``auto``: see :mod:`bitstep.training.loop.precision`; with solver ``bit-centred`` 4, or,
        of few rows, all 16 in a few passes (:mod:`bitstep.training.centred.curvature`). None:
        rows of ``bits`` bits, or ``auto`` with solver ``bit-centred``.
    tol : float or "auto", default="auto"
        With ``sgd``: share of what there was to gain that is not worth an epoch. Training stops
        once the loss falls by no more in ``n_iter_no_change`` epochs in a row, as a share of the
        loss of the best constant. ``auto`` is 0: never, or with ``early_stopping`` once it does not
        fall. With ``bit-centred``: training stops once the largest component of the gradient, in
        standardized columns, is at most this share of that at weights of 0
        (``history_``: ``gradient``); a :class:`sklearn.exceptions.ConvergenceWarning` says if it
        was not reached. ``auto`` is 1e-4.
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
        Both are for 1 to 8 ``bits`` without refetching.
    shuffle : bool, default=True
        True for rows in the order of a permutation by ``random_state``, that of ``bitstep train``
        with this seed, in every epoch of :meth:`fit`; rows in the order of their classes, or of
        time, would pull the model to the last ones. :meth:`partial_fit` takes rows as they come.
    loss : {"squared_error", "huber"}, default="squared_error"
        Loss to minimise of a residual r: r^2 / 2, or, for targets with outliers, the Huber loss:
        r^2 / 2 where \|r\| is at most a bound e, and e (\|r\| - e / 2) beyond. The Huber loss has
        ``bits`` 8 and encoding ``stochastic`` with ``auto``.
    epsilon : float or "auto", default="auto"
        Bound e of the Huber loss, in units of the targets' standard deviation, which is estimated
        from the median of their distances to the median
        (:attr:`bitstep.quantization.QuantizedDataset.label_spread`). ``auto``: 1.35, as of
        scikit-learn's HuberRegressor, whose unit is the standard deviation of the residuals
        instead. Each of several targets has a bound of its own.

    Attributes
    ----------
    coef_ : ndarray of float64, shape (n_features,), or (n_targets, n_features)
        Coefficients, in the units of features and target; for several targets a row each.
    intercept_ : float, or ndarray of float64, shape (n_targets,)
    solver_ : str
        ``sgd`` or ``bit-centred``.
    n_iter_ : int
        Epochs trained, or outer steps.
    l2_ : float
        Penalty of the last call.
    batch_ : int
        Rows of a batch in the last call.
    gap_ : float or None
        Certificate: the objective is at most this above its least value on the stored rows; the
        mean over several targets. None of solver ``sgd``, without ``l2``, and where there is no
        bound yet.
    step_ : float
        First step; None with a list of steps. With step ``auto``, the least that any call's rows
        asked for.
    history_ : list of dict
        One entry an epoch: ``epoch``, ``step`` as the hardware took it, and ``train_loss``,
        1/(2K) sum of squared residuals over the K rows of the call, with values beyond their range
        as they were trained on; the mean over several targets. With ``early_stopping`` also
        ``validation_loss``, that of the held-out rows. Of bit-plane rows also ``planes`` (a
        list for several targets) and ``bytes_read``, of solver ``bit-centred`` ``gradient``, and
        with ``l2`` ``gap``: the objective is at most this above its optimum (None: no bound yet).
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
        ``model_range`` of the last call, as it was in the end; the largest of the outputs.
    restarts_ : list of dict
        Where the last call left an automatic range and started again: ``output`` (from 1),
        ``epoch`` of that call and ``model_range`` from then on.
    first_rows_ : int
        Checksum of the first rows. The same rows are rounded alike in later calls, others by random
        numbers of their own.
    counters_ : mapping of str to int or None
        Counters of the last run, by lower-case name of
        :data:`bitstep.pipeline.registers.COUNTERS`; None where the device cannot know. Device
        ``cpu`` counts when one is read, which takes minutes for millions of rows that are fetched
        again. Until then the estimator, pickled or not, holds three bits for each of their rows and
        epochs.
    n_features_in_ : int
        Features of a row.
    feature_names_in_ : ndarray of str
        Their names, if the data had any.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from bitstep import LowPrecisionRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = LowPrecisionRegressor(random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.51
    True
    >>> model.solver_
    'bit-centred'
    >>> model.gap_ < 0.01
    True

    By SGD on rows of 4 bits a value:

    >>> sgd = LowPrecisionRegressor(bits=4, random_state=0).fit(X, y)
    >>> sgd.solver_, sgd.score(X, y) > 0.5
    ('sgd', True)
    """

    label_range_: Any

    _task = "regression"

    def fit(self, X, y, sample_weight=None):
        """Train on rows X and targets y; several targets read the same quantized rows.

        Parameters
        ----------
        X : array of float or sparse matrix of scipy, shape (n_rows, n_features)
            Sparse rows become dense in blocks (:class:`bitstep.data.views.RowView`).
        y : array of float, shape (n_rows,) or (n_rows, n_targets)
        sample_weight : array of float, shape (n_rows,), optional
            Weights, of which the ratio counts (:mod:`bitstep.training.copies`): a pass reads each
            row so often. Whole weights, and those in ratios of small whole numbers, are exact; of
            others a row of mean weight is read up to 16 times, and the rest is drawn. 0 leaves a
            row out.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If data or a parameter cannot be used.
        bitstep.pipeline.results.RangeOverflowError
            If a number left its range; it names the epoch. Choose a smaller step.
        KeyboardInterrupt
            On Ctrl-C; the model is that of the last finished epoch.

        Warns
        -----
        bitstep.training.copies.WeightWarning
            If weights are too small for some rows to be read.
        bitstep.training.choices.OptimumWarning
            If solver ``bit-centred`` goes to another optimum than that of the rows with their
            weights: columns are clipped, or the copies of rows deviate from the weights.
        """
        return self._fit(X, y, sample_weight, resume=self.warm_start and hasattr(self, "coef_"))

    def partial_fit(self, X, y, sample_weight=None):
        """Train one epoch, from the model there is; parameters and errors as for :meth:`fit`.

        Each call may have other rows, one or more. The first rows fix the ranges that are not given
        (see ``feature_range`` and ``label_range``). To the schedule, each call is an epoch: many
        short chunks want ``schedule="constant"`` or ``"inverse-sqrt"``, and ``tol``, by which many
        epochs end, has no part in it. Rows are not shuffled, and
        weights are numbers of copies: a call of whose rows small weights leave none changes
        nothing.

        Warns
        -----
        bitstep.quantization.bounds.ClippingWarning
            Once, if values lie beyond the ranges; ``clipped_`` counts them.
        bitstep.training.copies.WeightWarning
            If weights are so small that less than a quarter of the rows are read.
        """
        self._check(partial_fit=True)
        return self._fit(X, y, sample_weight, resume=hasattr(self, "coef_"), chunk=True)

    def _fit(self, X, y, sample_weight, *, resume, chunk=False):
        with self._kept_unless_trained():
            rows, _ = self._checked(X, y, sample_weight, resume, chunk)
            count = rows.targets.shape[1]
            known = len(np.atleast_2d(self.coef_)) if resume else count
            if count != known:
                raise ValueError(f"y must have {known} targets, as before, not {count}")
            if len(rows.targets):
                self._train(rows, resume=resume, chunk=chunk)
        return self

    def _checked(self, X, y, sample_weight=None, resume=False, chunk=False):
        X, y = self._validated(X, y, resume, y_numeric=True, multi_output=True)
        if y.ndim == 2 and y.shape[1] == 1:
            y = column_or_1d(y, warn=True)
        targets = np.asarray(y, np.float64).reshape(X.shape[0], -1)
        weights = checked_weights(sample_weight, len(targets))
        return self._pass(X, targets, weights, chunk), None

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

    def _labels(self, targets, kept):
        given = given_bounds("label_range", self.label_range, targets.shape[1])
        near = [None if kept or given else near_range(one, self._kind().loss)
                for one in targets.T]
        return clipped(targets, "labels", symmetric=not self.fit_intercept,
                       before=Bounds(*np.reshape(self.label_range_, (2, -1))) if kept else None,
                       rows_before=self.n_samples_seen_ if kept else 0, given=given,
                       clip=np.transpose([one or (-np.inf, np.inf) for one in near])
                       if any(near) else None)

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
