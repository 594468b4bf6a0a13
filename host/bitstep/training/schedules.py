"""Step sizes: one for each epoch, in scaled feature space."""

import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bitstep.checks import check_integer
from bitstep.data.tables.files import is_stream
from bitstep.options.table import DEFAULT_EPOCHS, MOST_EPOCHS, SCHEDULES
from bitstep.pipeline.losses import LOSSES, LossFunction, formula_of
from bitstep.pipeline.registers import Loss
from bitstep.quantization import ENCODINGS, BitPlaneRows, QuantizedRows

SAMPLE_ROWS = 2048          # rows that the automatic step looks at
EPOCH_ROWS = 100_000        # of all epochs together, that few rows are trained on
MAX_EPOCHS = 1000           # of few rows
MODEL_VALUES = 1 << 26      # of the models of all epochs, which are kept: 2 GB
LEAST_BITS_OF_MANY_EPOCHS = 4   # of indefinite encodings, for these and "linear"
BATCHES = 4, 16, 64         # that rows are put into by themselves
LEAST_UPDATES = 25_000      # that they then have
LINEAR_SHARE = 0.5          # of the automatic step, with which schedule "linear" begins
MOST_SHRINKING = 0.5        # share of a weight that a penalty takes in an automatic step, at most
FLOAT_PERIOD = 8            # most rows that corrections of floating-point rows wait for
CENTRED_PERIODS = 8, 32     # least and most rows between two corrections of bit-centred passes
INNER_ROWS = 1 << 16        # that suffice for bit-centred passes, unless there are many features
INNER_ROWS_OF_A_FEATURE = 64
CORRECTIONS = 64            # of a pass, which its rows allow if they are not few


def schedule_steps(schedule: str | os.PathLike | Sequence[float], *, step: float | None,
                   epochs: int) -> np.ndarray:
    """Step of every epoch.

    Parameters
    ----------
    schedule : {"constant", "inverse", "inverse-sqrt", "linear"}, sequence of float, or path
        ``step``, ``step / epoch``, ``step / sqrt(epoch)`` or ``step (1 - (epoch - 1) / epochs)``,
        with epochs counted from 1; or the steps themselves, as a sequence or as a text file with
        one number a line. A sequence may be longer than ``epochs``; the rest is not used.
    step : float or None
        First step of a named schedule, positive; must be None for a sequence or a file, which
        hold the steps themselves.
    epochs : int
        Number of epochs, at least 1.

    Returns
    -------
    ndarray of float64, shape (epochs,)

    Raises
    ------
    ValueError
        If a step is not a positive number, a sequence is too short or a file cannot be read.

    Examples
    --------
    >>> schedule_steps("inverse", step=0.5, epochs=3).round(3).tolist()
    [0.5, 0.25, 0.167]
    >>> schedule_steps("linear", step=0.5, epochs=4).tolist()
    [0.5, 0.375, 0.25, 0.125]
    """
    check_integer("epochs", epochs, 1)
    if isinstance(schedule, str) and schedule in SCHEDULES:
        if step is None or not (math.isfinite(step) and step > 0):
            raise ValueError(f"step must be a positive number, not {step!r}")
        epoch = np.arange(1, epochs + 1)
        return step / {"constant": np.ones(epochs), "inverse": epoch,
                       "inverse-sqrt": np.sqrt(epoch),
                       "linear": epochs / (epochs + 1 - epoch)}[schedule]
    if step is not None:
        raise ValueError(f"step must not be given together with a list of steps, not {step!r}")
    return listed_steps(schedule, epochs)[:epochs].copy()


