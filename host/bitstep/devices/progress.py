"""Progress of a run through registers."""

import time

from bitstep.pipeline.registers import Status
from bitstep.pipeline.results import beats_read


class RunProgress:
    """Progress of a run: its end, finished epochs, and the time since anything has happened.

    Attributes
    ----------
    epochs_done : int
        At the last look.
    finished : bool
        True if the run was over at the last look.
    """

    def __init__(self, run, timeout_s):
        self.run, self.timeout_s = run, timeout_s
        self.total = beats_read(run.job, len(run.job.epochs))
        self.epochs_done, self.shown, self.seen = 0, 0, None
        self.changed = time.monotonic()
        self.finished = False

    @property
    def idle_s(self):
        """Seconds since the last progress."""
        return time.monotonic() - self.changed

    def look(self):
        """Return True when there is nothing to wait for: an epoch or the run is over, or there was
        no progress for too long.
        """
        self.finished = bool(self.run.read("STATUS") & Status.DONE)
        self.epochs_done = self.run.read("EPOCHS_DONE")
        # Beats beyond the job's are no progress: so a pipeline that runs wild is stopped, too.
        seen = (self.epochs_done, min(self.run.read_pair("BEATS"), self.total))
        if seen != self.seen:
            self.seen, self.changed = seen, time.monotonic()
        return self.finished or self.epochs_done > self.shown or self.idle_s > self.timeout_s

    def show(self):
        """Yield the number of finished epochs if it has grown since the last call."""
        if self.epochs_done > self.shown:
            self.shown = self.epochs_done
            yield self.shown
            self.changed = time.monotonic()     # what the caller did may have taken long
