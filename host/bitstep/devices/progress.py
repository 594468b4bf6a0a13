"""Progress of a run through registers."""

import time

from bitstep.pipeline.registers import Status
from bitstep.pipeline.results import beats_read

# A run is busy or done from its start on. So neither, at so many looks and for so long, is no delay
# of a line or a bus, and short beside a training.
LOST_LOOKS = 3
LOST_S = 1.0


class RunProgress:
    """Progress of a run: its end, finished epochs, and the time since anything has happened.

    Attributes
    ----------
    epochs_done : int
        At the last look.
    finished : bool
        True if the run was over at the last look.
    lost : str
        Why there is no such run on the board any more, such as after a reset; empty if there is.
    """

    def __init__(self, run, timeout_s):
        self.run, self.timeout_s = run, timeout_s
        self.total = beats_read(run.job, len(run.job.epochs))
        self.epochs_done, self.shown, self.seen = 0, 0, None
        self.changed = time.monotonic()
        self.finished, self.lost = False, ""
        self._idle = 0              # looks that found no run, one after the other, the first of
        self._idle_since = 0.0      # which was at this time

    @property
    def idle_s(self):
        """Seconds since the last progress."""
        return time.monotonic() - self.changed

    def look(self):
        """Return True when there is nothing to wait for: an epoch or the run is over or lost, or
        there was no progress for too long.
        """
        status = self.run.read("STATUS")
        self.finished = bool(status & Status.DONE)
        self.epochs_done = self.run.read("EPOCHS_DONE")
        self.lost = self._why_lost(status)
        # Beats beyond the job's are no progress: so a pipeline that runs wild is stopped, too.
        seen = (self.epochs_done, min(self.run.read_pair("BEATS"), self.total))
        if seen != self.seen:
            self.seen, self.changed = seen, time.monotonic()
        return self.finished or bool(self.lost) or self.epochs_done > self.shown \
            or self.idle_s > self.timeout_s

    def _why_lost(self, status):
        """Tell why the run is lost; empty if it is not."""
        if self.epochs_done < self.shown:
            return f"EPOCHS_DONE says {self.epochs_done} after it said {self.shown}"
        if status & (Status.BUSY | Status.DONE):
            self._idle = 0
            return ""
        if not self._idle:
            self._idle_since = time.monotonic()
        self._idle += 1
        if self._idle < LOST_LOOKS or time.monotonic() - self._idle_since < LOST_S:
            return ""
        return f"STATUS 0x{status:08x} says neither busy nor done"

    def show(self):
        """Yield the number of finished epochs if it has grown since the last call."""
        if self.epochs_done > self.shown:
            self.shown = self.epochs_done
            yield self.shown
            self.changed = time.monotonic()     # what the caller did may have taken long