def listed_steps(schedule: str | os.PathLike | Sequence[float], epochs: int) -> np.ndarray:
    """Steps of a sequence or file.

    Parameters
    ----------
    schedule
        See :func:`schedule_steps`; no name.
    epochs : int
        Steps that there must be, at least.

    Raises
    ------
    ValueError
        See :func:`schedule_steps`.
    """
    if isinstance(schedule, (str, os.PathLike)):
        steps, source = read_steps(Path(schedule)), f"The schedule file {schedule}"
    else:
        source = "The schedule"
        try:
            steps = np.asarray(schedule, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            steps = np.empty(())
        if steps.ndim != 1:
            raise ValueError(f"schedule must be {', '.join(map(repr, SCHEDULES))}, a list of "
                             f"steps, or a file of them, not {schedule!r}")
    if len(steps) < epochs:
        raise ValueError(f"{source} must hold at least {epochs} step{'s' * (epochs > 1)}, one an "
                         f"epoch, not {steps.size}")
    if len(steps) > MOST_EPOCHS:
        raise ValueError(f"{source} must hold at most {MOST_EPOCHS} steps, one an epoch, not "
                         f"{len(steps)}")
    if not (np.isfinite(steps) & (steps > 0)).all():
        raise ValueError(f"{source} must hold positive numbers only")
    return steps


def read_steps(path: Path) -> np.ndarray:
    """Numbers of a text file, one a line; empty lines and ``#`` comments are skipped.

    Raises
    ------
    ValueError
        If the file cannot be read or a line is no number.
    """
    if is_stream(path):         # a pipe would be waited for, and is empty the second time
        raise ValueError(f"The schedule must be {', '.join(SCHEDULES)} or a readable text file of "
                         f"steps, not '{path}', which is standard input, a pipe or a device; write "
                         "it to a file first")
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"The schedule must be {', '.join(SCHEDULES)} or a readable text file of "
                         f"steps, not '{path}' ({error})") from error
    steps = []
    for number, line in enumerate(text.splitlines(), start=1):
        line = line.partition("#")[0].strip()
        if not line:
            continue
        try:
            steps.append(float(line))
        except ValueError:
            raise ValueError(f"{path}, line {number}: expected one number, not {line!r}") from None
    return np.array(steps, dtype=np.float64)


