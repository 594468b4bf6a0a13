"""A board on which a run was cut off is as good as a new one: at every cycle, and for every answer
of the memory that may be an error.
"""

import functools
import itertools
import os
import random
from contextlib import contextmanager

import pytest
from bit_plane_runs import FAST as BIT_PLANES
from centred_runs import constants_of, gradient_job
from drawn_jobs import (
    CONFIGS,
    EVERY_CYCLE,
    FAST_FLOAT,
    FAST_REFETCH,
    FAST_WEIGHTED_REFETCH,
    FEW_BITS,
    FLOAT,
    LARGE,
    LOGISTIC,
    PACKED,
    PACKED_WEIGHTS,
    REFETCH,
    SEVERAL,
    TABLES,
    WEIGHTED,
    WEIGHTED_REFETCH,
    WIDE,
    tonight,
)
from replays import FullPass, Replay, Training
from simulated import open_board

from bitstep.pipeline.registers import OFFSETS, Control, Error, LabelFormat, Loss, Status
from bitstep.pipeline.results import DeviceError
from bitstep_sim.board.compiled import DECERR, SLVERR
from bitstep_sim.testing.bit_plane_jobs import random_bit_plane_job
from bitstep_sim.testing.random_jobs import random_job, random_jobs

ALL = [*CONFIGS, *WIDE, REFETCH, FLOAT, LOGISTIC, FAST_REFETCH, FAST_FLOAT, *TABLES, *WEIGHTED,
       *EVERY_CYCLE, WEIGHTED_REFETCH, FAST_WEIGHTED_REFETCH]
MEMORIES = {"near": {"memory_latency": 9},
            "far": {"memory_latency": 300, "stall_probability": 0.2, "stall_seed": 3}}
ERRORS = {"rows": Error.ROW_READ, "rows1": Error.ROW_READ, "rows2": Error.ROW_READ,
          "rows3": Error.ROW_READ, "aux_read": Error.AUX_READ, "aux_write": Error.MODEL_WRITE,
          "fine": Error.ROW_READ}


