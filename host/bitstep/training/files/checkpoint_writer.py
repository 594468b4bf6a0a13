"""A checkpoint that follows a training: from the models of a device to the file."""

import time
from collections.abc import Callable, Sequence

import numpy as np

from bitstep.pipeline.job import TrainingJob
from bitstep.pipeline.results import RunResult
from bitstep.training.files.checkpoint import (
    KIND,
    CentredState,
    Checkpoint,
    CheckpointError,
    describe_job,
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

    def begin(self, number: int, job: TrainingJob) -> RunResult:
        """Epochs of an output that the checkpoint holds; those before are begun already.

        Raises
        ------
        CheckpointError
            If its job was another one.
        """
        state, found = self.checkpoint, describe_job(job)
        if number == len(state.results):
            state.jobs.append(found)
            state.results.append(_no_epochs(job))
        differing = [name for name in found if state.jobs[number].get(name) != found[name]]
        if differing:
            raise CheckpointError(
                f"{self.path}: codes, labels and options are those of the checkpoint, but the "
                f"{' and the '.join(differing)} differ: values have changed within their codes, or "
                "another version of bitstep wrote it; go on with the data and the version that it "
                f"is of, or {KIND.remedy}")
        return state.results[number]

    def restart(self, restarts: Sequence[Restart], jobs: Sequence[TrainingJob]) -> None:
        """Begin outputs again, with other jobs; one state for all, so that none is kept between."""
        for one, job in zip(restarts, jobs, strict=True):
            self.checkpoint.jobs[one.output] = describe_job(job)
            self.checkpoint.results[one.output] = _no_epochs(job)
        self.checkpoint.restarts += restarts
        self._try_to_save()

    def keep(self, number: int, result: RunResult) -> None:
        """Keep the epochs of an output."""
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
