"""A run of a training job through registers: transfers, bounded waits, errors."""

import contextlib
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bitstep.checks import check_timeout
from bitstep.devices import joint_runs
from bitstep.devices.base import Buffer, KeptRows, RegisterAccess, labels_buffer
from bitstep.devices.progress import RunProgress
from bitstep.pipeline.device import Run
from bitstep.pipeline.job import TrainingJob
from bitstep.pipeline.memory import ModelLayout, pack_packed, place_rows, port_stride
from bitstep.pipeline.registers import (
    MAP_VERSION,
    OFFSETS,
    PAGE_BYTES,
    Control,
    Error,
    Overflow,
    Status,
)
from bitstep.pipeline.results import (
    COUNTER_NAMES,
    BadConfigurationError,
    DeviceError,
    RangeOverflowError,
    RunTimeoutError,
    collect,
    run_error,
)

ABORT_TIMEOUT_S = 5.0       # an abort drains what is outstanding on the buses: microseconds
AUX_BYTES = 8               # beat of the bus that carries labels, tables and models


def read_identity(read: Callable[[int], int]) -> int:
    """The number in the IDENTITY registers; ``read`` reads the register at an offset."""
    return sum(int(read(OFFSETS[f"IDENTITY_{part}"])) << 32 * part for part in range(4))


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
    identity = read_identity(device.read)
    if identity != device.identity:
        raise DeviceError(f"Device '{device.name}' identifies itself as {identity:032x}, not "
                          f"{device.identity:032x}: another bitstream is loaded, load the one for "
                          f"{device.config.name}")


