"""From a quantized data set and hyper-parameters to the integers of a job, and back.

Notation as in docs/number-formats.md: s is the largest level, mu the value of a model word's last
bit in scaled feature space, L a stored label.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bitstep.checks import is_integer
from bitstep.golden.dither import DITHER_WIDTH, epoch_key
from bitstep.golden.steps import UNIT_FRACTION
from bitstep.pipeline.config import (
    COEFFICIENT_WIDTH,
    LABEL_WIDTH,
    MODEL_WIDTH,
    SIGMOID_FRACTION,
    PipelineConfig,
    ceil_div,
)
from bitstep.pipeline.job import MODEL_LIMIT, EpochSteps, TrainingJob
from bitstep.pipeline.levels import unpack_labels
from bitstep.pipeline.registers import LabelFormat, Loss
from bitstep.quantization.encodings import ENCODINGS
from bitstep.training import stepping

if TYPE_CHECKING:
    from bitstep.quantization import QuantizedDataset

CORRECTED_ENCODINGS = ("compensated", "double-symmetric")
MODEL_RANGE = 32.0          # largest automatic ``model_range`` for least squares
# For the other losses. Where a plane separates the classes, the logistic loss makes weights grow as
# long as it is trained: to 36 in 20 epochs on 8 normal features.
MARGIN_RANGE = 128.0
# Largest mean derivative of a batch that the automatic range has room for, in units of the largest
# label. A hinge or logistic derivative is at most 1; the other half is for their rounding.
MAX_DERIVATIVE = {Loss.LEAST_SQUARES: 4.0, Loss.SQUARED_HINGE: 4.0, Loss.HINGE: 2.0,
                  Loss.LOGISTIC: 2.0}
RANGE_EPOCHS = 16           # of the largest step, that it has room for; or a power of it
_LEAST_LOGISTIC_SHIFT = SIGMOID_FRACTION + 1    # its argument is a dot product shifted right
# Where refetching and look-ahead go together by themselves (docs/results/refetching.md).
REFETCH_AHEAD_BITS = 7      # with fewer, too many rows are left open
REFETCH_AHEAD_BEATS = 8     # of longer rows, too many wait for one that comes again


@dataclass(frozen=True)
class Units:
    """What the integers of a run mean in scaled feature space.

    Attributes
    ----------
    model_unit : float
        mu, the value of a model word's or intercept word's last bit, in label units.
    label_offset : float
        Added to every prediction.
    """

    model_unit: float
    label_offset: float

    def weights(self, words: np.ndarray) -> np.ndarray:
        """Weights of scaled features from model words, of any shape."""
        return self.model_unit * np.asarray(words, np.float64)

    def intercepts(self, words: np.ndarray) -> np.ndarray:
        """Intercepts in scaled feature space from intercept words, of any shape."""
        return self.label_offset + self.model_unit * np.asarray(words, np.float64)

    def words(self, weights: np.ndarray, intercept: float) -> tuple[np.ndarray, int]:
        """Nearest model words and intercept word.

        Raises
        ------
        ValueError
            If one does not fit a model word.
        """
        values = np.append(np.asarray(weights, np.float64), intercept - self.label_offset)
        words = np.rint(values / self.model_unit)
        limit = 2.0 ** (MODEL_WIDTH - 1)
        if not (np.isfinite(words) & (words >= -limit) & (words < limit)).all():
            raise ValueError(f"The initial model must be below {limit * self.model_unit:.6g} in "
                             f"magnitude, not {np.abs(values).max():.6g}; choose a larger "
                             "model_range")
        return words[:-1].astype(np.int32), int(words[-1])


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
    """

    job: TrainingJob
    units: Units
    steps: np.ndarray
    step_error: float
    model_range: float


