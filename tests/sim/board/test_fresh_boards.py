"""A board on which a run was cut off is as good as a new one: at every cycle, and for every answer
of the memory that may be an error.
"""

import itertools
import os
import random
from contextlib import contextmanager

import pytest
from drawn_jobs import CONFIGS, FLOAT, LARGE, LOGISTIC, REFETCH, TABLES
from replays import Replay, golden_models
from simulated import open_board

from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.registers import OFFSETS, Control, Error, LabelFormat, Loss, Status
from bitstep.pipeline.results import DeviceError
from bitstep_sim.board.compiled import DECERR, PORTS, SLVERR
from bitstep_sim.testing.random_jobs import random_job

FAST_REFETCH = PipelineConfig(bits=4, max_features=60, lookahead=2, refetch=True, proximal=True,
                              cycles_per_update=4)
FAST_FLOAT = PipelineConfig(bits=32, row_format="float32", max_features=6, lookahead=2,
                            cycles_per_update=4)
ALL = [*CONFIGS, REFETCH, FLOAT, LOGISTIC, FAST_REFETCH, FAST_FLOAT, *TABLES]
MEMORIES = {"near": {"memory_latency": 9},
            "far": {"memory_latency": 300, "stall_probability": 0.2, "stall_seed": 3}}
ERRORS = {"rows": Error.ROW_READ, "aux_read": Error.AUX_READ, "aux_write": Error.MODEL_WRITE,
          "fine": Error.ROW_READ}


