"""A run of a training job through registers: transfers, bounded waits, errors."""

import contextlib
import time

import numpy as np

from bitstep.devices.base import Buffer, RegisterAccess
from bitstep.pipeline.job import TrainingJob
from bitstep.pipeline.memory import ModelLayout
from bitstep.pipeline.registers import MAP_VERSION, OFFSETS, Control, Error, Status
from bitstep.pipeline.results import (
    COUNTER_NAMES,
    DeviceError,
    RunTimeoutError,
    TrainingInterrupted,
    beats_read,
    collect,
    run_error,
)
from bitstep.pipeline.shapes import label_bytes

ABORT_TIMEOUT_S = 5.0       # an abort drains what is outstanding on the buses; that is microseconds
AUX_BYTES = 8               # beat of the bus that carries labels, tables and models


def check_identity(device: RegisterAccess) -> None:
    """Compare version and identity registers with what the device should be.

    Raises
    ------
    DeviceError
        If one differs: another bitstream is loaded.
    """
    version = device.read(OFFSETS["VERSION"])
    if version != MAP_VERSION:
        raise DeviceError(f"Device '{device.name}' has version {version} of the register map, not "
                          f"{MAP_VERSION}: load a bitstream built with this version of bitstep")
    identity = sum(device.read(OFFSETS[f"IDENTITY_{part}"]) << 32 * part for part in range(4))
    if identity != device.identity:
        raise DeviceError(f"Device '{device.name}' identifies itself as {identity:032x}, not "
                          f"{device.identity:032x}: another bitstream is loaded, load the one for "
                          f"{device.config.name}")


