"""A device that runs training jobs, as everything that trains sees it."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Protocol, TypeVar

from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.job import TrainingJob
from bitstep.pipeline.results import DeviceError, GradientSum, RunResult

NO_WOVEN_ROWS = ("Device '{}' has no pipeline for woven rows, which bit planes and solver "
                 "'bit-centred' need; choose device 'cpu' or 'golden', or rows of fixed bits")

_Self = TypeVar("_Self", bound="Device")


class Device(Protocol):
    """A pipeline that runs training jobs; as a context manager it closes itself at the end.

    A device with registers and shared memory is a
    :class:`~bitstep.devices.register_device.RegisterDevice`, which implements ``train``.

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
    woven : bool
        True if there are pipelines for woven rows.
    """

    name: str
    config: PipelineConfig
    clock_hz: float | None
    workers: int = 1
    woven: bool = False

    @abstractmethod
    def train(self, job: TrainingJob, *, timeout_s: float = 60.0,
              on_epoch: Callable[[int], None] | None = None,
              on_models: Callable[[RunResult], None] | None = None) -> RunResult:
        """Run a job to its end.

        Parameters
        ----------
        job : TrainingJob
        timeout_s : float
            Longest time in seconds without progress: no row beat read and no epoch finished.
            (The golden model: longest time for an epoch.)
        on_epoch : callable
            Called with the number of finished epochs whenever it has grown; it may grow by more
            than 1 between calls.
        on_models : callable
            Called after ``on_epoch`` with the models of every epoch that is finished so far. The
            pipeline goes on meanwhile, so counters may hold a part of the next epoch. Without it
            no model is copied before the end.

        Returns
        -------
        RunResult
            Models of every epoch.

        Raises
        ------
        DeviceError
            If the device is not what it claims to be or cannot run the job; nothing was
            transferred.
        RunError
            If the run ended early: :class:`~bitstep.pipeline.results.SaturationError`,
            :class:`~bitstep.pipeline.results.BusError`,
            :class:`~bitstep.pipeline.results.RunTimeoutError` and others, with the finished epochs
            in ``result``.
        TrainingInterrupted
            On Ctrl-C, with the finished epochs in ``result``.
        MemoryError
            If the device has not enough memory.
        """
        ...

    def gradient(self, job: TrainingJob) -> GradientSum:
        """Sum the updates of all rows at the model of a job, without making them.

        Parameters
        ----------
        job : TrainingJob
            Of woven rows and one epoch.

        Raises
        ------
        DeviceError
            If the device has no pipeline for woven rows.
        """
        del job
        raise DeviceError(NO_WOVEN_ROWS.format(self.name))

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