def plan(data: "QuantizedDataset", config: PipelineConfig, *, steps: Sequence[float] | np.ndarray,
         batch: int = 1, l2: float = 0.0, fit_intercept: bool = True,
         correction_period: int | str = "auto", model_range: float | None = None,
         initial: tuple[np.ndarray, float] | None = None, first_epoch: int = 0,
         loss: Loss = Loss.LEAST_SQUARES, refetch: bool = False, l1: float = 0.0,
         box: float | None = None, proximal_period: int | str = "auto") -> Plan:
    """Make a training job.

    The job minimises, over scaled features u and with |x_j| <= box::

        mean over the rows of loss(u.x + intercept, y) + l2/2 |x|_2^2 + l1 |x|_1

    by x <- x - step (mean gradient of a batch), and proximal steps for l1 and box (ZipML, section
    1: the regulariser R). The intercept is free of all three.

    Parameters
    ----------
    data : QuantizedDataset
        Packed rows, labels, and the mean quantization variance D_j of every column.
    config : PipelineConfig
        Pipeline; bits, bus width and family must be those of ``data``.
    steps : array of float, shape (epochs,)
        Step of every epoch, in scaled feature space, from the first one on.
    batch : int
        Rows of a batch, 1 to 2**32 - 1.
    l2 : float
        Ridge penalty on the scaled weights, not on the intercept; at least 0. For every loss
        it is part of the diagonal corrections.
    fit_intercept : bool
        Whether an intercept is trained.
    correction_period : int or "auto"
        Rows between diagonal corrections, a multiple of ``batch`` and less than the rows;
        ``"auto"``: see :func:`bitstep.training.stepping.automatic_period`. Without effect if
        nothing is to be corrected.
    model_range : float or None
        Largest weight that must be representable, as a multiple of the largest label. A smaller
        one gives a finer model; a weight beyond it ends the run with an error. None:
        :func:`automatic_range`.
    initial : (ndarray of shape (n_features,), float) or None
        Weights and intercept in scaled feature space to start from; None starts from zero.
    first_epoch : int
        Epochs of ``steps`` that are trained already; the job runs the others, exactly as a job of
        all epochs would have run them.
    loss : Loss
        What is minimised; all but least squares need labels of two classes, and an encoding
        without corrections (``nearest``, ``stochastic``, ``double`` or ``float``).
    refetch : bool
        Whether rows that could be on either side of the hinge are fetched again at full precision
        (ZipML, appendix G.4); for the hinge loss, a batch of 1 and data with ``full``.
    l1 : float
        Lasso penalty on the scaled weights; at least 0.
    box : float or None
        Largest magnitude of a scaled weight, in label units; None for no limit.
    proximal_period : int or "auto"
        Rows between proximal steps, a multiple of ``batch``; ``"auto"``: see
        :func:`bitstep.training.stepping.automatic_proximal_period`. Without effect if there is
        neither
        ``l1`` nor ``box``. The steps of an epoch, one of which follows its last row, add up to its
        number of rows.

    Returns
    -------
    Plan

    Raises
    ------
    ValueError
        If a parameter is out of range or a step cannot be represented; the message says what to
        do.
    """
    _check(data, config, batch)
    _check_objective(data, loss, refetch, l2, l1, box)
    if not fit_intercept and data.label_offset != 0:
        raise ValueError("A model without an intercept needs labels that are not centred; quantize "
                         "with center_labels=False")
    steps = np.asarray(steps, np.float64)
    if steps.ndim != 1 or not len(steps) or not (np.isfinite(steps) & (steps > 0)).all():
        raise ValueError(f"steps must be positive numbers, one an epoch, not {steps.tolist()}")
    if not 0 <= first_epoch < len(steps):
        raise ValueError(f"first_epoch must be from 0 to {len(steps) - 1}, not {first_epoch}")
    if model_range is None:
        model_range = automatic_range(data, config, steps=steps, batch=batch, loss=loss,
                                      initial=initial)
    if not (math.isfinite(model_range) and model_range > 0):
        raise ValueError(f"model_range must be positive, not {model_range!r}")
    shift = _label_shift(data, config, loss, model_range)
    units = Units(model_unit=data.label_scale * config.level_limit * 2.0 ** -shift,
                  label_offset=data.label_offset)

    largest_label = _largest_stored(data) * 2.0 ** shift
    period, coefficients, factors = _corrections(data, config, steps, batch, l2, correction_period)
    rows_between = 0
    if l1 > 0 or box is not None:
        shrinking = l1 * float(steps.max()) / (data.label_scale * _largest_stored(data))
        rows_between = stepping.proximal_period(proximal_period, data.n_rows, batch, shrinking)

    epochs, taken, lost = [], [], 0.0
    unit = config.level_limit * config.gradient_limit * batch
    for number, (step, factor) in enumerate(
            zip(steps[first_epoch:], factors[first_epoch:], strict=True), start=first_epoch):
        mantissa, exponent = stepping.step_mantissa(step / unit, step)
        corrections = stepping.correction_mantissa(factor) if period else (0, 1)
        scale = EpochSteps.scale(mantissa, exponent)
        if loss in (Loss.HINGE, Loss.LOGISTIC):
            scale = stepping.checked_unit(mantissa, exponent, shift, step) \
                * 2.0 ** -(shift + UNIT_FRACTION)
        taken.append(unit * scale)
        lost = max(lost, 2.0 ** -(DITHER_WIDTH + 1) / (scale * largest_label))
        threshold = 0
        if l1 > 0:
            # An epoch's steps add up to its rows, of which the last step may follow fewer.
            share = data.n_rows / ceil_div(data.n_rows, rows_between) / batch
            # Any above the largest word makes zeros of all of them.
            threshold = round(min(l1 * taken[-1] * share / units.model_unit, MODEL_LIMIT))
        epochs.append(EpochSteps(mantissa, exponent, *corrections, threshold,
                                 epoch_key(data.seed % (1 << 32), number)))
    taken = np.array(taken)

    model, intercept = np.zeros(data.n_features, np.int32), 0
    if initial is not None:
        model, intercept = units.words(*initial)
    turn = first_epoch % len(data.rows)     # an epoch reads the copy after the one before it
    job = TrainingJob(
        config=config, n_features=data.n_features,
        rows=(*data.rows[turn:], *data.rows[:turn]), labels=data.labels,
        label_format=LabelFormat(data.label_format), label_shift=shift,
        intercept_level=config.intercept_limit if fit_intercept else 0, batch=int(batch),
        correction_period=period, coefficients=coefficients, epochs=tuple(epochs), model=model,
        intercept=intercept if fit_intercept else 0, loss=Loss(loss),
        proximal_period=rows_between, box_limit=_box_limit(box, units),
        full=data.full if refetch else None, refetch_cell=data.refetch_cell if refetch else 0)
    error = float(np.abs(taken / steps[first_epoch:] - 1).max())
    return Plan(job, units, taken, error + lost, model_range)


