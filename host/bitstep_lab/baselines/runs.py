"""Result of a run on a CPU, the loop over its epochs, and the checks that all methods share."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from bitstep.checks import check_integer
from bitstep.pipeline.losses import LOSSES
from bitstep.pipeline.registers import Loss

Stop = Callable[[int, np.ndarray, float], bool]


@dataclass(frozen=True, eq=False)
class CpuResult:
    """The finished epochs of a run on a CPU.

    Attributes
    ----------
    method : str
        One of :data:`bitstep_lab.baselines.cpu.METHODS`, or ``sklearn``.
    loss : Loss
    threads, batch : int
    weights : ndarray of float64, shape (epochs_done, n_features)
        After each epoch, for scaled features, whatever the method's own precision.
    intercepts : ndarray of float64, shape (epochs_done,)
    seconds : ndarray of float64, shape (epochs_done,)
        Each epoch alone, by a steady clock: without compilation, without the copy of the model
        that is kept here, and without the stopping rule.
    cpu_seconds : ndarray of float64, shape (epochs_done,)
        Processor time of each epoch's busiest thread, waits for memory included. On an idle
        machine it is as long as ``seconds``; where other programs want the processors too it is
        the shorter of the two and flatters the CPU, since threads that take turns do not compete
        for memory or cache lines. Of the threads of BLAS only the caller's counts, which works
        along with them.
    bytes_per_epoch : int
        Bytes of features and targets, each counted once: what has to come from memory if the data
        do not fit a cache.
    """

    method: str
    loss: Loss
    threads: int
    batch: int
    weights: np.ndarray
    intercepts: np.ndarray
    seconds: np.ndarray
    cpu_seconds: np.ndarray
    bytes_per_epoch: int

    @property
    def epochs_done(self) -> int:
        """Number of finished epochs."""
        return len(self.seconds)


class DivergedError(ArithmeticError):
    """A weight or the intercept is no longer a finite number.

    Attributes
    ----------
    epoch : int
        Epoch in which it happened, counted from 1.
    run : CpuResult
        The epochs before it.
    """

    def __init__(self, epoch: int, run: CpuResult):
        super().__init__(f"Training diverged in epoch {epoch}: a weight or the intercept is no "
                         "longer finite. Choose a smaller step")
        self.epoch, self.run = epoch, run


def run_epochs(epoch: Callable[[float], float], model: Callable[[], tuple[np.ndarray, float]],
               steps: Sequence[float], stop: Stop | None, **about) -> CpuResult:
    """Time epoch after epoch, until the steps end or the stopping rule says so.

    Parameters
    ----------
    epoch : callable
        Takes the step, goes over the data once and returns the processor time of the busiest of
        its other threads, in seconds. OverflowError says that the model diverged.
    model : callable
        Gives weights and intercept as they are now.
    steps, stop
        See :func:`bitstep_lab.baselines.train_cpu`.
    **about
        The other fields of :class:`CpuResult`.

    Raises
    ------
    DivergedError
        If the model is not finite after an epoch.
    """
    weights, intercepts, seconds, cpu_seconds = [], [], [], []

    def finished():
        # Of no epoch the features would not be known.
        shape = len(weights), len(model()[0])
        return CpuResult(weights=np.array(weights, np.float64).reshape(shape),
                         intercepts=np.array(intercepts, np.float64),
                         seconds=np.array(seconds, np.float64),
                         cpu_seconds=np.array(cpu_seconds, np.float64), **about)

    for number, step in enumerate(steps, start=1):
        start, cpu_start = time.perf_counter(), time.thread_time()
        try:
            others = epoch(step)
        except OverflowError as error:
            raise DivergedError(number, finished()) from error
        cpu_elapsed = time.thread_time() - cpu_start
        elapsed = time.perf_counter() - start
        now, intercept = model()
        now = np.array(now, np.float64)
        if not (np.isfinite(now).all() and math.isfinite(intercept)):
            raise DivergedError(number, finished())
        weights.append(now)
        intercepts.append(float(intercept))
        seconds.append(elapsed)
        cpu_seconds.append(max(cpu_elapsed, others))
        if stop is not None and stop(number, now.copy(), float(intercept)):
            break
    return finished()


def check_rows(features: np.ndarray, targets: np.ndarray, dtypes: tuple[type, ...],
               loss: Loss) -> None:
    """Raise ValueError unless features and targets can be streamed as they are.

    Parameters
    ----------
    features, targets : ndarray
    dtypes : tuple of type
        Types that the features may have.
    loss : Loss
        Says if targets must be signs; any but the Huber loss.

    Raises
    ------
    ValueError
        The message says what must hold, what was found, and what to do.
    """
    names = " or ".join(np.dtype(dtype).name for dtype in dtypes)
    if features.ndim != 2 or 0 in features.shape:
        raise ValueError("features must have shape (n_rows, n_features), both at least 1, not "
                         f"{features.shape}")
    if features.dtype not in dtypes or not features.flags.c_contiguous:
        order = "row after row" if features.flags.c_contiguous else "not row after row"
        hint = ("convert with np.ascontiguousarray(features, np.float32)" if np.float32 in dtypes
                else "make codes with bitstep.quantization.encode(u, bits=8, encoding='nearest')")
        raise ValueError(f"features must be {names} in C order (row after row), not "
                         f"{features.dtype.name} {order}; {hint}")
    if targets.shape != features.shape[:1]:
        raise ValueError(f"targets must have shape ({len(features)},), one for each row, not "
                         f"{targets.shape}")
    if targets.dtype != np.float32:
        raise ValueError(f"targets must be float32, not {targets.dtype.name}; convert with "
                         "targets.astype(np.float32)")
    if not np.isfinite(targets).all():
        raise ValueError("targets must be finite; remove rows with NaN and infinity")
    if LOSSES[loss].clipped:
        raise ValueError(f"the baselines train every loss but {LOSSES[loss].name}, whose bound "
                         "depends on the labels; choose another loss")
    if loss != Loss.LEAST_SQUARES and not (np.abs(targets) == 1).all():
        raise ValueError(f"targets must be +1 and -1 for loss {loss.name}; see "
                         "bitstep.training.train.class_targets")


def check_numbers(steps: Sequence[float], l2: float, **counts: int) -> list[float]:
    """Check the steps and the other numbers; return the steps as floats.

    Raises
    ------
    ValueError
        If a step is not positive, ``l2`` is negative or a count is below 1.
    """
    checked = [float(step) for step in steps]
    if not checked or not all(math.isfinite(step) and step > 0 for step in checked):
        raise ValueError("steps must hold one positive number for each epoch, at least one, not "
                         f"{checked}")
    if not (math.isfinite(l2) and l2 >= 0):
        raise ValueError(f"l2 must be a number of at least 0, not {l2}")
    for name, count in counts.items():
        check_integer(name, count, 1)
    return checked
