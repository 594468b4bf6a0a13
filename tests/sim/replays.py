"""Jobs that stay on a simulated board and run there again and again, whole or cut off."""

from dataclasses import dataclass

import numpy as np

from bitstep.devices.register_device import ForwardingDevice
from bitstep.golden.gradient import gradient
from bitstep.golden.sgd import train
from bitstep.pipeline.job import TrainingJob
from bitstep.pipeline.memory import ModelLayout
from bitstep.pipeline.registers import COUNTERS, OFFSETS, Control, Error, Overflow, Status
from bitstep.pipeline.results import DeviceError
from bitstep_sim.board.compiled import BASE
from bitstep_sim.board.device import POISON

LIMIT = 200_000         # cycles of a run
# What a run leaves in registers; counters of so few cycles have no upper half.
RESULTS = ("STATUS", "ERROR", "OVERFLOW", "EPOCHS_DONE",
           *(f"{name}_LO" for name, _ in COUNTERS))
_OFFSETS = [OFFSETS[name] for name in RESULTS]


class _KeptBuffer:
    """A buffer that outlives the driver's run."""

    def __init__(self, buffer):
        self.buffer = buffer

    def __getattr__(self, name):
        return getattr(self.buffer, name)

    def free(self):
        """Do nothing."""


class Recorder(ForwardingDevice):
    """A board whose driver writes registers that are only recorded, and whose runs are done at
    once.
    """

    def __init__(self, device):
        super().__init__(device)
        self.writes = {}

    def allocate(self, n_bytes):
        return _KeptBuffer(self.device.allocate(n_bytes))

    def write(self, offset, value):
        self.writes[offset] = value & 0xFFFF_FFFF

    def read(self, offset):
        if offset == OFFSETS["STATUS"]:
            return int(Status.DONE)
        if offset == OFFSETS["EPOCHS_DONE"]:
            return self.writes[OFFSETS["EPOCHS"]]
        return self.device.read(offset)

    def wait(self, done, timeout_s):
        return done()


@dataclass(frozen=True)
class FullPass:
    """A run over bit-plane rows that sums their gradient, or with ``planes`` writes derivatives."""

    job: TrainingJob
    planes: int = 0

    @property
    def written(self):
        """What the run writes, as golden has it; uint8 of shape (1, bytes)."""
        found, job = gradient(self.job, self.planes), self.job
        assert found.overflow == Overflow(0), "a badly chosen job"
        if found.derivatives is not None:
            return found.derivatives[None]
        sums = job.model - found.words, np.int64(job.intercept) - found.intercept
        layout = ModelLayout(job.config, job.n_features)
        # The halves of 64 bits, both signed.
        low = [part << 32 >> 32 for part in sums]
        high = [part - half >> 32 for part, half in zip(sums, low, strict=True)]
        return np.concatenate([layout.pack(words.astype(np.int32), int(intercept))
                               for words, intercept in (low, high)])[None]

    def run(self, device):
        """Let a device run it, last."""
        device.gradient(self.job, derivative_planes=self.planes)


@dataclass(frozen=True)
class Training:
    """A run that trains a model for each of its jobs."""

    jobs: tuple[TrainingJob, ...]

    @property
    def job(self):
        """The first job, whose epochs are those of the run."""
        return self.jobs[0]

    @property
    def written(self):
        """Every epoch's models as they must be in memory, padding included; uint8 of shape
        (epochs, bytes).
        """
        models = []
        for job in self.jobs:
            epochs, layout = list(train(job)), ModelLayout(job.config, job.n_features)
            assert all(epoch.overflow == Overflow(0) for epoch in epochs), "a badly chosen job"
            models.append([layout.pack(epoch.model, epoch.intercept) for epoch in epochs])
        return np.concatenate(models, axis=1)

    def run(self, device):
        """Let a device run it."""
        device.train_models(list(self.jobs))


class Replay:
    """A run whose buffers stay on a board.

    Parameters
    ----------
    device : SimDevice
    run : Training or FullPass
        Must stay in range.
    expected : ndarray
        What it writes, the ``written`` of the run.
    """

    def __init__(self, device, run, expected):
        self.board, self.job = device.board, run.job
        recorder = Recorder(device)
        run.run(recorder)
        writes = recorder.writes
        assert writes.pop(OFFSETS["CONTROL"]) == Control.START
        self.writes = [*writes.items(), (OFFSETS["CONTROL"], int(Control.START))]
        self.expected = expected
        start = writes[OFFSETS["MODEL_OUT_ADDRESS_LO"]] - BASE
        self.models = self.board.memory[start:start + expected.size].reshape(expected.shape)

    def start(self):
        """Begin a run, in memory that nobody has written a model to."""
        self.models[:] = POISON
        self.board.restart_timing()
        self.board.write_all(self.writes)

    def finish(self):
        """Let the run come to its end; returns the values of ``RESULTS`` by name. Finished epochs
        must be golden's, the one after them may be written in part, no other is.
        """
        if not self.board.interrupt and self.board.run(LIMIT) == LIMIT:
            raise DeviceError(f"The run did not end within {LIMIT} cycles")
        results = dict(zip(RESULTS, self.board.read_all(_OFFSETS), strict=True))
        done = results["EPOCHS_DONE"]
        assert (self.models[:done] == self.expected[:done]).all(), "a finished epoch is wrong"
        assert (self.models[done + 1:] == POISON).all(), "an epoch that is not begun is written"
        return results

    def run(self):
        """A whole run: values of ``RESULTS`` by name."""
        self.start()
        results = self.finish()
        assert results["ERROR"] == Error.NONE
        assert results["EPOCHS_DONE"] == len(self.job.epochs)
        return results
