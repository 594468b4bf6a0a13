"""Jobs that stay on a simulated board and run there again and again, whole or cut off."""

import numpy as np

from bitstep.devices.register_device import ForwardingDevice
from bitstep.golden.sgd import train
from bitstep.pipeline.memory import ModelLayout
from bitstep.pipeline.registers import COUNTERS, OFFSETS, Control, Error, Saturation, Status
from bitstep.pipeline.results import DeviceError
from bitstep_sim.board.compiled import BASE
from bitstep_sim.board.device import POISON

LIMIT = 200_000         # cycles of a run
# What a run leaves in registers; counters of so few cycles have no upper half.
RESULTS = ("STATUS", "ERROR", "SATURATION", "EPOCHS_DONE",
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


def golden_models(job):
    """Every epoch's model as it must be in memory, padding included; uint8 of shape (epochs,
    bytes).
    """
    epochs, layout = list(train(job)), ModelLayout(job.config, job.n_features)
    assert all(epoch.saturation == Saturation(0) for epoch in epochs), "a badly chosen job"
    return np.array([layout.pack(epoch.model, epoch.intercept) for epoch in epochs])


class Replay:
    """A job whose buffers stay on a board.

    Parameters
    ----------
    device : SimDevice
    job : TrainingJob
        Must stay in range.
    expected : ndarray
        What :func:`golden_models` gives.
    """

    def __init__(self, device, job, expected):
        self.board, self.job = device.board, job
        recorder = Recorder(device)
        recorder.train(job)
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