def short_job(config, *, beats, n_rows, period=0, batch=1, steps=0, **options):
    """A job of a few hundred cycles that uses what the pipeline has."""
    loss, cell, beats = Loss.LEAST_SQUARES, 0, min(beats, config.rows.max_beats)
    if config.loss_family == "logistic":
        loss = Loss.LOGISTIC
    if config.refetch:
        loss, cell, batch = Loss.HINGE, 2, 1
    batch = batch if config.minibatch else 1
    lookahead = config.ahead.of_rows(beats)
    if config.row_format == "float32" and period:     # there a period is longer than the look-ahead
        period = max(period, lookahead // batch + 1)
    return random_job(
        config, n_features=min(config.rows.capacity, beats * config.rows.lanes - 1), n_rows=n_rows,
        batch=batch, correction_period=batch * period * config.corrections,
        proximal_period=batch * steps * config.proximal, loss=loss, cell_half_levels=cell,
        **options)


@functools.cache
def short_jobs(config, beats=2):
    """A run to be cut off, and two to follow: a warm one with corrections, and another. In
    pipelines with weights of rows the other one has none.
    """
    cut_off = short_job(config, beats=beats, n_rows=11, period=2, batch=2, steps=3, epochs=2,
                        warm=True, copies=2, seed=1, weighted=config.row_weights)
    warm = short_job(config, beats=beats + 1, n_rows=9, period=3, steps=4, epochs=1, warm=True,
                     seed=2, weighted=config.row_weights)
    cold = short_job(config, beats=1, n_rows=8, batch=3, epochs=2, seed=3, intercept=False,
                     label_format=LabelFormat.SIGN)
    return tuple(Training((job,)) for job in (cut_off, warm, cold))


def few_bits_jobs():
    """Runs whose batches begin with a walk of 80 cycles for the copy of few bits, twice."""
    options = {"model_bits": 5, "update_bits": 6}
    return [Training((short_job(FEW_BITS, beats=beats, warm=True, n_rows=n_rows, period=2, batch=2,
                                steps=2, seed=seed, **options),))
            for seed, (beats, n_rows) in enumerate([(20, 6), (22, 4), (3, 9)])]


def several_jobs():
    """Runs of four models, of three, and of one whose rows are short."""
    return [Training(tuple(random_jobs(
        SEVERAL, count, n_features=8 * beats - 1, n_rows=n_rows, batch=2, correction_period=4,
        proximal_period=2, warm=True, epochs=2 - number % 2, seed=number,
        label_format=label_format, copies=1 + number % 2)))
        for number, (count, beats, n_rows, label_format) in enumerate([
            (4, 18, 7, LabelFormat.INT16), (3, 19, 6, LabelFormat.INT32),
            (1, 2, 9, LabelFormat.SIGN)])]


def packed_jobs(config):
    """Runs of three models, of two, and of one; in pipelines with weights of rows that of two has
    none.
    """
    return [Training(tuple(random_jobs(
        config, count, n_features=n_features, n_rows=n_rows, batch=batch,
        correction_period=4 * batch, warm=True, epochs=3 - number, seed=number,
        label_format=label_format, copies=1 + number % 2,
        weighted=config.row_weights and number != 1)))
        for number, (count, n_features, n_rows, batch, label_format) in enumerate([
            (3, 3, 41, 2, LabelFormat.INT16), (2, 2, 63, 4, LabelFormat.INT32),
            (1, 3, 17, 1, LabelFormat.SIGN)])]


def bit_plane_jobs(cut_off):
    """Runs of bit planes: trainings with corrections by constants, and the two of a full pass;
    ``cut_off`` comes first.
    """
    shape = {"n_features": 272, "n_rows": 33}
    inner = random_bit_plane_job(BIT_PLANES, planes=(5, 2), correction_period=6, batch=2,
                                 proximal_period=4,
                             copies=2, **shape, **constants_of(272, 1))
    other = random_bit_plane_job(BIT_PLANES, planes=(1,), n_features=67, n_rows=70,
                             label_format=LabelFormat.SIGN, loss=Loss.HINGE)
    full = gradient_job(BIT_PLANES, loss=Loss.SQUARED_HINGE, scale=1e-4, **shape)
    runs = {"training": Training((inner,)), "gradient": FullPass(full),
            "derivatives": FullPass(full, 4), "other": Training((other,))}
    return [runs.pop(cut_off), *runs.values()]


# Of each: pipeline, runs, and cycles between two ends that CI tries. Their walks through a model,
# of 72 cycles and more, outlast the 64 for which a run settles at its end; a training of bit planes
# has so many of them that CI meets half. Those of packed rows do not: their models have at most 33
# words of 64 bits.
LONG = {
    "few-bits": (FEW_BITS, few_bits_jobs, 71),
    "several": (SEVERAL, several_jobs, 101),
    "packed": (PACKED, functools.partial(packed_jobs, PACKED), 3),
    "packed-weights": (PACKED_WEIGHTS, functools.partial(packed_jobs, PACKED_WEIGHTS), 3),
    **{f"bit_planes-{kind}": (BIT_PLANES, functools.partial(bit_plane_jobs, kind), stride)
       for kind, stride in (("training", 142), ("gradient", 17), ("derivatives", 11))},
}


@contextmanager
def named(place):
    """Say in an error where in a sweep it was."""
    try:
        yield
    except (AssertionError, DeviceError) as error:
        raise AssertionError(f"{place}: {error}") from error


KNOWN = {}


class Sweep:
    """A board for runs that are cut off, each followed by one that must be as on a new board.

    Parameters
    ----------
    config : PipelineConfig
    memory : str
        One of ``MEMORIES``.
    runs : sequence of Training or FullPass
        The one to be cut off, and those that follow in turn.
    """

    def __init__(self, config, memory, runs):
        self.config, self.memory, self.runs = config, MEMORIES[memory], runs
        self.points = 0
        # What each run writes, and its results as the first run of a new board. Several sweeps have
        # the same runs, which are kept so that their id stays theirs.
        known = id(runs), memory
        if known not in KNOWN:
            self.expected = [run.written for run in runs]
            KNOWN[known] = runs, self.expected, [
                self._fresh(number) for number in range(len(runs))]
        _, self.expected, self.fresh = KNOWN[known]
        self.length = self.fresh[0]["CYCLES_LO"]
        self.next = itertools.cycle(range(1, len(runs)))

    def _fresh(self, number):
        with open_board(self.config, **self.memory) as device:
            return self._replays(device)[number].run()

    def _replays(self, device):
        return [Replay(device, run, written)
                for run, written in zip(self.runs, self.expected, strict=True)]

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
        for port in self.board.ports:
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

    def fail(self, port, response, stride=1, first=1):
        """Let every answer of a port be an error once, or every ``stride``-th from ``first`` on."""
        for number in itertools.count(first, stride):
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


# Cycles between two ends that CI tries; `-m slow` tries twice as many, and of some runs all. Runs
# with a far memory are long, and mostly waiting.
STRIDES = {"near": 18, "far": 58}


# By day rows are read again in the pipeline whose rows may have weights; in its third run they have
# none.
every_config = pytest.mark.parametrize("config", [
    pytest.param(config, marks=pytest.mark.slow if config is REFETCH else (), id=config.name)
    for config in ALL])
every_memory = pytest.mark.parametrize("memory", MEMORIES)


@every_memory
@every_config
def test_abort(config, memory):
    with Sweep(config, memory, short_jobs(config)) as sweep:
        sweep.abort(cycles_of(sweep, STRIDES[memory]))


@pytest.mark.covering(1)
@every_memory
@every_config
def test_abort_while_the_memory_does_nothing(config, memory):
    """As a driver does whose run makes no progress."""
    with Sweep(config, memory, short_jobs(config)) as sweep:
        sweep.time_out(cycles_of(sweep, 4 * STRIDES[memory]))


@pytest.mark.covering(1)
@every_memory
@every_config
def test_every_answer_is_an_error_once(config, memory):
    with Sweep(config, memory, short_jobs(config)) as sweep:
        stride = 1 if memory == "near" else 3
        for port in sweep.board.ports:
            # Answers are errors of one kind and of the other in turn.
            for number, response in enumerate((SLVERR, DECERR)):
                sweep.fail(port, response, 2 * stride, 1 + number * stride)


@pytest.mark.slow
@every_memory
@every_config
def test_aborts_in_more_cycles(config, memory):
    """Twice as many as by day, also while the memory does nothing."""
    with Sweep(config, memory, short_jobs(config)) as sweep:
        sweep.abort(cycles_of(sweep, STRIDES[memory] // 2))
        sweep.time_out(cycles_of(sweep, 2 * STRIDES[memory]))


@pytest.mark.slow       # of a board that no other test by day has
@pytest.mark.parametrize("memory, stride", [("near", 11), ("far", 37)])
def test_abort_with_hundreds_of_features(memory, stride):
    """With a fast clock and corrections, where the walk of an engine may be cut off anywhere."""
    with Sweep(LARGE, memory, short_jobs(LARGE, beats=40)) as sweep:
        sweep.abort(cycles_of(sweep, stride))


every_long_run = pytest.mark.parametrize("name", [
    pytest.param(name, marks=pytest.mark.slow if name in ("several", "packed-weights") else ())
    for name in LONG])


@pytest.mark.by_day(2)
@every_long_run
def test_abort_of_long_walks(name):
    config, runs, stride = LONG[name]
    with Sweep(config, "near", runs()) as sweep:
        sweep.abort(cycles_of(sweep, stride))
        sweep.time_out(cycles_of(sweep, 7 * stride))


@pytest.mark.by_day(2)
@every_long_run
def test_answers_to_long_walks_that_are_errors(name):
    config, runs, stride = LONG[name]
    with Sweep(config, "near", runs()) as sweep:
        for port in sweep.board.ports:
            sweep.fail(port, SLVERR, stride)


@pytest.mark.slow
@every_memory
@every_long_run
def test_more_aborts_of_long_walks(name, memory):
    """Every cycle, and every answer."""
    config, runs, _ = LONG[name]
    with Sweep(config, memory, runs()) as sweep:
        sweep.abort(cycles_of(sweep, 1))
        sweep.time_out(cycles_of(sweep, 5))
        for port in sweep.board.ports:
            sweep.fail(port, DECERR)


@pytest.mark.slow
@pytest.mark.parametrize("config, beats, memory", [
    pytest.param(*case, id=f"{case[0].name}-{case[1]}-{case[2]}")
    for case in tonight(itertools.product(ALL, [1, 2, 3], MEMORIES), 24)])
def test_more_aborts(config, beats, memory):
    """Every cycle, with rows of other lengths."""
    with Sweep(config, memory, short_jobs(config, beats)) as sweep:
        sweep.abort(cycles_of(sweep, 1))
        sweep.time_out(cycles_of(sweep, 1))


@pytest.mark.slow
@every_memory
@every_config
def test_every_answer_is_each_error_once(config, memory):
    with Sweep(config, memory, short_jobs(config)) as sweep:
        for port in sweep.board.ports:
            for response in (SLVERR, DECERR):
                sweep.fail(port, response)


@pytest.mark.slow
@every_memory
def test_every_cycle_with_hundreds_of_features(memory):
    with Sweep(LARGE, memory, short_jobs(LARGE, beats=40)) as sweep:
        sweep.abort(cycles_of(sweep, 1))
        sweep.time_out(cycles_of(sweep, 1))
        for port in sweep.board.ports:
            sweep.fail(port, DECERR)


@pytest.mark.parametrize("name, value, message", [
    ("INTERCEPT_LEVEL", 1, "abort after 10. cycles, then job .: a finished epoch is wrong"),
    ("LOOKAHEAD", 0, "abort after 10. cycles, then job .: not as on a new board")])
def test_a_sweep_finds_what_differs(name, value, message):
    """In the model, or in the counters alone: another look-ahead gives the same model."""
    with Sweep(CONFIGS[4], "near", short_jobs(CONFIGS[4])) as sweep:
        sweep.abort([100, 101])
        for replay in sweep.replays[1:]:
            replay.writes.insert(-1, (OFFSETS[name], value))
        with pytest.raises(AssertionError, match=message):
            sweep.abort([100, 101])
