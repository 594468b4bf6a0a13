"""The native device beside the simulated board: models, and every counter by the cycle model."""

import dataclasses
import os

import numpy as np
import pytest

from bitstep.pipeline.job import MODEL_LIMIT
from bitstep.pipeline.registers import Loss
from bitstep.pipeline.results import RangeOverflowError, beats_read
from bitstep_sim.board.device import SimDevice
from bitstep_sim.testing.random_jobs import random_job

pytest.importorskip("numba", reason="the native device needs numba")

from drawn_jobs import (
    CONFIGS,
    EVERY_CYCLE,
    FLOAT,
    LARGE,
    LOGISTIC,
    PACKED,
    PACKED_WEIGHTS,
    REFETCH,
    SEVERAL,
    TABLES,
    WEIGHTED_REFETCH,
    WIDE,
    losses,
)

from bitstep.devices.cpu.device import CpuDevice
from bitstep.devices.golden import GoldenDevice

JOBS = 12               # by day half of them


def draw(config, rng):
    """A job of a size that the configuration allows, with everything that costs cycles."""
    n_features = int(rng.integers(1, config.rows.capacity + 1))
    loss = Loss(int(rng.choice(losses(config))))
    batch = int(rng.choice([1, 1, 4, 64])) if config.minibatch else 1
    options = {}
    if config.refetch and rng.random() < 0.8:
        loss, batch = Loss.HINGE, 1
        options["cell_half_levels"] = int(rng.integers(1, 3))
    least = 1 + config.ahead.of_rows(config.rows.beats(n_features)) \
        if config.row_format == "float32" else 1
    period = batch * int(rng.choice([0, least, least + 4, 20]))
    return random_job(
        config, n_features=n_features, n_rows=int(rng.integers(1, 300)), epochs=3, loss=loss,
        seed=int(rng.integers(1 << 30)), batch=batch, correction_period=period,
        proximal_period=batch * int(rng.choice([0, 7])) if config.proximal else 0,
        warm=bool(rng.integers(2)), copies=int(rng.integers(1, 3)), speed=0.1,
        weighted=config.row_weights and bool(rng.integers(2)), **options)


def outcome(device, job):
    """Result of a job, and the epoch in which it left the range, or None."""
    try:
        return device.train(job), None
    except RangeOverflowError as error:
        return error.result, error.epoch


def check_counters(job, memory, expected, result, ending):
    """Counters of device ``cpu`` are the board's; with a narrow or far memory cycles are close. How
    often a run that left its range counts, and which rows it reads again after that, the board
    alone knows; what it has read ahead depends on time.
    """
    known, measured = dict(result.counters), dict(expected.counters)
    if ending:
        assert known.pop("overflows") is None
        assert measured.pop("overflows")
        if job.cell_half_levels:
            assert set(known.values()) == {None}
            # The queue takes rows of epochs to come meanwhile.
            read = beats_read(job, ending)
            assert read <= measured["beats"] <= read + 128
            return
    if not memory:
        assert known == measured
    else:
        assert known["cycles"] == pytest.approx(measured["cycles"], rel=0.005)
        for name in ("beats", "refetched_rows"):
            assert known[name] == measured[name]
        assert known["bytes_read"] == pytest.approx(measured["bytes_read"],
                                                    rel=0.005 if ending else 0, abs=0)
    assert result.epoch_cycles is not None
    assert len(result.epoch_cycles) == result.epochs_done