def automatic_range(data: "QuantizedDataset", config: PipelineConfig, *,
                    steps: Sequence[float] | np.ndarray, batch: int = 1,
                    loss: Loss = Loss.LEAST_SQUARES,
                    initial: tuple[np.ndarray, float] | None = None) -> float:
    """The default of ``model_range``: as small as the steps allow, so that updates are fine.

    A feature is at most 1 in magnitude, so an epoch changes a weight by at most its step times its
    batches times the largest mean derivative of a batch. That derivative is taken as 4 labels for
    least squares and squared hinge, and 2 for hinge and logistic loss, where it is at most 1. The
    range is that of 16 epochs with the largest step, or 256, 4,096 ..., if the steps add up to
    more; so a run that is resumed has the range of one that was not interrupted. It is never more
    than 32 labels (least squares) or 128 (the other losses), unless a given model is larger.

    Parameters
    ----------
    data, config, steps, batch, loss, initial
        See :func:`plan`.

    Returns
    -------
    float
        A multiple of the largest label.
    """
    loss, steps = Loss(loss), np.asarray(steps, np.float64)
    shares, epochs = float((steps / steps.max()).sum()), RANGE_EPOCHS
    while epochs < shares:
        epochs *= RANGE_EPOCHS
    with np.errstate(over="ignore"):        # of a huge step, which is beyond every limit
        reach = float(MAX_DERIVATIVE[loss] * ceil_div(data.n_rows, int(batch)) * epochs
                      * steps.max())
    start = 0.0
    if initial is not None:
        values = np.append(np.asarray(initial[0], np.float64), initial[1] - data.label_offset)
        start = float(np.abs(values).max()) / (data.label_scale * _largest_stored(data))
        if start > reach / 2:       # not a model of these steps
            reach += start
    chosen = min(reach, MODEL_RANGE if loss == Loss.LEAST_SQUARES else MARGIN_RANGE)
    if math.isfinite(start) and start >= chosen:
        chosen = 2 * start
    # Labels that are stored with many bits leave room for less.
    return min(chosen, _room(data, config, loss))