def short_job(config, *, beats, n_rows, period=0, batch=1, steps=0, **options):
    """A job of a few hundred cycles that uses what the pipeline has."""
    loss, cell, beats = Loss.LEAST_SQUARES, 0, min(beats, config.max_beats)
    if config.solver == "logistic":
        loss = Loss.LOGISTIC
    if config.refetch:
        loss, cell, batch = Loss.HINGE, 2, 1
    batch = batch if config.minibatch else 1
    lookahead = config.effective_lookahead(beats)
    if config.row_format == "float32" and period:     # there a period is longer than the look-ahead
        period = max(period, lookahead // batch + 1)
    return random_job(
        config, n_features=min(config.capacity, beats * config.lanes - 1), n_rows=n_rows,
        batch=batch, correction_period=batch * period * config.corrections,
        proximal_period=batch * steps * config.proximal, loss=loss, cell_half_levels=cell,
        **options)


def short_jobs(config, beats=2):
    """A job to be cut off, and two to follow: a warm one with corrections, and another."""
    cut_off = short_job(config, beats=beats, n_rows=11, period=2, batch=2, steps=3, epochs=2,
                        warm=True, copies=2, seed=1)
    warm = short_job(config, beats=beats + 1, n_rows=9, period=3, steps=4, epochs=1, warm=True,
                     seed=2)
    cold = short_job(config, beats=1, n_rows=8, batch=3, epochs=2, seed=3, intercept=False,
                     label_format=LabelFormat.SIGN)
    return cut_off, warm, cold


@contextmanager
def named(place):
    """Say in an error where in a sweep it was."""
    try:
        yield
    except (AssertionError, DeviceError) as error:
        raise AssertionError(f"{place}: {error}") from error


class Sweep:
    """A board for runs that are cut off, each followed by one that must be as on a new board.

    Parameters
    ----------
    config : PipelineConfig
    memory : str
        One of ``MEMORIES``.
    jobs : sequence of TrainingJob
        The one to be cut off, and those that follow in turn.
    """

    def __init__(self, config, memory, jobs):
        self.config, self.memory, self.jobs = config, MEMORIES[memory], jobs
        self.expected = [golden_models(job) for job in jobs]
        self.points = 0
        # The first run of a new board, for each of the jobs.
        self.fresh = [self._fresh(number) for number in range(len(jobs))]
        self.length = self.fresh[0]["CYCLES_LO"]
        self.next = itertools.cycle(range(1, len(jobs)))

    def _fresh(self, number):
        with open_board(self.config, **self.memory) as device:
            return self._replays(device)[number].run()

    def _replays(self, device):
        return [Replay(device, job, models)
                for job, models in zip(self.jobs, self.expected, strict=True)]

    def __enter__(self):
        self._board = open_board(self.config, **self.memory)
        device = self._board.__enter__()
        self.board = device.board
        self.first, *_ = self.replays = self._replays(device)
        return self

    def __exit__(self, *reason):
        return self._board.__exit__(*reason)

    def _check(self, error, place):
        """The run that was cut off ends with ``error``, and the next one knows nothing of it.
        Whether it was cut off at all.
        """
        self.points += 1
        with named(place):
            results = self.first.finish()
            was_cut_off = results["STATUS"] == Status.DONE | Status.FAILED
            if was_cut_off:
                assert results["ERROR"] == error
            else:
                assert results == self.fresh[0]
        for port in PORTS:
            self.board.set_fault(port, 0, SLVERR)       # that did not come
        number = next(self.next)
        with named(f"{place}, then job {number}"):
            assert self.replays[number].run() == self.fresh[number], "not as on a new board"
        return was_cut_off

    def abort(self, cycles):
        """Abort after each of these numbers of cycles."""
        for cycle in cycles:
            self.first.start()
            self.board.run(cycle)
            self.board.write(OFFSETS["CONTROL"], Control.ABORT)
            self._check(Error.ABORTED, f"abort after {cycle} cycles")

    def time_out(self, cycles, frozen=150):
        """Let the memory do nothing after each of these numbers of cycles, then abort."""
        for cycle in cycles:
            self.first.start()
            self.board.run(cycle)
            self.board.freeze(frozen)
            self.board.run(frozen // 2)
            self.board.write(OFFSETS["CONTROL"], Control.ABORT)
            self._check(Error.ABORTED, f"frozen after {cycle} cycles")

    def fail(self, port, response):
        """Let every answer of a port be an error once."""
        for number in itertools.count(1):
            self.board.set_fault(port, number, response)
            self.first.start()
            if not self._check(ERRORS[port], f"response {response} to {number} of {port}"):
                break
        assert number > 1, f"port {port} is not used"


def cycles_of(sweep, stride):
    """Every ``stride``-th cycle of the run and some beyond it, from one that differs in every
    session (tests/conftest.py).
    """
    first = random.Random(f"{os.environ['BITSTEP_TEST_SEED']} {sweep.config.name}")
    return range(first.randrange(stride), sweep.length + 20, stride)


def stride_of(config, memory):
    """Cycles between two ends that CI tries. Runs with a far memory are long, and mostly waiting:
    pipelines with many lanes, which take long to simulate, leave some of them to ``-m slow``.
    """
    return 1 if memory == "near" or config.lanes * (config.lookahead + 1) < 120 else 3


every_config = pytest.mark.parametrize("config", ALL, ids=lambda config: config.name)
every_memory = pytest.mark.parametrize("memory", MEMORIES)


@every_memory
@every_config
def test_abort(config, memory):
    with Sweep(config, memory, short_jobs(config)) as sweep:
        sweep.abort(cycles_of(sweep, stride_of(config, memory)))


@every_memory
@every_config
def test_abort_while_the_memory_does_nothing(config, memory):
    """As a driver does whose run makes no progress."""
    with Sweep(config, memory, short_jobs(config)) as sweep:
        sweep.time_out(cycles_of(sweep, 4 * stride_of(config, memory)))


@every_memory
@every_config
def test_every_answer_is_an_error_once(config, memory):
    with Sweep(config, memory, short_jobs(config)) as sweep:
        for port in PORTS if config.refetch else PORTS[:3]:
            for response in (SLVERR, DECERR):
                sweep.fail(port, response)


@pytest.mark.parametrize("memory, stride", [("near", 5), ("far", 11)])
def test_abort_with_hundreds_of_features(memory, stride):
    """With a fast clock and corrections, where the walk of an engine may be cut off anywhere."""
    with Sweep(LARGE, memory, short_jobs(LARGE, beats=40)) as sweep:
        sweep.abort(cycles_of(sweep, stride))


@pytest.mark.slow
@every_memory
@pytest.mark.parametrize("beats", [1, 3])
@every_config
def test_more_aborts(config, beats, memory):
    """Every cycle, with rows of other lengths."""
    with Sweep(config, memory, short_jobs(config, beats)) as sweep:
        sweep.abort(cycles_of(sweep, 1))
        sweep.time_out(cycles_of(sweep, 1))


@pytest.mark.slow
@every_memory
def test_every_cycle_with_hundreds_of_features(memory):
    with Sweep(LARGE, memory, short_jobs(LARGE, beats=40)) as sweep:
        sweep.abort(cycles_of(sweep, 1))
        sweep.time_out(cycles_of(sweep, 1))
        for port in PORTS[:3]:
            sweep.fail(port, DECERR)


@pytest.mark.parametrize("name, value, message", [
    ("INTERCEPT_LEVEL", 1, "abort after 10. cycles, then job .: a finished epoch is wrong"),
    ("LOOKAHEAD", 0, "abort after 10. cycles, then job .: not as on a new board")])
def test_a_sweep_finds_what_differs(name, value, message):
    """In the model, or in the counters alone: another look-ahead gives the same model."""
    with Sweep(LARGE, "near", short_jobs(LARGE)) as sweep:
        sweep.abort([100, 101])
        for replay in sweep.replays[1:]:
            replay.writes.insert(-1, (OFFSETS[name], value))
        with pytest.raises(AssertionError, match=message):
            sweep.abort([100, 101])
