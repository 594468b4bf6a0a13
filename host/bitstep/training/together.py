"""Outputs of a model that are trained at the same time, on a device that runs several jobs."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait

from bitstep.pipeline.device import Device
from bitstep.pipeline.results import RunResult, SaturationError, TrainingInterrupted
from bitstep.training.epochs import runner_of
from bitstep.training.planning import Plan


def train_together(device: Device, plans: Sequence[Plan], *, timeout_s: float,
                   on_epoch: Callable[[int], None] | None) -> tuple[list[RunResult], bool]:
    """Run a planned job for each output, in threads of their own.

    Parameters
    ----------
    device : Device
        Its ``workers`` are the jobs at a time.
    plans : sequence of Plan
    timeout_s, on_epoch
        See :meth:`bitstep.pipeline.device.Device.train`; epochs are summed over the outputs.

    Returns
    -------
    results : list of RunResult
    interrupted : bool
        True if Ctrl-C ended the runs.

    Raises
    ------
    DeviceError
        That of the first output that has one; the others are ended.
    """
    lock, finished = threading.Lock(), [0] * len(plans)

    def run(number: int) -> RunResult:
        def report(done: int) -> None:
            with lock:
                finished[number] = done
                if on_epoch:
                    on_epoch(sum(finished))
        made = plans[number]
        return runner_of(device, made).train(made.job, timeout_s=timeout_s, on_epoch=report)

    interrupted = False
    with ThreadPoolExecutor(min(device.workers, len(plans))) as pool:
        runs = [pool.submit(run, number) for number in range(len(plans))]
        try:
            wait(runs, return_when=FIRST_EXCEPTION)
        except KeyboardInterrupt:
            interrupted = True
        finally:
            if not all(one.done() for one in runs):     # Ctrl-C, or one of them has failed
                device.interrupt(True)
                wait(runs)
                device.interrupt(False)
    for number, one in enumerate(runs, start=1):
        error = one.exception()
        if isinstance(error, SaturationError):
            error.args = (f"Class {number} of {len(runs)}: {error.args[0]}",)
        if error is not None and not isinstance(error, TrainingInterrupted):
            raise error
    return [_result(one) for one in runs], interrupted


def _result(run: Future) -> RunResult:
    """Result of a run that has ended; of one that was interrupted, its finished epochs."""
    try:
        return run.result()
    except TrainingInterrupted as stopped:
        return stopped.result