def _corrections(data, config, steps, batch, l2, asked):
    """Rows between diagonal corrections (0: there are none), their coefficients of shape
    (n_features,), and the factor of all coefficients for each of ``steps``.
    """
    variance = np.asarray(data.variance, np.float64)
    weights = (variance if data.encoding in CORRECTED_ENCODINGS else np.zeros_like(variance)) - l2
    largest = float(np.abs(weights).max(initial=0.0))
    if largest == 0.0:
        return 0, np.zeros(data.n_features, np.int32), np.zeros(len(steps))
    # With floating-point rows a correction waits for the updates in flight.
    above = config.effective_lookahead(config.beats(data.n_features)) \
        if config.family == "float" else 0
    period = stepping.correction_period(asked, data.n_rows, batch, float(steps.max()) * largest,
                                        above)
    top = (1 << COEFFICIENT_WIDTH - 1) - 1
    coefficients = np.rint(weights * (top / largest)).astype(np.int32)
    made = (data.n_rows - 1) // period
    return period, coefficients, steps * (data.n_rows / made / batch * largest / top)


def check_batch(batch: int) -> None:
    """Raise ValueError unless ``batch`` is a number of rows."""
    if not is_integer(batch, 1, (1 << 32) - 1):
        raise ValueError(f"batch must be an integer from 1 to 2**32 - 1, not {batch!r}")


def pipeline_for(*, n_features: int, bits: int, encoding: str, bus_width: int = 64,
                 lookahead: int | str = "auto", loss: Loss = Loss.LEAST_SQUARES,
                 refetch: bool = False, proximal: bool = False) -> PipelineConfig:
    """Pipeline that trains such data: the default one where that is large enough.

    More features than the default's 4,096 are rounded up to a power of two, so that few different
    pipelines need to be built. The recursion takes 2 cycles, 4 for floating-point rows and 6 for
    the logistic loss, whose sigmoid needs them.

    Parameters
    ----------
    n_features : int
        Features of a row, at least 1.
    bits, encoding, bus_width
        Of the data, see :func:`bitstep.quantization.quantize`.
    lookahead : int or "auto"
        ``"auto"`` takes what rows of ``n_features`` need so that they never wait; with
        ``refetch`` only from 7 bits on, and for rows of at most 8 beats, and else 0: a row that
        look-ahead leaves open drains the pipeline, so where more than some 10 % of the rows are
        (or fewer, if rows are long), waiting for every update is faster
        (docs/results/refetching.md).
    loss : Loss
        What is to be minimised.
    refetch : bool
        Whether rows can be fetched again at full precision.
    proximal : bool
        Whether proximal steps (L1 and box constraint) are possible.

    Returns
    -------
    PipelineConfig

    Raises
    ------
    ValueError
        If there is no such pipeline.
    """
    if not is_integer(n_features, 1):
        raise ValueError(f"n_features must be at least 1, not {n_features!r}")
    if encoding not in ENCODINGS:
        raise ValueError(f"encoding must be one of {', '.join(ENCODINGS)}, not {encoding!r}")
    family = ENCODINGS[encoding].family
    automatic = lookahead == "auto"
    features = max(PipelineConfig().max_features, 1 << (int(n_features) - 1).bit_length())
    logistic = loss == Loss.LOGISTIC
    recursion = 6 if logistic else 4 if family == "float" else PipelineConfig().recursion
    config = PipelineConfig(bus_width=bus_width, bits=bits, max_features=features, family=family,
                            lookahead=0 if automatic else lookahead,  # type: ignore[arg-type]
                            recursion=recursion, solver="logistic" if logistic else "linear",
                            proximal=proximal, refetch=refetch)
    if not automatic or (refetch and (config.bits < REFETCH_AHEAD_BITS
                                      or config.beats(int(n_features)) > REFETCH_AHEAD_BEATS)):
        return config
    return config.with_lookahead(int(n_features))


