"""From a quantized data set, an objective and a training to the integers of a job, and back.

Notation as in docs/number-formats.md: s is the largest level, mu the value of a model word's last
bit in scaled feature space, L a stored label.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bitstep.golden.dither import DITHER_WIDTH, epoch_keys
from bitstep.golden.steps import STEP_FRACTION
from bitstep.options.models import model_of
from bitstep.options.rules import Request
from bitstep.options.words import PYTHON
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.encodings import encoding_of
from bitstep.pipeline.job import MODEL_LIMIT, EpochSteps, TrainingJob
from bitstep.pipeline.parts.widths import COEFFICIENT_WIDTH, ceil_div
from bitstep.pipeline.registers import LabelFormat
from bitstep.quantization import QuantizedDataset
from bitstep.training import stepping
from bitstep.training.objective import Objective, Training, check_data
from bitstep.training.ranges import Units, automatic_range, label_shift, largest_stored
from bitstep.training.schedules import most_step


@dataclass(frozen=True)
class Plan:
    """A job and what its integers mean.

    Attributes
    ----------
    job : TrainingJob
    units : Units
    steps : ndarray of float64, shape (len(job.epochs),)
        The steps that the hardware takes: those asked for, rounded to mantissa and shift.
    step_error : float
        Largest relative error of the mean update of a row whose derivative is that of one label:
        the difference of ``steps`` to those asked for, below 0.008 (0.016 for the hinge and the
        logistic loss), and what the dither of c cannot tell from 0, 2**-17 of c's last bit.
    model_range : float
        Largest weight that is representable, as a multiple of the largest label.
    between_epochs : bool
        True if the epochs are too short for diagonal corrections within them:
        :mod:`bitstep.training.loop.corrections` makes one after each epoch.
    """

    job: TrainingJob
    units: Units
    steps: np.ndarray
    step_error: float
    model_range: float
    between_epochs: bool = False


def plan(data: QuantizedDataset, config: PipelineConfig, objective: Objective, training: Training,
         *, initial: tuple[np.ndarray, float] | None = None, first_epoch: int = 0,
         between_epochs: bool = False) -> Plan:
    """Make a training job.

    Parameters
    ----------
    data : QuantizedDataset
        Stored rows, labels, and the mean quantization variance D_j of every column.
    config : PipelineConfig
        Pipeline; bits, bus width and row format must be those of ``data``.
    objective, training
        What is minimised, and how.
    initial : (ndarray of shape (n_features,), float) or None
        Weights and intercept in scaled feature space to start from; None: see :func:`start_of`.
    first_epoch : int
        Epochs of ``training.steps`` that are trained already; the job runs the others, exactly as
        a job of all epochs would have run them.
    between_epochs : bool
        True if the caller can make corrections between epochs that are too short for any within
        (:mod:`bitstep.training.loop.corrections`).

    Returns
    -------
    Plan

    Raises
    ------
    ValueError
        If a parameter is out of range or a step cannot be represented; the message says what to
        do.
    """
    found = integers_of(data, config, objective, training, initial=initial,
                        first_epoch=first_epoch, between_epochs=between_epochs)
    stored = data.rows.stored
    turn = first_epoch % len(stored)        # each epoch reads the next copy
    again = {"fine_rows": data.fine_rows, "cell_half_levels": data.rows.cell_half_levels} \
        if objective.refetch else {}
    job = TrainingJob(
        config=config, n_features=data.n_features, rows=(*stored[turn:], *stored[:turn]),
        labels=data.labels.stored, label_format=data.label_format, label_shift=found.shift,
        intercept_level=config.rows.intercept_limit if training.fit_intercept else 0,
        batch=int(training.batch), correction_period=found.period,
        coefficients=found.coefficients, epochs=found.epochs, model=found.model,
        intercept=found.intercept, loss=objective.loss, proximal_period=found.proximal_period,
        box_limit=_box_limit(objective.box, found.units),
        codebooks=data.rows.codebooks,
        bit_plane_rows=data.n_rows * (config.rows.planes > 0),
        model_bits=training.model_bits, update_bits=training.update_bits,
        derivative_bound=objective.bound_of(data), weights=data.rows.weights, **again)
    error = float(np.abs(found.taken / np.asarray(training.steps)[first_epoch:] - 1).max())
    return Plan(job, found.units, found.taken, error + found.lost, found.model_range,
                between_epochs=found.factors is not None and not found.period)


class Integers(NamedTuple):
    """Those of a job that do not need its rows, and what they mean."""

    model_range: float
    shift: int
    units: Units
    period: int
    coefficients: np.ndarray
    factors: np.ndarray | None
    epochs: tuple[EpochSteps, ...]
    taken: np.ndarray
    lost: float
    proximal_period: int
    model: np.ndarray
    intercept: int


def integers_of(data: QuantizedDataset, config: PipelineConfig, objective: Objective,
                training: Training, *, initial: tuple[np.ndarray, float] | None,
                first_epoch: int = 0, between_epochs: bool) -> Integers:
    """Integers of a job whose rows may be elsewhere; see :func:`plan`."""
    _check(data, config, objective, training, first_epoch)
    initial = initial or start_of(data, objective, training)
    model_range = training.model_range or automatic_range(data, config, objective, training,
                                                          initial=initial)
    shift = label_shift(data, config, objective, model_range)
    units = Units(model_unit=data.label_scale * config.rows.level_limit * 2.0 ** -shift,
                  label_offset=data.label_offset)
    period, coefficients, factors = _corrections(data, config, objective, training,
                                                 between_epochs)
    schedule = _Schedule(data, config, objective, training, shift, units)
    epochs, taken, lost = schedule.epochs(factors, first_epoch)
    model, intercept = (np.zeros(data.n_features, np.int32), 0) if initial is None \
        else units.words(*initial)
    return Integers(model_range, shift, units, period, coefficients, factors, epochs, taken, lost,
                    schedule.proximal_period, model, intercept if training.fit_intercept else 0)


def start_of(data: QuantizedDataset, objective: Objective,
             training: Training) -> tuple[np.ndarray, float] | None:
    """Weights and intercept that a training starts from unless it is given some.

    Weights of 0, and an intercept in the centre of the labels' range (None), for the Huber loss at
    their median: from a centre that outliers have moved, clipped derivatives would take many steps,
    on which nearly constant columns go along.
    """
    if not (objective.rule.clipped and training.fit_intercept):
        return None
    return np.zeros(data.n_features), data.label_median


class _Schedule:
    """Epochs of a job: steps, corrections and thresholds as registers hold them.

    Attributes
    ----------
    proximal_period : int
        Rows between proximal steps; 0: there are none.
    """

    def __init__(self, data: QuantizedDataset, config: PipelineConfig, objective: Objective,
                 training: Training, shift: int, units: Units):
        self._objective, self._shift, self._units = objective, shift, units
        self._planes, self._all_planes = training.planes, config.rows.planes
        self._steps, self._seed = np.asarray(training.steps), data.rows.seed % (1 << 32)
        # A step is that of a row of mean weight.
        self._step_scale = config.rows.level_limit * config.rows.gradient_limit * training.batch \
            * data.rows.weight_sums.mean
        self._largest_label = largest_stored(data) * 2.0 ** shift
        # The first step may be as large as the penalty allows; the last one must not be too small.
        self._most_last = most_step(float(objective.penalties(data.rows).max()), data.encoding,
                                    training.batch) * self._steps.min() / self._steps.max()
        self.proximal_period, self._share = 0, 0.0
        if not objective.proximal:
            return
        shrinking = objective.l1 * float(self._steps.max()) / (
            data.label_scale * largest_stored(data))
        self.proximal_period = stepping.automatic_proximal_period(
            data.n_rows, training.batch, shrinking)
        # An epoch's steps add up to its rows, of which the last step may follow fewer.
        self._share = data.n_rows / ceil_div(data.n_rows, self.proximal_period) / training.batch

    def epochs(self, factors: np.ndarray | None,
               first: int) -> tuple[tuple[EpochSteps, ...], np.ndarray, float]:
        """Entries of the epoch table from epoch ``first`` on, with the steps that they stand for,
        and the largest share of an update that their dither cannot tell from 0.

        Parameters
        ----------
        factors : ndarray of float64, shape (epochs,), or None
            Scale of the corrections of every epoch; None without corrections.
        """
        entries, taken, lost = [], [], 0.0
        # All at once: of a hundred thousand epochs of a few rows, one by one they would take longer
        # than the training.
        keys = epoch_keys(self._seed, first, len(self._steps) - first)
        for number, step in enumerate(self._steps[first:], start=first):
            planes = int(self._planes[number]) if self._planes else 0
            left = self._all_planes - planes        # that the epoch does not read
            step_scale, shift = self._step_scale / 4 ** left, self._shift - left
            try:
                mantissa, exponent = stepping.step_mantissa(step / step_scale, step)
                scale = EpochSteps.scale(mantissa, exponent)
                if self._objective.rule.bounded:
                    scale = stepping.checked_derivative_step(mantissa, exponent, shift, step) \
                        * 2.0 ** -(shift + STEP_FRACTION)
            except stepping.ShortStepError as error:
                raise stepping.blame_penalty(
                    error, self._objective, self._most_last) from None
            corrections = (0, 1) if factors is None \
                else stepping.correction_mantissa(factors[number])
            taken.append(step_scale * scale)
            largest = self._largest_label / 2 ** left
            lost = max(lost, 2.0 ** -(DITHER_WIDTH + 1) / (scale * largest))
            entries.append(EpochSteps(mantissa, exponent, *corrections, self._threshold(taken[-1]),
                                      keys[number - first], planes))
        return tuple(entries), np.array(taken), lost

    def _threshold(self, step):
        # Any above the largest word makes zeros of all of them.
        return round(min(self._objective.l1 * step * self._share / self._units.model_unit,
                         MODEL_LIMIT))


def _corrections(data, config, objective, training, between_epochs):
    """Rows between diagonal corrections (0: there are none within an epoch), their coefficients of
    shape (n_features,), and the factor of all coefficients for each of the steps (None: nothing is
    corrected).
    """
    steps, batch = np.asarray(training.steps), training.batch
    variance = np.asarray(data.variance, np.float64)
    corrected = encoding_of(data.encoding).corrected
    weights = (variance if corrected else np.zeros_like(variance)) - objective.penalties(data.rows)
    largest = float(np.abs(weights).max(initial=0.0))
    if largest == 0.0:
        return 0, np.zeros(data.n_features, np.int32), None
    # With floating-point rows a correction waits for the updates in flight.
    above = config.ahead.of_rows(config.rows.beats(data.n_features)) \
        if config.rows.floating else 0
    period, made = 0, 1
    if not (between_epochs and training.correction_period == "auto"
            and stepping.least_period(batch, above) >= data.n_rows):
        period = stepping.correction_period(training.correction_period, data.n_rows, batch,
                                            float(steps.max()) * largest, above)
        made = (data.n_rows - 1) // period
    top = (1 << COEFFICIENT_WIDTH - 1) - 1
    coefficients = np.rint(weights * (top / largest)).astype(np.int32)
    return period, coefficients, steps * (data.n_rows / made / batch * largest / top)


def _box_limit(box, units):
    if box is None:
        return MODEL_LIMIT
    if box < units.model_unit:
        raise ValueError(f"box must be at least {units.model_unit:.6g}, the least weight of this "
                         f"model_range, not {box!r}")
    # Whatever is beyond a model word is no limit: the word's own range ends the run first.
    return math.floor(min(box / units.model_unit, MODEL_LIMIT))


def _check(data, config, objective, training, first_epoch):
    if not 0 <= first_epoch < len(training.steps):
        raise ValueError(f"first_epoch must be from 0 to {len(training.steps) - 1}, not "
                         f"{first_epoch}")
    if data.classes is not None and len(data.classes) > 2:
        raise ValueError(f"A pipeline must be given two classes, not {len(data.classes)}; train "
                         "one class against the rest: "
                         "bitstep.training.train.class_outputs gives their labels")
    stored = (data.bits, data.bus_width, data.row_format)
    if stored != (config.bits, config.bus_width, config.row_format):
        raise ValueError(
            "The data are quantized for {} bits, a {}-bit bus and row format {!r}, ".format(*stored)
            + f"the pipeline is for {config.bits} bits, a {config.bus_width}-bit bus and row "
            f"format {config.row_format!r}; quantize them again or choose another pipeline")
    if objective.standardized:
        raise ValueError("The penalty of SGD must be on weights of scaled features; "
                         "standardized columns are those of solver 'bit-centred'")
    if objective.rule.signs and data.label_format != LabelFormat.SIGN:
        raise ValueError(f"A loss {objective.loss.name} needs labels of two classes, not of "
                         "a regression; quantize with task='classification'")
    Request(PYTHON, {"encoding": data.encoding, "model": model_of(objective.loss),
                     "refetch": objective.refetch},
            facts={} if data.fine_rows is not None else {"no_fine_rows": "the data set"}).check()
    check_data(data, training)
