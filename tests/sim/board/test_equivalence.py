"""The RTL on the simulated board computes what the golden model computes, bit for bit."""

import dataclasses
import os
import zlib

import numpy as np
import pytest
from counted import CLOCK_HZ, are_close, are_equal, counters_of
from drawn_jobs import (
    CONFIGS,
    COVERED_BY_DAY,
    FAST_WEIGHTED_REFETCH,
    FLOAT,
    LOGISTIC,
    MORE_CONFIGS,
    PROFILE,
    REFETCH,
    TABLES,
    WEIGHTED_REFETCH,
    WIDE,
    covering_rows,
    fresh_seed,
    jobs,
    losses,
    tonight,
)
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from simulated import TestedDevice, check_against_golden, golden, lookahead_registers, open_board

from bitstep.devices.cpu.device import CpuDevice
from bitstep.devices.golden import GoldenDevice
from bitstep.pipeline.registers import LabelFormat, Loss
from bitstep_sim.testing.covering_jobs import jobs_of
from bitstep_sim.testing.random_jobs import random_job

MEMORIES = st.one_of(
    st.just({}),
    st.fixed_dictionaries({"memory_latency": st.sampled_from([1, 2, 7, 100])}),
    st.fixed_dictionaries({"memory_latency": st.integers(1, 30),
                           "memory_gbps": st.sampled_from([0.05, 0.3, 0.9])}),
    st.fixed_dictionaries({"memory_latency": st.integers(1, 10),
                           "stall_probability": st.sampled_from([0.1, 0.5, 0.8]),
                           "stall_seed": st.integers(0, 1000)}),
)


def check_config(config, examples):
    @fresh_seed(config.name)
    @settings(max_examples=examples, **PROFILE)
    @given(jobs(config), MEMORIES)
    def check(job_and_lookahead, memory):
        job, lookahead = job_and_lookahead
        assume(not any(epoch.overflow for epoch in golden(job)))
        with open_board(config, **memory) as board:
            device = TestedDevice(board, registers=lookahead_registers(job, lookahead))
            check_against_golden(device, job)
            assert board.board.stray_accesses == 0

    check()


ALL = [*CONFIGS, REFETCH, FLOAT, LOGISTIC, *TABLES, *WIDE, WEIGHTED_REFETCH, FAST_WEIGHTED_REFETCH]


def check_rows(config, rows, salt=""):
    for row, job, lookahead in jobs_of(config, rows, zlib.crc32(salt.encode()), golden):
        options = {name: value for name, value in row.items() if name != "config"}
        with open_board(config, clock_hz=CLOCK_HZ, **row["memory"]) as board:
            device = TestedDevice(board, registers=lookahead_registers(job, lookahead))
            try:
                result = check_against_golden(device, job)
                if "stall_probability" not in row["memory"]:
                    compare = are_close if row["memory"] else are_equal
                    compare(*counters_of(config, job, lookahead, row["memory"], result))
            except Exception as error:
                raise AssertionError(f"the job of {options}: {error}") from error
            assert board.board.stray_accesses == 0, options


@pytest.mark.parametrize("config", ALL, ids=lambda config: config.name)
def test_every_three_options(config):
    """Jobs in which every combination of three options' values meets: models as golden, counters
    as the cycle model.
    """
    check_rows(config, covering_rows(config, parts=("first",), shared=COVERED_BY_DAY))


@pytest.mark.slow
@pytest.mark.parametrize("config", ALL, ids=lambda config: config.name)
def test_second_rows_of_every_three_options(config):
    check_rows(config, covering_rows(config, parts=("second",)))


@pytest.mark.slow
@pytest.mark.parametrize("config", ALL, ids=lambda config: config.name)
def test_other_rows_of_every_three_options(config):
    salt = os.environ["BITSTEP_TEST_SEED"]
    check_rows(config, covering_rows(config, salt), salt)


@pytest.mark.slow
@pytest.mark.parametrize("config", ALL, ids=lambda config: config.name)
def test_any_job(config):
    check_config(config, 20 if config in WIDE else 60)


@pytest.mark.slow
@pytest.mark.parametrize("config", tonight(MORE_CONFIGS, 12), ids=lambda config: config.name)
def test_any_job_on_any_pipeline(config):
    check_config(config, 50)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
def test_board_keeps_nothing_between_runs(config):
    """One board for many jobs: lengths, batches, corrections and first models change."""
    with open_board(config) as board:
        for number in range(12):
            batch = 1 + number % 3
            check_against_golden(board, random_job(
                config, n_features=[config.rows.capacity, 1, config.rows.lanes + 1, 7][number % 4],
                n_rows=5 + 7 * number, seed=number, batch=batch, epochs=1 + number % 3,
                correction_period=batch * (number % 4), warm=number % 2 == 1,
                intercept=number % 5 != 0, label_format=LabelFormat(number % 3)))


@pytest.mark.parametrize("config", [REFETCH, FLOAT, LOGISTIC, WEIGHTED_REFETCH],
                         ids=lambda config: config.name)
def test_board_keeps_nothing_of_losses_and_steps(config):
    """One board for many jobs: losses, proximal steps, refetching and corrections change."""
    with open_board(config, stall_probability=0.1) as board:
        for number in range(16):
            loss = losses(config)[number % len(losses(config))]
            cell = (1 + number % 2) * (config.refetch and loss == Loss.HINGE)
            check_against_golden(board, random_job(
                config,
                n_features=[config.rows.capacity, 1, config.rows.lanes + 1, 2][number // 2 % 4],
                n_rows=5 + 7 * number, seed=number, epochs=1 + number % 3, loss=loss,
                cell_half_levels=cell, proximal_period=number % 5 * config.proximal,
                correction_period=number % 4 and config.lookahead + number,
                warm=number % 3 == 1, intercept=number % 5 != 0,
                weighted=config.row_weights and number % 4 != 2))


# What golden gives takes longer than all else.
@pytest.mark.parametrize("peer", [CpuDevice, pytest.param(GoldenDevice, marks=pytest.mark.slow)])
def test_counts_of_more_than_16_bits(peer):
    """Rows of an epoch, of a batch and of a period, and fours of rows (of the dither)."""
    config, batch = CONFIGS[5], (1 << 16) + 500
    job = random_job(config, n_features=3, n_rows=4 * batch + 77, batch=batch,
                     correction_period=batch, epochs=1, seed=1)
    with peer(config) as device:
        expected = device.train(job)
    with open_board(config) as board:
        found = board.train(job)
    np.testing.assert_array_equal(found.models, expected.models)
    np.testing.assert_array_equal(found.intercepts, expected.intercepts)
    assert found.counters["beats"] == job.n_rows * job.beats


def test_zero_rows_are_refused():
    job = random_job(CONFIGS[0], n_features=3, n_rows=1)
    with pytest.raises(ValueError, match="at least one row"):
        dataclasses.replace(job, rows=(job.rows[0][:0],))