class RegisterRun(Run):
    """One job, or several side by side, on one device of the register protocol.

    Parameters
    ----------
    device : RegisterDevice
    jobs : sequence of TrainingJob
        One, or jobs of the same run (:func:`bitstep.devices.joint_runs.same_run`).
    timeout_s, to_the_end
        See :meth:`bitstep.pipeline.device.Device.begin`.

    Attributes
    ----------
    buffers : dict of str to Buffer
        What was allocated.
    layout : ModelLayout
    """

    registers = {"GRADIENT": 0, "DERIVATIVES": 0}   # others: GradientRun, DerivativeRun

    def __init__(self, device: Any, jobs: Sequence[TrainingJob], timeout_s: float = 60.0, *,
                 to_the_end: bool = True):
        check_timeout(timeout_s)
        self.device, self.job, self.timeout_s = device, jobs[0], timeout_s
        self.jobs, self.to_the_end = list(jobs), to_the_end
        self.layout = ModelLayout(device.config, self.job.n_features)
        self.rows = [pack_packed(copy, device.config) for copy in self.job.rows] \
            if device.config.packed else self.job.rows
        self.flags_models = device.config.models > 1    # which a model's last word holds
        self.overflowed, self.overflow, self._told = False, 0, 0
        self.over, self._running, self._gone = False, False, False
        self._begun = False     # START has arrived: what the registers tell is of this run
        self._started_at: tuple[int, int] | None = None
        self.buffers: dict[str, Buffer] = {}
        self.stack = contextlib.ExitStack()     # frees the buffers, then gives the registers back
        device.turns.take(self, device.name)
        mine, turns = weakref.ref(self), device.turns
        self.stack.callback(lambda: (run := mine()) and turns.release(run))
        self.kept: KeptRows | None = device.kept_rows
        with self.stack:
            self._stop_previous()
            turns.free_lost()
            self._load()
            self.stack = self.stack.pop_all()
        turns.keep(self, self.stack)

    def close(self):
        """Stop the pipeline if it still runs, and free the buffers. Where it does not stop, it may
        go on writing to them: they are freed after a later run has stopped it.
        """
        stopped = False
        try:
            stopped = self._stop()
        finally:
            stack = self.stack.pop_all()
            if stopped:
                stack.close()
            else:
                self.device.turns.leave(self, stack)

    def _stop(self):
        """True if the pipeline does not run this any more."""
        if not self._running or not self.device.turns.has(self):
            return True         # who has the registers since has stopped it
        with contextlib.suppress(DeviceError):
            return self.abort()
        return False

    def start(self) -> None:
        """Start what the registers say. What they tell was of the run before until then."""
        self.write("CONTROL", Control.START)
        self._begun = True

    def finish(self, on_epoch=None):
        """See :meth:`bitstep.pipeline.device.Run.finish`."""
        try:
            return super().finish(on_epoch)
        finally:
            self.over = True

    def epochs(self):
        """See :meth:`bitstep.pipeline.device.Run.epochs`."""
        progress, count = RunProgress(self, self.timeout_s), len(self.job.epochs)
        self._running, self._started_at = True, None
        self.start()

        def look():
            if self._started_at is None:            # locked from the start on
                self._started_at = self._place()
            return progress.look()

        while not progress.finished:
            self.device.wait(look, self.timeout_s)
            if progress.lost:
                raise self._lost(progress.lost)
            for done in progress.show():
                yield done * len(self.jobs)
            if not progress.finished and progress.idle_s > self.timeout_s:
                raise self._timeout(progress)
        self._running = False
        # A serial line takes a while for these, in which Ctrl-C must lose nothing either.
        status, error, self.overflow = map(self.read, ("STATUS", "ERROR", "OVERFLOW"))
        done = self.epochs_done()
        self._check_place()
        self.overflowed = error == Error.OVERFLOW
        if self.overflowed:
            return
        # ROWS is written first, so a reset before the start leaves it at 0.
        if error == Error.BAD_CONFIGURATION and not self.read("ROWS"):
            raise BadConfigurationError(str(self._lost("ROWS says 0 after it was written")),
                                        self.result())
        if status & Status.FAILED or error != Error.NONE:
            raise run_error(error, self.overflow, self.result(), count)
        if done != count:
            raise DeviceError(f"Device '{self.device.name}' reports the end of the run after "
                              f"{done} of {count} epochs, without an error: it does not follow "
                              "the protocol")

    def read(self, name):
        """Read a 32-bit register."""
        self.device.turns.require(self, self.device.name)
        return self.device.read(OFFSETS[name])

    def read_pair(self, name):
        """Read a 64-bit register that may be counting."""
        while True:
            high, low = self.read(f"{name}_HI"), self.read(f"{name}_LO")
            if self.read(f"{name}_HI") == high:     # no carry between the two reads
                return high << 32 | low

    def write(self, name, value):
        """Write a 32-bit register."""
        self.device.turns.require(self, self.device.name)
        self.device.write(OFFSETS[name], int(value))

    def write_pair(self, name, value):
        """Write a 64-bit register."""
        self.write(f"{name}_LO", value & 0xFFFF_FFFF)
        self.write(f"{name}_HI", value >> 32)

    def epochs_done(self) -> int:
        """Epochs that are finished, at most those of the job."""
        return min(self.read("EPOCHS_DONE"), len(self.job.epochs)) if self._begun else 0

    def counters(self) -> dict[str, int]:
        """Counters as they are now; 0 while they are those of an earlier run."""
        return {name: self.read_pair(name.upper()) if self._begun else 0 for name in COUNTER_NAMES}

    def abort(self):
        """Stop the pipeline; return True if it did within a bounded time."""
        if self._gone:
            return True             # what runs now, if anything, is not ours
        self.write("CONTROL", Control.ABORT)
        stopped = self.device.wait(lambda: not self.read("STATUS") & Status.BUSY, ABORT_TIMEOUT_S)
        self._running &= not stopped
        return stopped

    def _lost(self, text):
        """The error of a run that is no longer on the board."""
        self._gone, self._running = True, False
        return DeviceError(
            f"The run on device '{self.device.name}' is gone ({text}): the board was reset, or "
            "another program uses it. See that this program alone uses the board, and train again")

    def _place(self):
        """Where the run that is in the registers writes models: no two programs have the same."""
        return self.read("MODEL_OUT_ADDRESS_HI"), self.read("MODEL_OUT_ADDRESS_LO")

    def _check_place(self):
        """Raise DeviceError if a reset or another program has replaced the run that was started.
        It is called after registers were read, since they tell of that run only if it was there
        until then.
        """
        if self._started_at is not None and self._place() != self._started_at:
            raise self._lost("the registers are not those that it was started with")

    @property
    def blocks(self) -> int:
        """Blocks as large as a model that an epoch writes."""
        return len(self.jobs)

    @property
    def n_written(self) -> int:
        """Bytes that an epoch writes."""
        return self.blocks * self.layout.n_bytes

    def result(self):
        """Return copies of the first job's models of the finished epochs, and the counters."""
        return self.results()[0]

    def outcomes(self):
        """See :meth:`bitstep.pipeline.device.Run.outcomes`."""
        if not self.flags_models:
            result = self.result()
            found = [RangeOverflowError(Overflow(self.overflow), result) if self.overflowed
                     else result]
        else:
            flags, written = self._flags(), self._written()
            found = [joint_runs.outcome_of(result, written[:, number, -1], flags >> 3 * number & 7)
                     for number, result in enumerate(self._results_in(written))]
        self._check_place()
        return found

    def _flags(self):
        """Three bits for each job that left its range; 0 while they are of an earlier run."""
        if not self._begun:
            return 0
        return self.read("OVERFLOW") | \
            (self.read("OVERFLOW_MORE") << 24 if len(self.jobs) > 8 else 0)

    def words(self):
        """See :meth:`bitstep.pipeline.device.Run.words`; no words of jobs that have left their
        range.
        """
        done = self.epochs_done() if self.device.shows_models else 0
        if done <= self._told:
            return
        self._told = done
        written = self._written()[done - 1]
        models, intercepts = self.layout.unpack(written)
        for number, (model, intercept) in enumerate(zip(models, intercepts.tolist(), strict=True)):
            # With several jobs a model's last word holds the flags of what left its range.
            if len(self.jobs) == 1 or not written[number, -1]:
                yield number, model[:self.job.n_features], intercept

    def _written(self):
        """Words of the finished epochs, of shape (epochs, jobs, words); no copy."""
        done, count = self.epochs_done(), self.blocks
        self.models.from_device()
        words = self.models.array[:done * count * self.layout.n_bytes].view("<i4")
        return words.reshape(done, count, self.layout.n_words)

    def results(self):
        """Copies of each job's models, and counters: those of the run with the first job."""
        return self._results_in(self._written())

    def _results_in(self, written):
        counters, results = self.counters(), []
        for words in written.swapaxes(0, 1):
            models, intercepts = self.layout.unpack(words)
            results.append(collect(list(models), list(intercepts), self.job.n_features, counters))
            counters = dict.fromkeys(counters, 0)
        return results

    def _stop_previous(self):
        """End a run that an earlier program left behind: it would write to memory that we reuse."""
        if self.read("STATUS") & Status.BUSY and not self.abort():
            raise DeviceError(f"Device '{self.device.name}' is busy with another run and did not "
                              f"stop within {ABORT_TIMEOUT_S:g} s: reset it")

    def _timeout(self, progress):
        """Abort a run that makes no progress; the error."""
        self._check_place()
        idle_s, status = progress.idle_s, self.read("STATUS")
        done = self.read("EPOCHS_DONE")
        stopped = self.abort()
        return RunTimeoutError(
            f"Device '{self.device.name}' made no progress for {idle_s:.1f} s "
            f"(STATUS 0x{status:08x}, {done} of {len(self.job.epochs)} epochs done, "
            f"{self.read_pair('BEATS')} row beats read); the run was "
            + ("aborted" if stopped else "told to abort but did not: reset the device"),
            self.result())

    def _load(self):
        """Allocate, check and fill every buffer, then write the registers."""
        job, config = self.job, self.device.config
        rows = self._rows()
        stored_labels, shared = joint_runs.stored_labels_of(self.jobs, config)
        labels = labels_buffer(self.kept, stored_labels, self._buffer)
        epoch_table = self._buffer("epoch table", 16 * len(job.epochs) * len(self.jobs))
        n_bytes = self.blocks * self.layout.n_bytes         # of the first models
        self.models = self._buffer("models", len(job.epochs) * self.n_written)
        warm = any(one.model.any() or one.intercept for one in self.jobs)
        first = self._buffer("first model", n_bytes) if warm else None
        coefficients = self._buffer("coefficients", n_bytes << int(config.stages.has_constants)) \
            if job.correction_period else None
        codebooks = self._filled("codebooks", None if job.codebooks is None
                                 else self.layout.pack_codebooks(job.codebooks))
        fine_rows = self._filled("fine rows", self.layout.pack_fine(job.fine_rows)
                                 if job.cell_half_levels and job.fine_rows is not None else None)

        table = joint_runs.table_of(self.jobs, config).view(np.uint8)
        epoch_table.array[:table.size] = table
        self._fill_models(first, coefficients)
        for buffer in (epoch_table, first, coefficients, fine_rows, codebooks):
            if buffer:
                buffer.to_device()

        lookahead = config.ahead.of_job(job)
        for name, value in {
            "ROWS": job.n_rows, "BEATS_PER_ROW": job.beats,
            "LAST_LANES": job.n_features - (job.beats - 1) * config.rows.lanes,
            "EPOCHS": len(job.epochs), "BATCH": job.batch, "LABEL_FORMAT": job.label_format,
            "LABEL_SHIFT": job.label_shift, "INTERCEPT_LEVEL": job.intercept_level,
            "LOOKAHEAD": lookahead, "LOOKAHEAD_MARGIN":
            job.cell_half_levels * lookahead * job.n_features * config.rows.level_limit,
            "CORRECTION_PERIOD": job.correction_period, "WARM_START": warm,
            "COPIES": len(job.rows), "LOSS": job.loss,
            "DERIVATIVE_BOUND": job.derivative_bound, "PROXIMAL_PERIOD": job.proximal_period,
            "BOX_LIMIT": job.box_limit, "CELL_HALF_LEVELS": job.cell_half_levels,
            "PORT_STRIDE": self.port_stride // PAGE_BYTES, **self.registers,
            **joint_runs.option_registers(self.jobs, shared, self.to_the_end),
        }.items():
            self.write(name, value)
        for name, value in {
            "ROWS_ADDRESS": rows.address, "COPY_STRIDE": self.rows[0].nbytes,
            "LABELS_ADDRESS": labels.address, "EPOCH_TABLE_ADDRESS": epoch_table.address,
            "MODEL_OUT_ADDRESS": self.models.address, "MODEL_OUT_STRIDE": self.n_written,
            **{name: buffer.address if buffer else 0 for name, buffer in (
                ("MODEL_IN_ADDRESS", first), ("COEFFICIENTS_ADDRESS", coefficients),
                ("FINE_ADDRESS", fine_rows), ("CODEBOOKS_ADDRESS", codebooks))},
        }.items():
            self.write_pair(name, value)

    def _filled(self, name, stored):
        """A buffer with some bytes; None where there are none."""
        if stored is None:
            return None
        buffer = self._buffer(name, stored.size)
        buffer.array[:stored.size] = stored
        return buffer

    def _fill_models(self, first, coefficients):
        """First models, coefficients and constants, into the buffers that there are."""
        size, job = self.layout.n_bytes, self.job
        for place, one in enumerate(self.jobs):
            words = slice(place * size, (place + 1) * size)
            if first:
                first.array[words] = self.layout.pack(one.model, one.intercept)
            if coefficients:
                coefficients.array[words] = self.layout.pack(one.coefficients, 0)
        if coefficients and self.device.config.stages.has_constants:
            constants = np.zeros(job.n_features) if job.constants is None else job.constants
            coefficients.array[size:2 * size] = self.layout.pack(constants, job.constant_intercept)

    def _rows(self):
        """The buffer of the rows, which is filled unless the device has kept it."""
        kept = self.kept
        if kept and (held := kept.held(self.rows)):
            return held
        config, size = self.device.config, sum(copy.nbytes for copy in self.rows)
        size = (config.row_ports - 1) * self.port_stride + size // config.row_ports
        buffer = self._buffer("rows", size, config.rows.beat_bytes, kept)
        place_rows(buffer.array, self.rows, config)
        buffer.to_device()
        if kept is not None:
            kept.keep(self.rows, buffer)
        return buffer

    @property
    def port_stride(self) -> int:
        """Bytes from a slice of the rows to the next."""
        return port_stride(sum(copy.nbytes for copy in self.rows), self.device.config)

    def _buffer(self, name, n_bytes, alignment=AUX_BYTES, kept=None) -> Buffer:
        buffer = self.buffers[name] = self.device.allocate(n_bytes)
        self.stack.callback(lambda: kept.free_unless_kept(buffer) if kept else buffer.free())
        if buffer.address % alignment or buffer.array.size < n_bytes:
            raise DeviceError(
                f"Device '{self.device.name}' gave {buffer.array.size} bytes at address "
                f"0x{buffer.address:x} where {n_bytes} bytes aligned to {alignment} are needed")
        return buffer
