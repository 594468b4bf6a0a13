"""Simulated boards for tests: small memories, and registers or endings that a test changes."""

import contextlib
from collections import OrderedDict

import numpy as np

from bitstep.cycles import Memory, count_epochs
from bitstep.devices.cpu.device import CpuDevice
from bitstep.golden.sgd import train
from bitstep.pipeline.registers import OFFSETS, Overflow
from bitstep.pipeline.results import RangeOverflowError, RunResult
from bitstep_sim.board.device import SimDevice
from bitstep_sim.testing.changed_device import ChangedDevice

MIB = 1 << 20
KEPT = 64               # jobs whose golden models are kept
_golden: OrderedDict = OrderedDict()


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


def golden(job):
    """Epochs of the golden model. It is asked for the same job twice and more: whether the job
    stays in its range, and then what the board must give.
    """
    if id(job) not in _golden:
        _golden[id(job)] = job, tuple(train(job))       # a job that is kept has its id alone
        if len(_golden) > KEPT:
            _golden.popitem(last=False)
    _golden.move_to_end(id(job))
    return _golden[id(job)][1]


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
    expected = golden(job)
    assert all(epoch.overflow == Overflow(0) for epoch in expected), "a badly chosen job"
    result = device.train(job)
    compare(result, expected)
    rows = len(job.epochs) * job.n_rows
    assert result.counters["beats"] == rows * job.beats
    assert result.counters["refetched_rows"] == sum(epoch.refetched_rows for epoch in expected)
    return result


def check_models(board, jobs, *, memory=None, lookahead=None):
    """Train jobs that stay in range, one or more, in as many runs as the pipeline needs, on a board
    that may have been used before: models of golden, counters of the cycle model. Returns the
    results.

    Parameters
    ----------
    board : SimDevice
    jobs : sequence of TrainingJob
    memory : Memory, optional
        Of the cycle model.
    lookahead : int, optional
        That the run asks for, of a single job.
    """
    expected = [golden(job) for job in jobs]
    assert not any(epoch.overflow for epochs in expected for epoch in epochs), "badly chosen jobs"
    changes = {} if lookahead is None else lookahead_registers(jobs[0], lookahead)
    device = TestedDevice(board, registers=changes) if changes else board
    results = []
    for outcome, epochs in zip(
            device.train_models(jobs) if len(jobs) > 1 else [device.train(jobs[0])], expected,
            strict=True):
        assert isinstance(outcome, RunResult)
        compare(outcome, epochs)
        results.append(outcome)
    models = board.config.models
    for first in range(0, len(jobs), models):
        counted, _ = count_epochs(jobs[first], memory or Memory(), config=board.config,
                                  lookahead=lookahead, others=jobs[first + 1:first + models])
        assert results[first].counters == counted
        assert not any(value for result in results[first + 1:first + models]
                       for value in result.counters.values())
    return results


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


def check_ranges(board, jobs):
    """Train models of which some leave their range: each as device ``cpu`` does."""
    found = board.train_models(jobs)
    expected = CpuDevice(board.config).train_models(jobs)
    for mine, other in zip(found, expected, strict=True):
        if isinstance(mine, RangeOverflowError):
            assert isinstance(other, RangeOverflowError)
            assert mine.overflow & other.overflow == other.overflow
            assert mine.epoch == other.epoch
        mine, other = (getattr(outcome, "result", outcome) for outcome in (mine, other))
        assert np.array_equal(mine.models, other.models)
        assert np.array_equal(mine.intercepts, other.intercepts)
    assert any(isinstance(outcome, RangeOverflowError) for outcome in found)
