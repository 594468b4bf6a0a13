"""Simulated boards for tests: small memories, and registers or endings that a test changes."""

import contextlib

import numpy as np

from bitstep.golden.sgd import train
from bitstep.pipeline.registers import OFFSETS, Overflow
from bitstep_sim.board.device import SimDevice
from bitstep_sim.testing.changed_device import ChangedDevice

MIB = 1 << 20


class TestedDevice(ChangedDevice):
    """A simulated board between driver and test.

    Parameters
    ----------
    device : SimDevice
    during : callable, optional
        Called once, ``cycles`` after the start.
    cycles : int
        See ``during``.
    **changes
        See :class:`ChangedDevice`.
    """

    __test__ = False

    def __init__(self, device, *, during=None, cycles=0, **changes):
        super().__init__(device, **changes)
        self.during, self.cycles = during, cycles

    def get(self, name):
        """A register, or the pair of registers of this name."""
        if name in OFFSETS:
            return self.device.read(OFFSETS[name])
        return self.get(f"{name}_LO") | self.get(f"{name}_HI") << 32

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
    assert all(epoch.overflow == Overflow(0) for epoch in expected), "a badly chosen job"
    result = device.train(job)
    compare(result, expected)
    rows = len(job.epochs) * job.n_rows
    assert result.counters["beats"] == rows * job.beats
    assert result.counters["refetched_rows"] == sum(epoch.refetched_rows for epoch in expected)
    return result


def lookahead_registers(job, lookahead):
    """Registers that a run with another look-ahead needs; the result is the same."""
    return {"LOOKAHEAD": lookahead,
            "LOOKAHEAD_MARGIN": job.cell_half_levels * lookahead * job.n_features
            * job.config.rows.level_limit}


def compare(result, expected):
    """Every epoch's model and intercept must be as expected."""
    assert result.epochs_done == len(expected)
    for model, intercept, epoch in zip(result.models, result.intercepts, expected, strict=True):
        np.testing.assert_array_equal(model, epoch.model)
        assert intercept == epoch.intercept