@pytest.mark.covering(1)
@pytest.mark.parametrize("jobs", [JOBS // 2, pytest.param(JOBS, marks=pytest.mark.slow)])
@pytest.mark.parametrize("memory", [{}, {"memory_gbps": 0.4}, {"memory_latency": 100}],
                         ids=["plain", "narrow", "far"])
@pytest.mark.parametrize("config", [*CONFIGS, REFETCH, FLOAT, LOGISTIC, *TABLES, *WIDE, LARGE,
                                    WEIGHTED_REFETCH], ids=lambda config: config.name)
def test_models_and_counters(config, memory, jobs):
    rng = np.random.default_rng(int(os.environ["BITSTEP_TEST_SEED"]))
    with SimDevice(config, **memory) as board:
        native = CpuDevice(config, **memory)
        for _ in range(jobs):
            job = draw(config, rng)
            (expected, ending), (result, own_ending) = outcome(board, job), outcome(native, job)
            assert own_ending == ending
            assert np.array_equal(result.models, expected.models)
            assert np.array_equal(result.intercepts, expected.intercepts)
            check_counters(job, memory, expected, result, ending)


@pytest.mark.parametrize("config", [
    CONFIGS[5], REFETCH, FLOAT, LOGISTIC, PACKED, EVERY_CYCLE[0],
    *(pytest.param(config, marks=pytest.mark.slow) for config in (
        *CONFIGS[:5], *TABLES, *WIDE, LARGE, WEIGHTED_REFETCH, PACKED_WEIGHTS, SEVERAL,
        *EVERY_CYCLE[1:]))], ids=lambda config: config.name)
def test_counters_of_runs_that_leave_their_range(config):
    """How far the readers were ahead shows in bytes, and in the cycles of the end."""
    ended = 0
    with SimDevice(config) as board:
        native = CpuDevice(config)
        for seed in range(4):
            job = random_job(config, n_features=config.rows.capacity, n_rows=30 + 40 * seed,
                             epochs=6, speed=40, seed=seed, loss=losses(config)[0])
            if config.loss_family == "logistic":        # whose steps are small
                job = dataclasses.replace(job, model=np.full_like(job.model, MODEL_LIMIT - 1))
            (expected, ending), (result, own_ending) = outcome(board, job), outcome(native, job)
            assert own_ending == ending
            check_counters(job, {}, expected, result, ending)
            ended += bool(ending)
    assert ended


@pytest.mark.parametrize("config", [CONFIGS[5], FLOAT, PACKED, EVERY_CYCLE[0]],
                         ids=lambda config: config.name)
@pytest.mark.parametrize(("batch", "period"), [(1 << 31, 0), ((1 << 32) - 1, 0), (1, 1 << 31),
                                               (1, (1 << 32) - 1)])
def test_batches_and_periods_beyond_all_rows(config, batch, period):
    """Of each 32 bits count."""
    job = random_job(config, n_features=3, n_rows=40, epochs=2, batch=batch,
                     correction_period=period, proximal_period=period * config.proximal, seed=1)
    models = GoldenDevice(config).train(job).models
    with SimDevice(config) as board:
        expected, result = board.train(job), CpuDevice(config).train(job)
    assert np.array_equal(expected.models, models)
    assert np.array_equal(result.models, models)
    check_counters(job, {}, expected, result, None)


@pytest.mark.parametrize("n_rows", [31, 250])
def test_rows_in_the_queue_of_a_run_that_leaves_its_range(n_rows):
    """They are counted, and are those of epochs to come: all, or as many as it has room for."""
    job = random_job(REFETCH, n_features=19, n_rows=n_rows, epochs=3, loss=Loss.HINGE,
                     cell_half_levels=1, seed=14)
    job = dataclasses.replace(job, model=np.full_like(job.model, MODEL_LIMIT - 1))
    with SimDevice(REFETCH) as board:
        (expected, ending), (result, own_ending) = (
            outcome(device, job) for device in (board, CpuDevice(REFETCH)))
    assert own_ending == ending == 1
    beats = beats_read(job, 1)
    assert expected.counters["beats"] == beats + min(128, 2 * beats)
    check_counters(job, {}, expected, result, ending)


@pytest.mark.parametrize("seed", range(3))
def test_steps_that_fit_no_row_but_those_of_small_weight(seed):
    """Rows that are read again: K of the epoch bounds nothing, and every row waits."""
    job = random_job(WEIGHTED_REFETCH, n_features=19, n_rows=70, loss=Loss.HINGE, warm=True,
                     cell_half_levels=2, weighted=True, seed=seed)
    job = dataclasses.replace(
        job, label_shift=24, weights=np.resize(np.array([1, 0], np.uint16), 70), epochs=tuple(
            dataclasses.replace(one, mantissa=1 << 17, shift=1) for one in job.epochs))
    with SimDevice(WEIGHTED_REFETCH) as board:
        expected, result = board.train(job), CpuDevice(WEIGHTED_REFETCH).train(job)
    assert np.array_equal(result.models, expected.models)
    assert result.counters == expected.counters


def test_jobs_of_which_one_was_never_over():
    """Rows were skipped that the streams, let go on meanwhile, no longer had. The cycles are those
    that the simulated board counted.
    """
    rng = np.random.default_rng(940991829)
    native = CpuDevice(REFETCH, memory_gbps=0.4)
    assert [native.train(draw(REFETCH, rng)).counters["cycles"] for _ in range(JOBS)] == [
        21534, 1168, 20748, 6302, 30878, 8290, 6367, 1561, 14231, 4715, 64646, 5366]


def test_another_pipeline_than_the_jobs():
    """Cycles are those of the device's pipeline, with its own look-ahead."""
    job = random_job(CONFIGS[0], n_features=64, n_rows=100)
    waits = [CpuDevice(dataclasses.replace(CONFIGS[0], lookahead=lookahead)).train(job).counters
             ["stall_lookahead"] or 0 for lookahead in (0, 8)]
    assert waits[0] > waits[1]