def _box_limit(box, units):
    if box is None:
        return MODEL_LIMIT
    if box < units.model_unit:
        raise ValueError(f"box must be at least {units.model_unit:.6g}, the least weight of this "
                         f"model_range, not {box!r}")
    # Whatever is beyond a model word is no limit: the word's own range ends the run first.
    return math.floor(min(box / units.model_unit, MODEL_LIMIT))


def _largest_stored(data):
    """Largest magnitude of a stored label, at least 1."""
    stored = unpack_labels(data.labels, LabelFormat(data.label_format), data.n_rows)
    return max(int(np.abs(stored).max(initial=0)), 1)


def _room(data, config, loss):
    """Largest possible ``model_range``."""
    room = 2.0 ** (MODEL_WIDTH - 1) * config.level_limit / _largest_stored(data)
    return room * 2.0 ** -_LEAST_LOGISTIC_SHIFT if loss == Loss.LOGISTIC else room


def _label_shift(data, config, loss, model_range):
    """Largest label shift that keeps ``model_range`` times the largest label in a model word."""
    largest = _largest_stored(data)
    room = 2.0 ** (MODEL_WIDTH - 1) * config.level_limit / largest
    if room < model_range:
        raise ValueError(f"model_range must be at most {room:.6g} for labels stored with "
                         f"{largest.bit_length() + 1} bits, not {model_range:.6g}; store them "
                         "with fewer")
    if _room(data, config, loss) < model_range:
        raise ValueError(f"model_range must be at most {_room(data, config, loss):.6g} for the "
                         f"logistic loss, not {model_range:.6g}")
    stored_width = {LabelFormat.SIGN: 1, LabelFormat.INT16: 16, LabelFormat.INT32: LABEL_WIDTH}
    return min(math.floor(math.log2(room / model_range)), config.max_label_shift,
               config.dot_width - 1 - stored_width[LabelFormat(data.label_format)])


def _check(data, config, batch):
    if data.classes is not None and len(data.classes) > 2:
        raise ValueError(f"A pipeline must be given two classes, not {len(data.classes)}; train "
                         "one class against the rest: "
                         "bitstep.training.train.class_outputs gives their labels")
    stored = (data.bits, data.bus_width, data.family)
    if stored != (config.bits, config.bus_width, config.family):
        raise ValueError(
            "The data are quantized for {} bits, a {}-bit bus and family {!r}, ".format(*stored)
            + f"the pipeline is for {config.bits} bits, a {config.bus_width}-bit bus and family "
            f"{config.family!r}; quantize them again or choose another pipeline")
    check_batch(batch)


def _check_objective(data, loss, refetch, l2, l1, box):
    for name, value in (("l2", l2), ("l1", l1)):
        if not (math.isfinite(value) and value >= 0):
            raise ValueError(f"{name} must be at least 0, not {value!r}")
    if box is not None and not (math.isfinite(box) and box > 0):
        raise ValueError(f"box must be positive, or None for no limit, not {box!r}")
    loss = Loss(loss)
    if loss != Loss.LEAST_SQUARES:
        if LabelFormat(data.label_format) != LabelFormat.SIGN:
            raise ValueError(f"A loss {loss.name} needs labels of two classes, not of a "
                             "regression; quantize with task='classification'")
        if data.encoding in CORRECTED_ENCODINGS:
            raise ValueError(f"Encoding {data.encoding!r} is corrected for the squared loss alone, "
                             f"not for {loss.name}; quantize with 'nearest', 'stochastic' or "
                             "'double'")
    if refetch and loss != Loss.HINGE:
        raise ValueError(f"Refetching is for the hinge loss, not for {loss.name}; choose "
                         "refetch=False")
    if refetch and data.full is None:
        raise ValueError("Refetching needs rows at full precision, and the data have none; "
                         "quantize with full=True")
