"""Results of a run of a training job: models and counters, or an error with its remedy."""

import functools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.job import TrainingJob
from bitstep.pipeline.losses import losses_of
from bitstep.pipeline.registers import COUNTERS, Error, Overflow

COUNTER_NAMES = tuple(name.lower() for name, _ in COUNTERS)
# Why no row enters in a cycle.
WAITS = {"rows": "rows from the memory", "labels": "labels",
         "lookahead": "updates (look-ahead)", "recursion": "the recursion",
         "correction": "corrections", "refetch": "rows that are read again",
         "flush": "the last updates of epochs, batches and periods", "model_io": "models"}
_STALLS = {name.removeprefix("stall_"): name for name in COUNTER_NAMES if name.startswith("stall_")}
# Of the sum of the magnitudes of updates of a gradient's pass: times the largest level it fits 64
# bits.
UPDATES_LIMIT = 1 << 47


class DeviceError(RuntimeError):
    """The device could not be opened, or did something that its protocol forbids."""


@dataclass(frozen=True)
class RunResult:
    """The finished epochs of a run.

    Attributes
    ----------
    models : ndarray of int32, shape (epochs_done, n_features)
        Weights after each finished epoch.
    intercepts : ndarray of int32, shape (epochs_done,)
        Intercept words.
    counters : mapping of str to int or None
        One entry for each of :data:`bitstep.pipeline.registers.COUNTERS`, in lower case; None
        where the device cannot know (the golden model has no clock).
    epoch_cycles : sequence of int, or None
        Cycles from the start of the run to the end of each finished epoch; None where they are
        not known.
    """

    models: np.ndarray
    intercepts: np.ndarray
    counters: Mapping[str, int | None] = field(default_factory=dict)
    epoch_cycles: Sequence[int] | None = None

    @property
    def epochs_done(self) -> int:
        """Number of finished epochs."""
        return len(self.models)

    def first(self, count: int) -> "RunResult":
        """The first epochs, with all counters."""
        return replace(self, models=self.models[:count], intercepts=self.intercepts[:count],
                       epoch_cycles=self.epoch_cycles and self.epoch_cycles[:count])


@dataclass(frozen=True)
class GradientSum:
    """Sums over all rows at the model of a job.

    Attributes
    ----------
    words : ndarray of int64, shape (n_features,)
        Sum of c times the row's levels.
    intercept : int
        Sum of c times the intercept's level.
    overflow : Overflow
        Not 0 if an update, the sum of the magnitudes of all updates, or a derivative left its
        range; all else is then meaningless.
    derivatives : ndarray of uint8 or None
        Stored labels of format INT32 for inner passes at the planes that were asked for: the
        derivative of every row's loss (:func:`bitstep.pipeline.losses.has_derivatives`).
    counters : mapping of str to int or None
        See :class:`RunResult`.
    """

    words: np.ndarray
    intercept: int
    overflow: Overflow = Overflow(0)  # noqa: RUF009 (an immutable flag)
    derivatives: np.ndarray | None = None
    counters: Mapping[str, int | None] = field(default_factory=dict)


@dataclass(frozen=True)
class ClassSums:
    """Sums over all rows at the models of all classes of a multinomial model.

    Attributes
    ----------
    classes : list of GradientSum
        Of each class; all of them have overflowed if one has.
    shared : ndarray of int64, shape (n_classes, n_classes)
        Sum of the product of the probabilities of two classes, times 2^30, of a pass over all
        planes: a certificate needs it. Of one over fewer planes 0.
    """

    classes: list[GradientSum]
    shared: np.ndarray


class RunError(DeviceError):
    """A run ended early.

    Attributes
    ----------
    result : RunResult
        The epochs that were finished; their models are exact.
    """

    def __init__(self, message: str, result: RunResult):
        super().__init__(message)
        self.result = result

    def say_where(self, where: str) -> None:
        """Add to the message where in a training it was."""
        self.args = (f"{self.args[0]} ({where})",)


class BusError(RunError):
    """The memory answered a transfer of the pipeline with an error."""


class BadConfigurationError(RunError):
    """The pipeline refused its registers."""


class AbortedError(RunError):
    """The run was aborted by another program."""


