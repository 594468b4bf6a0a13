"""Runs of the outputs of a model: one after the other, or several at the same time."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import Protocol

from bitstep.pipeline.device import Device
from bitstep.pipeline.results import RunResult, SaturationError, TrainingInterrupted


class OutputRun(Protocol):
    """The run of an output's job, as :meth:`bitstep.pipeline.device.Device.train`."""

    def __call__(self, *, on_epoch: Callable[[int], None] | None) -> RunResult:
        """Run to the end."""
        ...


def run_in_turn(runs: Sequence[OutputRun], on_epoch: Callable[[int], None] | None,
                n_epochs: int) -> tuple[list[RunResult], bool]:
    """Run one job after the other, each through all epochs.

    Parameters
    ----------
    runs : sequence of OutputRun
    on_epoch : callable or None
        Called with the finished epochs, summed over the outputs.
    n_epochs : int
        Epochs of each job.

    Returns
    -------
    results : list of RunResult
    interrupted : bool
        True if Ctrl-C ended the last one.

    Raises
    ------
    TrainingInterrupted
        On Ctrl-C before every output had an epoch.
    DeviceError
        See :meth:`bitstep.pipeline.device.Device.train`; a saturation names one of several outputs.
    """
    results: list[RunResult] = []
    for number, run in enumerate(runs):
        before = number * n_epochs
        report = (lambda done, before=before: on_epoch(before + done)) if on_epoch else None
        try:
            results.append(run(on_epoch=report))
        except TrainingInterrupted as stopped:
            if number + 1 < len(runs) or not stopped.result.epochs_done:
                raise _nothing_kept(stopped.result, number + 1, len(runs)) from None
            return [*results, stopped.result], True
        except SaturationError as error:
            raise _named(error, number + 1, len(runs)) from None
    return results, False


def run_together(device: Device, runs: Sequence[OutputRun],
                 on_epoch: Callable[[int], None] | None) -> tuple[list[RunResult], bool]:
    """Run several jobs at the same time, in threads of their own.

    Parameters
    ----------
    device : Device
        It runs ``device.workers`` jobs at a time.
    runs, on_epoch
        See :func:`run_in_turn`.

    Returns
    -------
    results, interrupted
        See :func:`run_in_turn`.

    Raises
    ------
    TrainingInterrupted, DeviceError
        See :func:`run_in_turn`. The first error ends the other runs.
    """
    lock, finished = threading.Lock(), [0] * len(runs)

    def work(number: int) -> RunResult:
        def report(done: int) -> None:
            with lock:
                finished[number] = done
                if on_epoch:
                    on_epoch(sum(finished))
        return runs[number](on_epoch=report)

    interrupted = False
    with ThreadPoolExecutor(min(device.workers, len(runs))) as pool:
        working = [pool.submit(work, number) for number in range(len(runs))]
        try:
            wait(working, return_when=FIRST_EXCEPTION)
        except KeyboardInterrupt:
            interrupted = True
        finally:
            if not all(one.done() for one in working):      # Ctrl-C, or one of them has failed
                device.end_jobs(True)
                wait(working)
                device.end_jobs(False)
    results = []
    for number, one in enumerate(working, start=1):
        error = one.exception()
        if isinstance(error, SaturationError):
            raise _named(error, number, len(runs))
        if error is not None and not isinstance(error, TrainingInterrupted):
            raise error
        results.append(error.result if error is not None else one.result())
    ready = sum(result.epochs_done > 0 for result in results)
    if ready < len(runs):
        raise _nothing_kept(results[0], ready + 1, len(runs))
    return results, interrupted


def _named(error: SaturationError, number: int, count: int) -> SaturationError:
    """The error of output ``number`` of ``count``, which it names."""
    if count > 1:
        error.args = (f"Class {number} of {count}: {error.args[0]}",)
    return error


def _nothing_kept(result: RunResult, number: int, count: int) -> TrainingInterrupted:
    """The exception of a training that was interrupted in output ``number`` of ``count``, before
    every one of them had an epoch.
    """
    text = "interrupted in the first epoch: there is no model yet, so none was kept"
    if count > 1:
        text = (f"interrupted in class {number} of {count}: no model was kept, because a "
                "one-vs-rest model needs all of them")
    stopped = TrainingInterrupted(result)
    stopped.args = (text,)
    return stopped
