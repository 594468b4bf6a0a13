"""Training of whole models: one job for each output, results in the units of the features.

The command line and the estimators both train through :func:`train_model`; it needs NumPy alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.device import Device
from bitstep.pipeline.memory import pack_labels
from bitstep.pipeline.registers import LabelFormat, Loss
from bitstep.pipeline.results import COUNTER_NAMES, SaturationError, TrainingInterrupted
from bitstep.training.losses import code_levels
from bitstep.training.planning import plan

if TYPE_CHECKING:
    from bitstep.quantization import QuantizedDataset

SAMPLE_ROWS = 2048          # rows that the automatic step looks at
# The automatic step, see there: fraction of 1 / R, and how much longer the batch may make it.
STEP_FRACTIONS = {Loss.LEAST_SQUARES: (0.2, 1.0), Loss.SQUARED_HINGE: (0.5, 2.0),
                  Loss.HINGE: (2.0, 4.0), Loss.LOGISTIC: (4.0, 4.0)}
MAX_BOUNDED_STEP = 16.0     # of a loss whose derivative is at most 1
MAX_STEP_ERROR = 0.01       # a larger one can be that of updates that all vanish
NOISE_WEIGHT = 12.0         # how much quantization noise shortens it for least squares; tuned too


@dataclass(frozen=True)
class TrainedModel:
    """The models after every finished epoch.

    Attributes
    ----------
    coefs : ndarray of float64, shape (epochs_done, n_outputs, n_features)
        In the units of features and labels.
    intercepts : ndarray of float64, shape (epochs_done, n_outputs)
    weights, scaled_intercepts : ndarray of float64
        The same for scaled features.
    steps : ndarray of float64, shape (epochs_done,)
        Steps as the hardware took them.
    counters : dict of str to int or None
        Sums over the outputs' runs.
    still : ndarray of bool, shape (epochs_done,)
        Epochs that changed no word of any output's model.
    step_error : float
        See :class:`bitstep.training.planning.Plan`; the largest of the outputs.
    interrupted : bool
        Whether Ctrl-C ended the training.
    """

    coefs: np.ndarray
    intercepts: np.ndarray
    weights: np.ndarray
    scaled_intercepts: np.ndarray
    steps: np.ndarray
    counters: dict[str, int | None]
    still: np.ndarray
    step_error: float
    interrupted: bool = False

    @property
    def epochs_done(self) -> int:
        """Number of finished epochs."""
        return len(self.coefs)


def train_model(outputs: Sequence["QuantizedDataset"], device: Device, config: PipelineConfig, *,
                steps: np.ndarray, batch: int = 1, l2: float = 0.0, fit_intercept: bool = True,
                model_range: float | None = None, initial: tuple[np.ndarray, Any] | None = None,
                first_epoch: int = 0, loss: Loss = Loss.LEAST_SQUARES, refetch: bool = False,
                l1: float = 0.0, box: float | None = None, timeout_s: float = 60.0,
                on_epoch: Callable[[int], None] | None = None) -> TrainedModel:
    """Train one linear model for each output.

    Parameters
    ----------
    outputs : sequence of QuantizedDataset
        The same rows, with the labels of each output (one-vs-rest: of each class).
    device : Device
        Must have a pipeline that can run jobs of ``config``.
    config, steps, batch, l2, fit_intercept, model_range, first_epoch, loss, refetch, l1, box
        See :func:`bitstep.training.planning.plan`.
    initial : (ndarray of shape (n_outputs, n_features), ndarray of shape (n_outputs,)) or None
        Model to start from, in the units of the features.
    timeout_s : float
        See :meth:`bitstep.pipeline.device.Device.train`.
    on_epoch : callable
        Called with the finished epochs, summed over the outputs.

    Returns
    -------
    TrainedModel
        On Ctrl-C, which stops the output in training, the epochs that every output has finished,
        with ``interrupted`` set. Outputs are trained one after the other, each through all epochs.

    Raises
    ------
    TrainingInterrupted
        On Ctrl-C before every output has finished an epoch: there is no whole model, and the
        message says so. Its ``result`` is that of the output in training.
    DeviceError
        See :meth:`bitstep.pipeline.device.Device.train`; a saturation names the output if there are
        several.
    ValueError
        See :func:`bitstep.training.planning.plan`.
    """
    runs, interrupted, taken, step_error = [], False, np.zeros(0), 0.0
    n_epochs = len(steps) - first_epoch
    for number, data in enumerate(outputs):
        start = None
        if initial is not None:
            weights, intercept = data.scaler.scale_model(initial[0][number], initial[1][number])
            start = (weights, float(intercept))
        made = plan(data, config, steps=steps, batch=batch, l2=l2, fit_intercept=fit_intercept,
                    model_range=model_range, initial=start, first_epoch=first_epoch, loss=loss,
                    refetch=refetch, l1=l1, box=box)
        before, taken = number * n_epochs, made.steps
        step_error = max(step_error, made.step_error)
        try:
            result = device.train(
                made.job, timeout_s=timeout_s,
                on_epoch=(lambda done, before=before: on_epoch(before + done))
                if on_epoch else None)
        except TrainingInterrupted as stopped:
            if number + 1 < len(outputs) or not stopped.result.epochs_done:
                stopped.args = (_nothing_kept(number + 1, len(outputs)),)
                raise
            result, interrupted = stopped.result, True
        except SaturationError as error:
            if len(outputs) > 1:
                error.args = (f"Class {number + 1} of {len(outputs)}: {error.args[0]}",)
            raise
        runs.append((made.units.weights(result.models), made.units.intercepts(result.intercepts),
                     result.counters, _still(made.job, result)))
    epochs = min(len(weights) for weights, *_ in runs)
    weights = np.stack([weights[:epochs] for weights, *_ in runs], axis=1)
    intercepts = np.stack([intercepts[:epochs] for _, intercepts, *_ in runs], axis=1)
    with np.errstate(over="ignore", invalid="ignore"):
        coefs, offsets = outputs[0].scaler.unscale_model(weights, intercepts)
    good = np.isfinite(coefs).all(axis=(0, 1))
    if not (good.all() and np.isfinite(offsets).all()):
        column = int(np.argmin(good))
        raise ValueError(
            f"Feature {column} (counted from 0) must have a range that fits 64-bit floating point "
            f"together with that of the labels, not {2 * outputs[0].scaler.scale[column]:.3g}; "
            "scale the column")
    return TrainedModel(coefs, offsets, weights, intercepts, taken[:epochs],
                        _sum([counters for _, _, counters, _ in runs]),
                        np.logical_and.reduce([still[:epochs] for *_, still in runs]),
                        step_error, interrupted)


def lost_updates(model: TrainedModel, losses: np.ndarray) -> str | None:
    """A sentence that says in which epochs every update vanished; None if there are none.

    Parameters
    ----------
    model : TrainedModel
    losses : array of float, shape (epochs_done,)
        Training loss of every epoch.
    """
    losses = np.asarray(losses)
    idle = model.still & (losses > 1e-9 * losses.max(initial=0.0))
    if model.step_error < MAX_STEP_ERROR or not idle.any():
        return None
    first = int(np.argmax(idle)) + 1
    return (f"the model did not change in {int(idle.sum())} of {model.epochs_done} epochs (epoch "
            f"{first} is the first): its updates are below 2**-17 of the last bit of a model "
            "word; choose a larger step, a smaller batch or a smaller model range")


def automatic_step(data: "QuantizedDataset", batch: int = 1, fit_intercept: bool = True,
                   loss: Loss = Loss.LEAST_SQUARES) -> float:
    """A first step that suits the data, in scaled feature space.

    With R the mean of |q|^2 over the rows (q the decoded row, with the intercept's 1), m the
    largest eigenvalue of the mean of q q' and D the largest quantization variance of a column::

        step = f min(sqrt(B), g) B / (R + (B - 1) m)

    ================  =================  ===
    loss              f                  g
    ================  =================  ===
    least squares     0.2 / (1 + 12 D)   1
    squared hinge     0.5                2
    hinge             2                  4
    logistic          4                  4
    ================  =================  ===

    An update of one row with step 1 / R removes its whole residual, on average; a large batch with
    step 2 / m diverges, with 8 / m for the logistic loss, whose curvature is at most 1/4; and noise
    of rounding, amplified by the corrections, asks for a shorter step (on cadata at 2 bits a five
    times shorter one). A row's hinge or logistic derivative is at most 1, so the step is about what
    a weight can change at once; it is at most 16, an eighth of the default ``model_range``. R and m
    are taken from no more than 2,048 rows, evenly spaced.

    Least squares is tuned on six data sets with 1 to 8 bits. The other losses are tuned with
    float64 SGD, 20 epochs, ``step / epoch`` (breast_cancer, digits and wine one-vs-rest, 8 normal
    features with 0, 9 and 25 % of the labels flipped by noise of the margin, 100 sparse ones),
    against the best of a grid of powers of 2. With B = 1 the final loss is above that by at most
    3.1 % (squared hinge), 0.9 % (hinge) and 3.7 % (logistic) of the loss of a model of zeros. Few,
    large batches want still longer steps than is safe in general: with B = 32 it is up to 19, 6 and
    12 % (the sparse set), so give more epochs, or a step.

    Parameters
    ----------
    data : QuantizedDataset
    batch : int
    fit_intercept : bool
    loss : Loss

    Returns
    -------
    float
    """
    pick = np.linspace(0, data.n_rows - 1, min(data.n_rows, SAMPLE_ROWS)).astype(int)
    rows, _ = code_levels(data, pick)
    if fit_intercept:
        rows = np.hstack([rows, np.ones((len(rows), 1))])
    mean_square = float((rows ** 2).sum(axis=1).mean())
    if mean_square == 0.0:
        return 1.0
    largest = 0.0
    if batch > 1:
        vector = np.ones(rows.shape[1])
        for _ in range(30):         # power iteration: some per cent of accuracy are plenty
            vector = rows.T @ (rows @ vector) / len(rows)
            largest = float(np.linalg.norm(vector))
            vector /= largest or 1.0
    fraction, growth = STEP_FRACTIONS[loss]
    step = fraction * min(batch ** 0.5, growth) * batch / (mean_square + (batch - 1) * largest)
    if loss == Loss.LEAST_SQUARES:
        step /= 1.0 + NOISE_WEIGHT * float(np.max(data.variance))
    bounded = loss in (Loss.HINGE, Loss.LOGISTIC)
    return min(step, MAX_BOUNDED_STEP) if bounded else step


def class_targets(labels: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Targets of every output: +1 and -1.

    Parameters
    ----------
    labels : ndarray, shape (n_rows,)
        Elements of ``classes``.
    classes : ndarray, shape (n_classes,)

    Returns
    -------
    ndarray of float64, shape (n_rows, n_outputs)
        One output for two classes (+1 is ``classes[1]``), one for each class if there are more.
    """
    positive = classes[1:] if len(classes) == 2 else classes
    return np.where(labels[:, None] == positive, 1.0, -1.0)


def class_outputs(data: "QuantizedDataset", labels: np.ndarray,
                  classes: np.ndarray) -> list["QuantizedDataset"]:
    """The data sets of every output: the same packed rows, each with its own targets.

    Parameters
    ----------
    data : QuantizedDataset
        Its own labels do not matter.
    labels, classes
        See :func:`class_targets`.
    """
    return [with_signs(data, signs) for signs in class_targets(labels, classes).T]


def with_signs(data: "QuantizedDataset", signs: np.ndarray) -> "QuantizedDataset":
    """The same packed rows with labels +1 and -1.

    Unlike :meth:`QuantizedDataset.with_labels` it accepts a single sign: in a part of the data
    some class may be missing.

    Parameters
    ----------
    signs : ndarray, shape (n_rows,)
        One column of :func:`class_targets`.
    """
    return replace(data, labels=pack_labels(signs.astype(np.int64), LabelFormat.SIGN),
                   label_format=LabelFormat.SIGN, label_scale=1.0, label_offset=0.0,
                   classes=np.array([-1.0, 1.0]))


def report_counters(counters: dict[str, int | None]) -> dict[str, Any]:
    """Counters in the form of the run report (docs/report.md)."""
    causes = ("stall_rows", "stall_labels", "stall_lookahead", "stall_recursion",
              "stall_correction", "stall_refetch", "flush", "model_io")
    return {
        "cycles": counters["cycles"], "beats": counters["beats"],
        "stall_cycles": {cause.removeprefix("stall_"): counters[cause] for cause in causes},
        "bytes_read": counters["bytes_read"], "saturations": counters["saturations"],
        "refetched_rows": counters["refetched_rows"]}


def _nothing_kept(number, count):
    if count == 1:
        return "interrupted in the first epoch: there is no model yet, so none was kept"
    return (f"interrupted in class {number} of {count}: no model was kept, because one-vs-rest "
            "trains class after class and its model needs all of them")


def _still(job, result):
    """Epochs that changed nothing, shape (epochs_done,)."""
    words = np.column_stack([np.vstack([job.model[None], result.models]),
                             np.append(job.intercept, result.intercepts)])
    return (np.diff(words, axis=0) == 0).all(axis=1)


def _sum(counters):
    total = {}
    for name in COUNTER_NAMES:
        values = [run.get(name) for run in counters]
        total[name] = None if None in values else sum(values)
    return total