class RangeOverflowError(RunError):
    """A value left its range.

    Attributes
    ----------
    epoch : int
        Epoch in which it happened, counted from 1: the one after those of ``result``.
    overflow : Overflow
        What left its range. The golden model names the first value only; a pipeline goes on to
        the end of the epoch and names everything that followed.
    """

    def __init__(self, overflow: Overflow, result: RunResult):
        self.epoch, self.overflow = result.epochs_done + 1, overflow
        super().__init__(
            f"Training left the number range in epoch {self.epoch}: {_what(overflow)}. Choose a "
            "smaller step, or a larger model_range if the model itself is large", result)


class RunTimeoutError(RunError, TimeoutError):
    """A run made no progress for too long and was aborted."""


Outcome = RunResult | RangeOverflowError       # of one of several models


def result_of(outcome: Outcome) -> RunResult:
    """The finished epochs of a model, whether it left its range or not."""
    return outcome.result if isinstance(outcome, RangeOverflowError) else outcome


class TrainingInterrupted(KeyboardInterrupt):
    """Ctrl-C during a run, which was aborted.

    Parameters
    ----------
    outcomes : sequence of RunResult or RangeOverflowError
        One for each model that had been begun, at least one.
    message : str or None
        None: how many epochs the last of them has.

    Attributes
    ----------
    outcomes : list of RunResult or RangeOverflowError
    result : RunResult
        The epochs that were finished before, of the last of them.
    """

    def __init__(self, outcomes: Sequence[Outcome], message: str | None = None):
        self.outcomes = list(outcomes)
        self.result = result_of(self.outcomes[-1])
        super().__init__(
            message or f"Training was interrupted after {self.result.epochs_done} epochs")


def check_job(job: TrainingJob, config: PipelineConfig) -> None:
    """Raise DeviceError unless a pipeline of ``config`` can run a job.

    Raises
    ------
    DeviceError
        If bits, bus width or row format differ, or the job exceeds the pipeline; the message says
        what to build or change.
    """
    if job.config is config:
        return          # for which the job checked itself
    wanted, present = ((c.bits, c.bus_width, c.row_format) for c in (job.config, config))
    if wanted != present:
        raise DeviceError(
            "The job is for {} bits, a {}-bit bus and row format {!r}, ".format(*wanted)
            + "the device has a pipeline for {} bits, a {}-bit bus and row format {!r}; ".format(
                *present) + "open the device with the job's configuration"
            + ", or choose rows of fixed bits" * (job.config.rows.planes > 0))
    if config.loss_family != job.config.loss_family:
        losses = ", ".join(rule.name for rule in losses_of(config.loss_family).values())
        raise DeviceError(f"The job is for loss family {job.config.loss_family!r}, the device has "
                          f"a pipeline "
                          f"with loss family {config.loss_family!r}, which trains the losses "
                          f"{losses}; "
                          "choose one of these (`--model ls-svm` has squared_error), or build a "
                          "pipeline with the job's loss family")
    if not config.ahead.keeps(job.config.ahead, job.beats):
        raise DeviceError(f"The job is for a look-ahead of {job.lookahead} rows, which is part of "
                          "the result of floating-point rows; the device's pipeline has a look-"
                          f"ahead of {config.ahead.of_result(job.beats)} for such rows: open "
                          "the device with the job's configuration")
    try:
        # A job checks itself against its configuration; its look-ahead is checked above.
        replace(job, config=replace(config, lookahead=job.lookahead)
                if config.rows.floating else config)
    except ValueError as error:
        raise DeviceError(str(error)) from error


def run_error(error: int, overflow: int, result: RunResult, epochs: int) -> RunError:
    """Return the exception for a value of ERROR; its message has the remedy.

    Parameters
    ----------
    error, overflow : int
        Registers ERROR and OVERFLOW.
    result : RunResult
        The finished epochs.
    epochs : int
        Epochs that the job asked for.
    """
    epoch = result.epochs_done + 1
    where = f"in epoch {epoch} of {epochs}"
    if error == Error.OVERFLOW:
        return RangeOverflowError(Overflow(overflow), result)
    if error == Error.ROW_READ:
        return BusError(f"The memory answered a read of the rows with an error {where}: check "
                        "the device's memory map and that no other program freed the buffers",
                        result)
    if error == Error.AUX_READ:
        return BusError("The memory answered a read of labels, epoch table, initial model or "
                        f"coefficients with an error {where}: check the device's memory map and "
                        "that no other program freed the buffers", result)
    if error == Error.MODEL_WRITE:
        return BusError(f"The memory answered the write of the model with an error {where}: check "
                        "that the device may write to its buffers", result)
    if error == Error.BAD_CONFIGURATION:
        return BadConfigurationError(
            "The pipeline refused its registers: driver and bitstream disagree; rebuild the "
            "bitstream with this version of bitstep", result)
    if error == Error.ABORTED:
        return AbortedError(f"The run was aborted {where}, not by this program: start it again "
                            "when no other program uses the device", result)
    return RunError(f"The run ended {where} with the unknown error code {error}; rebuild the "
                    "bitstream with this version of bitstep", result)


