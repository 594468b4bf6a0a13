"""Progress of a run through registers."""

import time

from bitstep.pipeline.registers import Status
from bitstep.pipeline.results import beats_read


class Progress:
    """Progress of a run: its end, and the time since anything has happened."""

    def __init__(self, run, timeout_s, on_epoch, on_models, on_words):
        self.run, self.timeout_s = run, timeout_s
        self.on_epoch, self.on_models, self.on_words = on_epoch, on_models, on_words
        self.total = beats_read(run.job, len(run.job.epochs))
        self.epochs_done, self.seen = 0, None
        self.changed = time.monotonic()
        self.finished = False

    @property
    def idle_s(self):
        """Seconds since the last progress."""
        return time.monotonic() - self.changed

    def ended(self):
        """Return True when there is nothing to wait for: the run is over, or has made no progress
        for too long.
        """
        self.finished = bool(self.run.read("STATUS") & Status.DONE)
        epochs_done = self.run.read("EPOCHS_DONE")
        # Beats beyond the job's are no progress: so a pipeline that runs wild is stopped, too.
        seen = (epochs_done, min(self.run.read_pair("BEATS"), self.total))
        if seen != self.seen:
            self.seen, self.changed = seen, time.monotonic()
        if epochs_done > self.epochs_done:
            self.epochs_done = epochs_done
            if self.on_epoch:
                self.on_epoch(epochs_done)
            if self.on_models:
                self.on_models(self.run.result())
            if self.on_words:
                for number, words, intercept in self.run.words(epochs_done):
                    self.on_words(number, words, intercept)
            self.changed = time.monotonic()     # what was called may have taken long
        return self.finished or self.idle_s > self.timeout_s
