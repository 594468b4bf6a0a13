"""A checkpoint that follows a training: from the models of a device to the file."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from bitstep.pipeline.device import Device, OnWords, words_of
from bitstep.pipeline.job import TrainingJob
from bitstep.pipeline.results import RunError, RunResult, SaturationError, TrainingInterrupted
from bitstep.training.checkpoint import (
    KIND,
    CentredState,
    Checkpoint,
    CheckpointError,
    describe_job,
    joined,
    remaining_job,
)
from bitstep.training.trained import Restart


class CheckpointWriter:
    """A checkpoint that follows a training.

    Parameters
    ----------
    path : path
        The file; it is replaced after every epoch that is seen to be finished.
    checkpoint : Checkpoint
        State to begin with.
    warn : callable
        Called with a sentence if the file cannot be written; the training goes on.

    Attributes
    ----------
    path, checkpoint
    complete : bool
        True if the file holds every finished epoch.
    """

    def __init__(self, path: str, checkpoint: Checkpoint, warn: Callable[[str], None]):
        self.path, self.checkpoint, self._warn = path, checkpoint, warn
        self.complete = True
        self._started, self._earlier_s = time.monotonic(), checkpoint.seconds
        self._saved = checkpoint.position()

    def train(self, device: Device, number: int, job: TrainingJob, *, timeout_s: float,
              on_epoch: Callable[[int], None] | None, on_words: OnWords | None = None,
              until: int | None = None) -> RunResult:
        """Run what is left of an output's job, and keep the models of every epoch.

        Parameters
        ----------
        device : Device
            Not used if nothing is left.
        number : int
            Number of the output; those before are finished.
        job : TrainingJob
            All epochs.
        timeout_s, on_epoch
            See :meth:`bitstep.pipeline.device.Device.train`; epochs count from the job's first.
        on_words : callable or None
            See :meth:`bitstep.pipeline.device.Device.train_models`; called with the output.
        until : int or None
            Epochs after which to end; None for all.

        Returns
        -------
        RunResult
            Of all finished epochs.

        Raises
        ------
        CheckpointError
            If the checkpoint was made by other integers than the job's.
        """
        earlier = self._begun(number, job)
        done = earlier.epochs_done
        last = len(job.epochs) if until is None else until
        if done >= last:
            return earlier
        left = remaining_job(job, earlier)
        left = replace(left, epochs=left.epochs[:last - done])
        shifted = (lambda count: on_epoch(done + count)) if on_epoch else None
        try:
            result = device.train(
                left, timeout_s=timeout_s, on_epoch=shifted,
                on_models=lambda models: self._keep(number, joined(earlier, models)),
                **words_of(on_words, number))
        except (TrainingInterrupted, RunError) as error:
            error.result = joined(earlier, error.result)
            self._keep(number, error.result)
            if isinstance(error, SaturationError):
                raise SaturationError(done + error.epoch, error.saturation,
                                      error.result) from error
            if done and isinstance(error, RunError):
                where = f"epochs count from epoch {done} of the checkpoint"
                error.args = (f"{error.args[0]} ({where})",)
            raise
        self._keep(number, joined(earlier, result))
        return self.checkpoint.results[number]

    def stop(self) -> None:
        """Note that the training has ended, maybe before its last epoch."""
        if self.checkpoint.stopped:
            return
        self.checkpoint.stopped = True
        self._try_to_save()

    def kept(self) -> str:
        """Return a sentence, without its stop, that says what is kept of a training that ended."""
        last = "" if self.complete else "; its last states could not be written"
        return (f"{self.path} keeps {self._saved}{last}, and the same command goes on there with "
                f"--resume {self.path}")

    def save(self) -> None:
        """Write the file, at the start and where a training could not.

        Raises
        ------
        OSError
            If it cannot be written.
        """
        self.checkpoint.save(self.path)
        self.complete, self._saved = True, self.checkpoint.position()

    def done(self, number: int, job: TrainingJob) -> RunResult:
        """Result of the epochs of an output's job that the checkpoint holds."""
        return self._begun(number, job)

    def _begun(self, number, job):
        """Result of an output so far."""
        state, found = self.checkpoint, describe_job(job)
        if number == len(state.results):
            state.jobs.append(found)
            state.results.append(_no_epochs(job))
        differing = [name for name in found if state.jobs[number].get(name) != found[name]]
        if differing:
            raise CheckpointError(
                f"{self.path}: data and options are those of the checkpoint, but this version of "
                f"bitstep makes another {' and '.join(differing)} of them; go on with the version "
                f"that wrote it, or {KIND.remedy}")
        return state.results[number]

    def restart(self, restarts: Sequence[Restart], jobs: Sequence[TrainingJob]) -> None:
        """Begin outputs again, with other jobs; one state for all, so that none is kept between."""
        for one, job in zip(restarts, jobs, strict=True):
            self.checkpoint.jobs[one.output] = describe_job(job)
            self.checkpoint.results[one.output] = _no_epochs(job)
        self.checkpoint.restarts += restarts
        self._try_to_save()

    def _keep(self, number, result):
        state = self.checkpoint
        before, state.results[number] = state.results[number], result
        if self.complete and before.epochs_done == result.epochs_done \
                and before.counters == result.counters:
            return
        self._try_to_save()

    def centred(self, number: int) -> CentredState | None:
        """State of an output of a bit-centred training; None of one that is not begun."""
        found = self.checkpoint.centred
        return found[number] if number < len(found) else None

    def keep_centred(self, number: int, state: CentredState) -> None:
        """Keep the state of an output of a bit-centred training; those before are finished."""
        self.checkpoint.centred[number:] = [state]
        self._try_to_save()

    def _try_to_save(self) -> None:
        """Write the file; if that fails, warn once."""
        state = self.checkpoint
        state.seconds = self._earlier_s + time.monotonic() - self._started
        was_complete, self.complete = self.complete, False      # Ctrl-C may come while it is saved
        try:
            self.save()
        except OSError as error:
            if was_complete:
                self._warn(f"the checkpoint cannot be written ({error}): {self.path} stays that "
                           f"of {self._saved}, and the training goes on; every epoch tries again")


def _no_epochs(job: TrainingJob) -> RunResult:
    return RunResult(np.zeros((0, job.n_features), np.int32), np.zeros(0, np.int32))