class Counters(Mapping[str, int | None]):
    """Counters that are counted when somebody asks for one of them.

    They are read as a dict is, and can be pickled if their source can. A cycle model may take
    longer to count a run than a processor to train.

    Parameters
    ----------
    count : callable
        Returns the counters by name.
    """

    def __init__(self, count: Callable[[], Mapping[str, int | None]]):
        self._count, self._found = count, None

    def _known(self) -> Mapping[str, int | None]:
        if self._found is None:
            self._found = dict(self._count())
        return self._found

    def __getitem__(self, name: str) -> int | None:
        return self._known()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known())

    def __len__(self) -> int:
        return len(self._known())

    def __repr__(self) -> str:
        return repr(self._known())


class Ends(Sequence[int]):
    """Cycles to the end of each epoch, counted when somebody asks for one; a part of them, too.
    The numbers are what is pickled.

    Parameters
    ----------
    count : callable
        Returns them.
    length : int
        Number of epochs.
    """

    def __init__(self, count: Callable[[], Sequence[int]], length: int):
        self._count, self._length = count, length
        self._found: list[int] | None = None

    def _known(self) -> list[int]:
        if self._found is None:
            self._found = list(self._count())
        return self._found

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return Ends(lambda: self._known()[place], len(range(self._length)[place]))
        return self._known()[place]

    def __iter__(self) -> Iterator[int]:
        return iter(self._known())

    def __reduce__(self):
        return list, (self._known(),)

    def __repr__(self) -> str:
        return repr(self._known())


def stall_cycles(counters: Mapping[str, int | None]) -> dict[str, int | None]:
    """Cycles of a run in which no row entered, by cause, of counters as in :class:`RunResult`."""
    return {cause: counters[_STALLS.get(cause, cause)] for cause in WAITS}


def waits_text(stalls: Mapping[str, int | None], cycles: int) -> str:
    """What a run of so many cycles waited for, as text: shares of :func:`stall_cycles` of more than
    half a per cent.
    """
    shares = {cause: (stalls[cause] or 0) / cycles for cause in WAITS}
    return ", ".join(f"{share:.0%} for {WAITS[cause]}" for cause, share in shares.items()
                     if share > 0.005) or "none"


def sum_counters(counters: Sequence[Mapping[str, int | None]]) -> Mapping[str, int | None]:
    """Sums over runs; None where a device cannot know."""
    if any(isinstance(run, Counters) for run in counters):
        return Counters(functools.partial(_sum, tuple(counters)))
    return _sum(counters)


def _sum(counters):
    total: dict[str, int | None] = {}
    for name in COUNTER_NAMES:
        values = [run.get(name) for run in counters]
        total[name] = None if None in values else sum(filter(None, values))
    return total


def beats_read(job: TrainingJob, epochs: int) -> int:
    """Beats of the rows of the first ``epochs`` epochs of a job."""
    counts = Counter(steps.planes for steps in job.epochs[:epochs])
    return sum(count * job.config.rows.beats_read(job.n_rows, job.n_features, planes)
               for planes, count in counts.items())


def collect(models: Sequence[np.ndarray], intercepts: Sequence[int], n_features: int,
            counters: Mapping[str, int | None]) -> RunResult:
    """Make a result, in which everything is copied.

    Parameters
    ----------
    models : sequence of ndarray of int, shape (n_features,)
        One for each finished epoch.
    intercepts : sequence of int
    n_features : int
    counters : mapping
        See :class:`RunResult`.
    """
    return RunResult(np.array(models, np.int32).reshape(-1, n_features),
                     np.array(intercepts, np.int32), dict(counters))


def _what(overflow: Overflow) -> str:
    names = {Overflow.UPDATE: "an update (step times residual)",
             Overflow.MODEL: "a weight or the intercept",
             Overflow.CORRECTION: "a diagonal correction"}
    return " and ".join(text for flag, text in names.items() if overflow & flag) \
        or "an unknown value"
