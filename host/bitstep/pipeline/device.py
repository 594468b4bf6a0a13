"""A device that runs training jobs, as everything that trains sees it."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import NoReturn, Protocol, TypeVar

import numpy as np

from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.job import TrainingJob
from bitstep.pipeline.results import (
    ClassSums,
    DeviceError,
    GradientSum,
    Outcome,
    RangeOverflowError,
    RunError,
    RunResult,
    TrainingInterrupted,
)

NO_BIT_PLANE_ROWS = ("Device '{}' has no pipeline for bit-plane rows, which bit planes and solver "
                 "'bit-centred' need; choose device 'cpu', 'golden' or 'sim', or rows of fixed "
                 "bits")

NO_FEW_BITS = ("Device '{}' has no pipeline for a model or updates of few bits; choose device "
               "'cpu', 'golden' or 'sim', or leave model bits and update bits out")

NO_JOINT_CLASSES = ("Device '{}' has no pass of all classes of a multinomial model; choose device "
                    "'cpu' or 'golden', or train the classes one-vs-rest")

ALL_BITS = ("The pipeline of device '{}' has {} of all bits, and a job asks for {} bits: build a "
            "pipeline for that ({}). No pipeline has both; of a search over both, choose device "
            "'cpu', or train those with 0 by themselves")

_Self = TypeVar("_Self", bound="Device")
_Run = TypeVar("_Run", bound="Run")


def share_rows(one: TrainingJob, other: TrainingJob) -> bool:
    """True if two jobs read the same stored rows in every epoch, with the same weights, so that
    their models can take each row side by side. Each keeps labels, steps, periods, keys of the
    dither and penalties of its own, and is bit for bit what it is alone.
    """
    return one.config == other.config and one.n_features == other.n_features \
        and len(one.epochs) == len(other.epochs) and len(one.rows) == len(other.rows) \
        and all(mine is others for mine, others in zip(one.rows, other.rows, strict=True)) \
        and one.codebooks is other.codebooks and one.weights is other.weights


def share_labels(jobs: Sequence[TrainingJob]) -> bool:
    """True if jobs of as many rows have the same stored labels."""
    first = jobs[0]
    return all(job.label_format == first.label_format and (
        job.labels is first.labels or np.array_equal(job.labels, first.labels)) for job in jobs[1:])


class Run(ABC):
    """Jobs that a device trains together, from the first epoch to the last; a context manager,
    which gives back what the run holds.

    Attributes
    ----------
    jobs : sequence of TrainingJob
    """

    jobs: Sequence[TrainingJob]

    @abstractmethod
    def epochs(self) -> Iterator[int]:
        """Start, and go on while the caller asks for more.

        Yields the number of finished epochs, summed over the jobs, whenever it has grown; it may
        grow by more than 1. A pipeline goes on meanwhile. A model that leaves its range ends the
        run, or its part of it, without an exception: see :meth:`outcomes`.

        Raises
        ------
        RunError
            If the run ended early for any other reason.
        """

    @abstractmethod
    def outcomes(self) -> list[Outcome]:
        """Result of every job so far, or the error with which it ended. Counters may hold a part of
        the epoch after the last finished one.
        """

    @abstractmethod
    def words(self) -> Iterator[tuple[int, np.ndarray, int]]:
        """Number in the run, weights and intercept word of each job that has finished an epoch
        since the last call; nothing on devices where that takes long. They must not be changed.
        """

    def abort(self) -> object:
        """Stop before the end; :meth:`outcomes` are of what was finished."""
        return None         # where nothing goes on unless it is asked for

    def close(self) -> None:
        """Give back what the run holds."""
        return None

    def finish(self, on_epoch: Callable[[int], None] | None = None) -> list[Outcome]:
        """Run to the end, and call ``on_epoch`` with what :meth:`epochs` yields.

        Raises
        ------
        TrainingInterrupted
            On Ctrl-C, with the outcomes.
        RunError
            See :meth:`epochs`.
        """
        try:
            for done in self.epochs():
                if on_epoch:
                    on_epoch(done)
            return self.outcomes()      # Ctrl-C while counters are read must lose nothing either
        except KeyboardInterrupt:
            self.abort()
            raise TrainingInterrupted(self.outcomes()) from None
        except RunError:                # it is over
            raise
        except BaseException:
            with suppress(DeviceError):         # the first error is the one to report
                self.abort()
            raise

    def __enter__(self: _Run) -> _Run:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Device(Protocol):
    """A pipeline that runs training jobs; as a context manager it closes itself at the end.

    A copy is the device itself, so that copies of an estimator share it, and there is no pickle
    of it: it holds memory, threads or a board of this process.

    A device with registers and shared memory is a
    :class:`~bitstep.devices.register_device.RegisterDevice`, which implements ``begin``.

    Attributes
    ----------
    name : str
        Name of the kind of device, such as ``sim``.
    config : PipelineConfig
        The pipeline that is on it.
    clock_hz : float or None
        Clock of the pipeline; None if there is no clock.
    workers : int
        Jobs that may be trained at the same time, from threads of their own.
    bit_planes : bool
        True if there are pipelines for bit-plane rows.
    few_bits : bool
        True if there are pipelines for a model and updates of few bits.
    models : int
        Models that one pass over the rows trains (:meth:`train_models`).
    joint_classes : bool
        True if a pass can have the softmax of all classes (:meth:`class_gradients`).
    """

    name: str
    config: PipelineConfig
    clock_hz: float | None
    workers: int = 1
    bit_planes: bool = False
    few_bits: bool = False
    models: int = 1
    joint_classes: bool = False

    @abstractmethod
    def begin(self, jobs: Sequence[TrainingJob], *, timeout_s: float = 60.0,
              to_the_end: bool = True) -> Run:
        """Make a run of jobs ready to start.

        Parameters
        ----------
        jobs : sequence of TrainingJob
            A member of :meth:`parts`.
        timeout_s : float
            Longest time in seconds without progress: no row beat read and no epoch finished.
            (The golden model: longest time for an epoch.)
        to_the_end : bool
            True: a model that leaves its range does not end the others. False: it ends the run,
            at the end of its epoch, which then counts for none of the run's models: all have the
            epochs before it. Which jobs share a run depends on the device (:meth:`parts`).

        Raises
        ------
        DeviceError
            If the device is not what it claims to be, cannot run the job, or has one run at a time
            and another one is open (docs/runs.md); nothing was transferred.
        MemoryError
            If the device has not enough memory.
        ValueError
            If ``timeout_s`` is no finite number of at least 0.
        """
        ...

    def parts(self, jobs: Sequence[TrainingJob]) -> Iterator[list[TrainingJob]]:
        """Yield jobs in their order, as many together as one run trains."""
        for job in jobs:
            yield [job]

    def train(self, job: TrainingJob, *, timeout_s: float = 60.0,
              on_epoch: Callable[[int], None] | None = None) -> RunResult:
        """Run a job to its end.

        Parameters
        ----------
        job : TrainingJob
        timeout_s : float
            See :meth:`begin`.
        on_epoch : callable
            Called with the number of finished epochs whenever it has grown; it may grow by more
            than 1 between calls.

        Returns
        -------
        RunResult
            Models of every epoch.

        Raises
        ------
        RunError
            If the run ended early: :class:`~bitstep.pipeline.results.RangeOverflowError`,
            :class:`~bitstep.pipeline.results.BusError`,
            :class:`~bitstep.pipeline.results.RunTimeoutError` and others, with the finished epochs
            in ``result``.
        TrainingInterrupted
            On Ctrl-C, with the finished epochs in ``result``.
        DeviceError, MemoryError
            See :meth:`begin`.
        """
        (outcome,) = self.train_models([job], timeout_s=timeout_s, on_epoch=on_epoch)
        if isinstance(outcome, RangeOverflowError):
            raise outcome
        return outcome

    def gradient(self, job: TrainingJob, *, derivative_planes: int = 0, derivative_rows: int = 0,
                 timeout_s: float = 60.0) -> GradientSum:
        """Sum the updates of all rows at the model of a job, without making them.

        Parameters
        ----------
        job : TrainingJob
            Of bit-plane rows and one epoch.
        derivative_planes : int
            Planes of the codes at which the derivative of each row's loss is written; 0 for none.
            For a smooth loss whose labels are signs, at most the planes of the epoch.
        derivative_rows : int
            Rows whose derivatives are written: so many of the first ones; 0 for all.
        timeout_s : float
            See :meth:`train`; devices that compute on the host do not look at it.

        Raises
        ------
        DeviceError
            If the device has no pipeline for bit-plane rows.
        """
        del job, derivative_planes, derivative_rows, timeout_s
        raise DeviceError(NO_BIT_PLANE_ROWS.format(self.name))

    def class_gradients(self, jobs: Sequence[TrainingJob], *, derivative_planes: int = 0,
                        derivative_rows: int = 0) -> ClassSums:
        """Sum the updates of all rows at the models of all classes of a multinomial model
        (:mod:`bitstep.golden.softmax`).

        Parameters
        ----------
        jobs : sequence of TrainingJob
            Of each class, with loss ``LOGISTIC`` and labels +1 for its rows and -1 for the others;
            alike but for labels, model and constants.
        derivative_planes, derivative_rows : int
            See :meth:`gradient`.

        Raises
        ------
        DeviceError
            If the device has no such passes, or jobs are not those of the classes of one model.
        """
        del jobs, derivative_planes, derivative_rows
        raise DeviceError(NO_JOINT_CLASSES.format(self.name))

    def train_classes(self, jobs: Sequence[TrainingJob], *,
                      timeout_s: float = 60.0) -> list[RunResult]:
        """Run the jobs of all classes of a multinomial model together.

        Parameters
        ----------
        jobs : sequence of TrainingJob
            As of :meth:`class_gradients`, with labels that are derivatives at a centre.
        timeout_s : float
            See :meth:`train`.

        Returns
        -------
        list of RunResult
            Of each class. The first one has the counters, the others have 0.

        Raises
        ------
        RunError, DeviceError
            See :meth:`train` and :meth:`class_gradients`.
        """
        del jobs, timeout_s
        raise DeviceError(NO_JOINT_CLASSES.format(self.name))

    def keep_rows(self) -> AbstractContextManager[None]:
        """A context in which rows stay in the device's memory from run to run, as long as jobs have
        the same arrays of rows, which must not change. Without it every run has its own copy.
        """
        return nullcontext()

    def shares_pass(self, one: TrainingJob, other: TrainingJob) -> bool:
        """True if one pass over the rows may train the models of two jobs."""
        return share_rows(one, other)

    def train_models(self, jobs: Sequence[TrainingJob], *, timeout_s: float = 60.0,
                     on_epoch: Callable[[int], None] | None = None,
                     to_the_end: bool = True) -> list[Outcome]:
        """Train the models of several jobs, each bit for bit as :meth:`train` does, in as few runs
        as the device needs (:meth:`parts`).

        Parameters
        ----------
        jobs : sequence of TrainingJob
            At least one, all with as many epochs.
        timeout_s, to_the_end
            See :meth:`begin`.
        on_epoch : callable
            Called with the number of finished epochs, summed over the models.

        Returns
        -------
        list of RunResult or RangeOverflowError
            One for each job, or, of a run that was ended, for those that had been begun. Where a
            device counts the cycles of a pass, the first model of it has the counters and the
            others have 0, so that sums count each pass once.

        Raises
        ------
        TrainingInterrupted
            On Ctrl-C, with the outcomes of the jobs that had been begun.
        RunError, DeviceError, MemoryError
            See :meth:`train`.
        """
        outcomes: list[Outcome] = []
        before = 0
        for part in self.parts(jobs):
            report = (lambda done, before=before: on_epoch(before + done)) if on_epoch else None
            with self.begin(part, timeout_s=timeout_s, to_the_end=to_the_end) as run:
                try:
                    outcomes += run.finish(report)
                except TrainingInterrupted as stopped:
                    raise TrainingInterrupted([*outcomes, *stopped.outcomes]) from None
            if not to_the_end and any(isinstance(one, RangeOverflowError) for one in outcomes):
                break
            before += sum(len(job.epochs) for job in part)
        return outcomes

    def end_jobs(self, on: bool) -> None:
        """End the jobs in all threads as Ctrl-C would, from now until called with False; a device
        with one worker is interrupted by Ctrl-C itself.
        """
        del on

    @abstractmethod
    def close(self) -> None:
        """Release the device; calling it twice is harmless."""

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __copy__(self: _Self) -> _Self:
        return self

    def __deepcopy__(self: _Self, memo: object) -> _Self:
        del memo
        return self

    def __reduce__(self) -> NoReturn:
        threads = ", or in threads" if self.workers > 1 else ""
        raise TypeError("An opened device belongs to its process and cannot be pickled: give its "
                        f"name, device={self.name!r}, which each process opens for itself, or fit "
                        f"in this process (n_jobs=1{threads})")