def automatic_epochs(n_rows: int, model_values: int = 1) -> int:
    """Epochs of SGD that suit so many rows: 100,000 rows in all, in 20 to 1,000 epochs.

    The number of updates, not that of epochs, says how far a model can go. The models of all
    epochs are kept, so of more than 67,108 values there are fewer, at least 20.

    Parameters
    ----------
    n_rows : int
    model_values : int
        Weights of the models of all outputs.
    """
    most = min(MAX_EPOCHS, MODEL_VALUES // model_values)
    return max(min(-(-EPOCH_ROWS // n_rows), most), DEFAULT_EPOCHS)


def automatic_batch(n_rows: int) -> int:
    """Rows of a mini-batch of SGD that cost nothing in learning: 1, 4, 16 or 64, of at least
    5,000, 20,000 and 80,000 rows.

    The automatic epochs then have 25,000 updates and more. With so many, batches of 1 were not more
    than .01 better on any set of docs/results/defaults.md; and rows of a batch need not wait for
    each other (docs/pipeline.md#batches-without-waiting).

    Parameters
    ----------
    n_rows : int
    """
    return max((batch for batch in BATCHES
                if n_rows * DEFAULT_EPOCHS >= LEAST_UPDATES * batch), default=1)


# How the factors of the automatic step were tuned.
# Least squares is tuned on six data sets with 1 to 8 bits, its g on half of those of
# docs/results/defaults.md. The other losses are tuned with
# float64 SGD, 20 epochs, ``step / epoch`` (breast_cancer, digits and wine one-vs-rest, 8 normal
# features with 0, 9 and 25 % of the labels flipped by noise of the margin, 100 sparse ones),
# against the best of a grid of powers of 2. With B = 1 the final loss is above that by at most
# 3.1 % (squared hinge), 0.9 % (hinge) and 3.7 % (logistic) of the loss of a model of zeros. Few,
# large batches want still longer steps than is safe in general: with B = 32 it is up to 19, 6 and
# 12 % (the sparse set), so give more epochs, or a step.
def automatic_step(rows: QuantizedRows | BitPlaneRows, batch: int = 1, fit_intercept: bool = True,
                   loss: Loss = Loss.LEAST_SQUARES, schedule: str = "inverse",
                   penalty: float = 0.0) -> float:
    """A first step that suits the data, in scaled feature space.

    With R the mean of |q|^2 over the rows (q the decoded row, with the intercept's 1), m the
    largest eigenvalue of the mean of q q' and D the largest quantization variance of a column::

        step = f min(sqrt(B), g) B / (R + (B - 1) m)

    ================  =================  ===
    loss              f                  g
    ================  =================  ===
    least squares     0.2 / (1 + 12 D)   4
    squared hinge     0.5                2
    Huber             1                  2
    hinge             2                  4
    logistic          4                  4
    ================  =================  ===

    An update of one row with step 1 / R removes its whole residual, on average; a large batch with
    step 2 / m diverges, with 8 / m for the logistic loss, whose curvature is at most 1/4; and noise
    of rounding, amplified by the corrections, asks for a shorter step (on cadata at 2 bits a five
    times shorter one). A row's hinge or logistic derivative is at most 1, so the step is about what
    a weight can change at once; it is at most 16, an eighth of the default ``model_range``. R and m
    are taken from no more than 2,048 rows, evenly spaced. The schedule ``linear``, whose steps stay
    long, begins with half of it. Where rows have weights, a step is that of the mean
    weight, and the automatic one is divided by the largest weight over the mean one. A step takes
    the share ``step penalty`` of a weight, at most a half (:func:`most_step`).

    Parameters
    ----------
    rows : QuantizedRows
    batch : int
    fit_intercept : bool
    loss : Loss
    schedule : str
        Name of the schedule that begins with it.
    penalty : float
        Ridge penalty of weights for scaled features.

    Returns
    -------
    float
    """
    pick = np.linspace(0, rows.n_rows - 1, min(rows.n_rows, SAMPLE_ROWS)).astype(np.int64)
    sample, _ = rows.levels(pick)
    if fit_intercept:
        sample = np.hstack([sample, np.ones((len(sample), 1))])
    mean_square = float((sample ** 2).sum(axis=1).mean())
    if mean_square == 0.0:
        return 1.0
    largest = _largest_eigenvalue(sample) if batch > 1 else 0.0
    rule = LOSSES[loss]
    growth = 1.0 if rule.quadratic and _diverges(rows) else rule.batch_growth
    step = rule.step_fraction * min(batch ** 0.5, growth) * batch \
        / (mean_square + (batch - 1) * largest)
    step /= 1.0 + rule.noise_weight * float(np.max(rows.variance))
    step = min(step, rule.max_step) * (LINEAR_SHARE if schedule == "linear" else 1.0) \
        / rows.weight_sums.largest_of_mean
    return min(step, most_step(penalty, rows.encoding, batch))


def most_step(penalty: float, encoding: str, batch: int) -> float:
    """Largest step with which no correction takes more than half of a weight; infinite without a
    penalty.

    A correction takes the ridge penalty in for the rows since the one before: a batch, or, with
    floating-point rows, as many as may be in flight.

    Parameters
    ----------
    penalty : float
        Of weights for scaled features.
    encoding : str
        Of the rows.
    batch : int
    """
    share = min(batch / FLOAT_PERIOD, 1.0) if encoding == "float" else 1.0
    return MOST_SHRINKING * share / penalty if penalty else math.inf


def _diverges(rows: QuantizedRows | BitPlaneRows) -> bool:
    """True for codes with directions of negative curvature, which long steps follow."""
    return rows.bits < LEAST_BITS_OF_MANY_EPOCHS and ENCODINGS[rows.encoding].indefinite


def centred_step(rows: BitPlaneRows, loss: Loss | LossFunction = Loss.LEAST_SQUARES,
                 penalty: float = 0.0) -> float:
    """A step that suits the inner passes of bit-centred training, in scaled feature space.

    It is 0.5 / (L R), with R the mean of |u|^2 and the intercept's 1, and L the Lipschitz constant
    of the loss's derivative: 1, 1/4 of the logistic loss, 1/2 of a softmax. It is at most
    0.5 / (T penalty), with T the rows between two corrections, which take the penalty in. Where
    rows have weights, R is times the largest of them over their mean.

    Parameters
    ----------
    rows : BitPlaneRows
    loss : Loss or LossFunction
        A smooth one.
    penalty : float
        The largest ridge penalty of a weight of scaled features.
    """
    bend = formula_of(loss).curvature * (rows.mean_square + 1)
    most = max(bend * rows.weight_sums.largest_of_mean, centred_period(rows.n_rows) * penalty)
    return 0.5 / min(most, sys.float_info.max)


def centred_period(n_rows: int) -> int:
    """T, rows between two corrections of bit-centred inner passes.

    32, which a pipeline's correction engine hides behind the rows; less of few rows, so that a pass
    has 64 corrections, but at least 8.

    Parameters
    ----------
    n_rows : int
    """
    period = CENTRED_PERIODS[-1]
    while period > CENTRED_PERIODS[0] and n_rows < CORRECTIONS * period:
        period //= 2
    return period


def _largest_eigenvalue(sample):
    """Largest eigenvalue of the mean of q q' over rows q, by power iteration."""
    vector, largest = np.ones(sample.shape[1]), 0.0
    for _ in range(30):         # some per cent of accuracy are plenty
        vector = sample.T @ (sample @ vector) / len(sample)
        largest = float(np.linalg.norm(vector))
        vector /= largest or 1.0
    return largest


def first_inner_rows(n_rows: int, n_features: int) -> int:
    """Rows of the first inner passes of bit-centred training: all, or of more than twice as many
    the first 65,536, and 64 for each feature.

    They are a sample of all, since rows are shuffled, and make the passes as good as all do. An
    outer step that leaves more than half of the gradient doubles them.

    Parameters
    ----------
    n_rows, n_features : int
    """
    enough = max(INNER_ROWS, INNER_ROWS_OF_A_FEATURE * n_features)
    return n_rows if n_rows <= 2 * enough else enough
