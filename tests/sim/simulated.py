"""Simulated boards for tests: small memories, and registers or endings that a test changes."""

import contextlib

import numpy as np

from bitstep.devices.register_device import ForwardingDevice
from bitstep.golden.sgd import train
from bitstep.pipeline.registers import OFFSETS, Control, Saturation
from bitstep_sim.board.device import SimDevice

MIB = 1 << 20
_NAMES = {offset: name for name, offset in OFFSETS.items()}


class TestedDevice(ForwardingDevice):
    """A simulated board between driver and test.

    Parameters
    ----------
    device : SimDevice
    registers : dict of str to int
        Values that replace what the driver writes to these registers.
    on_start : callable, optional
        Called with the dictionary of all registers when a run is about to start.
    during : callable, optional
        Called once, ``cycles`` after the start.
    cycles : int
        See ``during``.
    """

    __test__ = False

    def __init__(self, device, *, registers=None, on_start=None, during=None, cycles=0):
        super().__init__(device)
        self.registers = registers or {}
        self.on_start, self.during, self.cycles = on_start, during, cycles
        self.written = {}

    def get(self, name):
        """A register, or the pair of registers of this name."""
        if name in OFFSETS:
            return self.device.read(OFFSETS[name])
        return self.get(f"{name}_LO") | self.get(f"{name}_HI") << 32

    def write(self, offset, value):
        """Write a register, changed if the test wants that."""
        name = _NAMES[offset]
        value = self.registers.get(name, value)
        self.written[name] = value
        if name == "CONTROL" and value == Control.START and self.on_start is not None:
            self.on_start(self.written)
        self.device.write(offset, value)

    def wait(self, done, timeout_s):
        """As the board's, with the test's action at its cycle."""
        if self.during is not None:
            action, self.during = self.during, None
            self.device.board.run(self.cycles)
            action()
        return self.device.wait(done, timeout_s)


@contextlib.contextmanager
def open_board(config, **options):
    """A simulated board with a small memory, closed at the end."""
    device = SimDevice(config, memory_bytes=8 * MIB, **options)
    try:
        yield device
    finally:
        device.close()


def check_against_golden(device, job):
    """Run a job that stays in range; every epoch's model must be golden's. Returns the result."""
    expected = list(train(job))
    assert all(epoch.saturation == Saturation(0) for epoch in expected), "a badly chosen job"
    result = device.train(job)
    compare(result, expected)
    rows = len(job.epochs) * job.n_rows
    assert result.counters["beats"] == rows * job.beats
    assert result.counters["refetched_rows"] == sum(epoch.refetched_rows for epoch in expected)
    return result


def lookahead_registers(job, lookahead):
    """Registers that a run with another look-ahead needs; the result is the same."""
    return {"LOOKAHEAD": lookahead,
            "REFETCH_SLACK": job.refetch_cell * lookahead * job.n_features
            * job.config.level_limit}


def compare(result, expected):
    """Every epoch's model and intercept must be as expected."""
    assert result.epochs_done == len(expected)
    for model, intercept, epoch in zip(result.models, result.intercepts, expected, strict=True):
        np.testing.assert_array_equal(model, epoch.model)
        assert intercept == epoch.intercept