class Run:
    """One job on one device of the register protocol: loaded when it is made, then started.

    Parameters
    ----------
    device : RegisterAccess
    job : TrainingJob
    stack : contextlib.ExitStack
        Frees the buffers at its end.

    Attributes
    ----------
    buffers : dict of str to Buffer
        What was allocated, by what it holds.
    layout : ModelLayout
    """

    def __init__(self, device: RegisterAccess, job: TrainingJob, stack: contextlib.ExitStack):
        self.device, self.job, self.stack = device, job, stack
        self.layout = ModelLayout(job.config, job.n_features)
        self.buffers: dict[str, Buffer] = {}
        self._stop_previous()
        self._load()

    def finish(self, timeout_s, on_epoch=None, on_models=None, on_words=None):
        """Start the run, wait for its end and return the result; see
        :meth:`bitstep.pipeline.device.Device.train`. Whatever else ends the wait aborts the run.
        """
        progress = _Progress(self, timeout_s, on_epoch, on_models, on_words)
        try:
            self.write("CONTROL", Control.START)
            self._wait(progress, timeout_s)
            # A serial line takes a while for these, in which Ctrl-C must lose nothing either.
            status, error, saturation = map(self.read, ("STATUS", "ERROR", "SATURATION"))
            result = self.result()
        except KeyboardInterrupt:
            self.abort()
            raise TrainingInterrupted(self.result()) from None
        except RunTimeoutError:         # is aborted already
            raise
        except BaseException:
            with contextlib.suppress(DeviceError):      # the first error is the one to report
                self.abort()
            raise
        if status & Status.FAILED or error != Error.NONE:
            raise run_error(error, saturation, result, len(self.job.epochs))
        if result.epochs_done != len(self.job.epochs):
            raise DeviceError(f"Device '{self.device.name}' reports the end of the run after "
                              f"{result.epochs_done} of {len(self.job.epochs)} epochs, without an "
                              "error: it does not follow the protocol")
        return result

    def read(self, name):
        """Read a 32-bit register."""
        return self.device.read(OFFSETS[name])

    def read_pair(self, name):
        """Read a 64-bit register that may be counting."""
        while True:
            high, low = self.read(f"{name}_HI"), self.read(f"{name}_LO")
            if self.read(f"{name}_HI") == high:     # no carry between the two reads
                return high << 32 | low

    def write(self, name, value):
        """Write a 32-bit register."""
        self.device.write(OFFSETS[name], int(value))

    def write_pair(self, name, value):
        """Write a 64-bit register."""
        self.write(f"{name}_LO", value & 0xFFFF_FFFF)
        self.write(f"{name}_HI", value >> 32)

    def abort(self):
        """Stop the pipeline; return True if it did within a bounded time."""
        self.write("CONTROL", Control.ABORT)
        return self.device.wait(lambda: not self.read("STATUS") & Status.BUSY, ABORT_TIMEOUT_S)

    def words(self, first, last):
        """Return copies of the model words and intercept words of some finished epochs."""
        self.models.from_device()
        size = self.layout.n_bytes
        words = self.models.array[first * size:last * size].view("<i4").reshape(
            last - first, self.layout.n_words)
        return self.layout.unpack(words)

    def result(self):
        """Return copies of the models of the finished epochs, and the counters."""
        done = min(self.read("EPOCHS_DONE"), len(self.job.epochs))
        counters = {name: self.read_pair(name.upper()) for name in COUNTER_NAMES}
        models, intercepts = self.words(0, done)
        return collect(list(models), list(intercepts), self.job.n_features, counters)

    def _stop_previous(self):
        """End a run that an earlier program left behind: it would write to memory that we reuse."""
        if self.read("STATUS") & Status.BUSY and not self.abort():
            raise DeviceError(f"Device '{self.device.name}' is busy with another run and did not "
                              f"stop within {ABORT_TIMEOUT_S:g} s: reset it")

    def _wait(self, progress, timeout_s):
        while not (self.device.wait(progress.ended, timeout_s) and progress.finished):
            if progress.idle_s > timeout_s:
                idle_s, status = progress.idle_s, self.read("STATUS")
                done = self.read("EPOCHS_DONE")
                stopped = self.abort()
                raise RunTimeoutError(
                    f"Device '{self.device.name}' made no progress for {idle_s:.1f} s "
                    f"(STATUS 0x{status:08x}, {done} of {len(self.job.epochs)} epochs done, "
                    f"{self.read_pair('BEATS')} row beats read); the run was "
                    + ("aborted" if stopped else "told to abort but did not: reset the device"),
                    self.result())

    def _load(self):
        """Allocate, check and fill every buffer, then write the registers."""
        job, config = self.job, self.device.config
        rows = self._buffer("rows", sum(copy.nbytes for copy in job.rows), config.beat_bytes)
        labels = self._buffer("labels", label_bytes(job.n_rows, job.label_format))
        epoch_table = self._buffer("epoch table", 16 * len(job.epochs))
        self.models = self._buffer("models", len(job.epochs) * self.layout.n_bytes)
        warm = bool(job.model.any() or job.intercept)
        first = self._buffer("first model", self.layout.n_bytes) if warm else None
        coefficients = self._buffer("coefficients", self.layout.n_bytes) \
            if job.correction_period else None
        tables = None if job.level_tables is None else self.layout.pack_tables(job.level_tables)
        level_tables = None if tables is None else self._buffer("level tables", tables.size)
        fine_rows = self._buffer("fine rows", job.n_rows * self.layout.fine_bytes) \
            if job.cell_half_levels else None

        for index, copy in enumerate(job.rows):
            rows.array[index * copy.nbytes:(index + 1) * copy.nbytes] = copy.reshape(-1)
        labels.array[:] = 0         # there may be none
        labels.array[:job.labels.nbytes] = job.labels
        words = np.array([epoch.words() for epoch in job.epochs], "<u8").reshape(-1)
        epoch_table.array[:words.nbytes] = words.view(np.uint8)
        if first:
            first.array[:self.layout.n_bytes] = self.layout.pack(job.model, job.intercept)
        if coefficients:
            coefficients.array[:self.layout.n_bytes] = self.layout.pack(job.coefficients, 0)
        if fine_rows and job.fine_rows is not None:
            packed = self.layout.pack_fine(job.fine_rows)
            fine_rows.array[:packed.size] = packed
        if level_tables and tables is not None:
            level_tables.array[:tables.size] = tables
        for buffer in (rows, labels, epoch_table, first, coefficients, fine_rows, level_tables):
            if buffer:
                buffer.to_device()

        lookahead = job.lookahead if config.row_format == "float32" \
            else config.effective_lookahead(job.beats)
        for name, value in {
            "ROWS": job.n_rows, "BEATS_PER_ROW": job.beats,
            "LAST_LANES": job.n_features - (job.beats - 1) * config.lanes,
            "EPOCHS": len(job.epochs), "BATCH": job.batch, "LABEL_FORMAT": job.label_format,
            "LABEL_SHIFT": job.label_shift, "INTERCEPT_LEVEL": job.intercept_level,
            "LOOKAHEAD": lookahead, "LOOKAHEAD_MARGIN":
            job.cell_half_levels * lookahead * job.n_features * config.level_limit,
            "CORRECTION_PERIOD": job.correction_period, "WARM_START": warm,
            "COPIES": len(job.rows), "LOSS": job.loss, "PROXIMAL_PERIOD": job.proximal_period,
            "BOX_LIMIT": job.box_limit, "CELL_HALF_LEVELS": job.cell_half_levels,
        }.items():
            self.write(name, value)
        for name, value in {
            "ROWS_ADDRESS": rows.address, "COPY_STRIDE": job.rows[0].nbytes,
            "LABELS_ADDRESS": labels.address, "EPOCH_TABLE_ADDRESS": epoch_table.address,
            "MODEL_IN_ADDRESS": first.address if first else 0,
            "COEFFICIENTS_ADDRESS": coefficients.address if coefficients else 0,
            "FINE_ADDRESS": fine_rows.address if fine_rows else 0,
            "LEVEL_TABLES_ADDRESS": level_tables.address if level_tables else 0,
            "MODEL_OUT_ADDRESS": self.models.address, "MODEL_OUT_STRIDE": self.layout.n_bytes,
        }.items():
            self.write_pair(name, value)

    def _buffer(self, name, n_bytes, alignment=AUX_BYTES) -> Buffer:
        buffer = self.buffers[name] = self.device.allocate(n_bytes)
        self.stack.callback(buffer.free)
        if buffer.address % alignment or buffer.array.size < n_bytes:
            raise DeviceError(
                f"Device '{self.device.name}' gave {buffer.array.size} bytes at address "
                f"0x{buffer.address:x} where {n_bytes} bytes aligned to {alignment} are needed")
        return buffer


class _Progress:
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
                models, intercepts = self.run.words(epochs_done - 1, epochs_done)
                self.on_words(0, models[0, :self.run.job.n_features], int(intercepts[0]))
            self.changed = time.monotonic()     # what was called may have taken long
        return self.finished or self.idle_s > self.timeout_s
