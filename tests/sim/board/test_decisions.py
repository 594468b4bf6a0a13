"""Refetching never decides wrongly: on the RTL, every row is active exactly if its row at full
precision is, with the model that it meets.

The run of the first k rows shows the model that row k meets, and the run of k + 1 rows what became
of it. The decision is worked out here, with Python's integers, not by the golden model.
"""

import dataclasses

import numpy as np
import pytest
from drawn_jobs import REFETCH, WEIGHTED_REFETCH, allowed_lookahead
from simulated import TestedDevice, lookahead_registers, open_board

from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.levels import decode, unpack_codes, unpack_labels
from bitstep.pipeline.memory import pack_labels
from bitstep.pipeline.registers import LabelFormat, Loss
from bitstep_sim.testing.random_jobs import random_job

WIDTHS = [PipelineConfig(bits=bits, max_features=60, lookahead=7, refetch=True)
          for bits in (1, 2, 4, 5, 6, 7, 8)]
N_ROWS = 14


def close_job(config, n_features, cell, seed):
    """Rows on both sides of the hinge and near it, from the first one on."""
    job = random_job(config, n_features=n_features, n_rows=N_ROWS, epochs=1, seed=seed,
                     loss=Loss.HINGE, cell_half_levels=cell)
    assert job.fine_rows is not None
    rng = np.random.default_rng(seed)
    size = 2.0 ** job.label_shift / (config.rows.level_limit * n_features ** 0.5)
    model = rng.normal(0, size, n_features).astype(np.int32)
    labels = unpack_labels(job.labels, LabelFormat.SIGN, N_ROWS)
    # Most labels agree with the model, so that rows are inactive, too.
    agree = np.sign(job.fine_rows.astype(np.int64) @ model) + 0.5
    labels = np.where(rng.random(N_ROWS) < 0.8, np.sign(agree), labels).astype(np.int64)
    # No weight is so small that an update is 0.
    weights = rng.integers(1 << 12, 1 << 16, N_ROWS).astype(np.uint16)
    return dataclasses.replace(job, model=model, intercept=int(rng.normal(0, size / 4)),
                               labels=pack_labels(labels, LabelFormat.SIGN),
                               weights=weights if config.row_weights else None)


def first_rows(job, count):
    """The run of the first rows alone."""
    labels = unpack_labels(job.labels, LabelFormat.SIGN, job.n_rows)[:count]
    return dataclasses.replace(job, rows=tuple(copy[:count] for copy in job.rows),
                               fine_rows=job.fine_rows[:count],
                               weights=None if job.weights is None else job.weights[:count],
                               labels=pack_labels(labels, LabelFormat.SIGN))


def check(board, job, lookahead):
    """Every row; returns how many were fetched again, were inactive, and would have been decided
    wrongly by their codes.
    """
    config = job.config
    device = TestedDevice(board, registers=lookahead_registers(job, lookahead))
    labels = unpack_labels(job.labels, LabelFormat.SIGN, N_ROWS).tolist()
    levels, _ = decode(unpack_codes(job.rows[0], config.rows, job.n_features), bits=config.bits,
                       row_format="one_level")
    fraction, counts = config.rows.fine_fraction, [0, 0, 0]
    words, intercept, refetched = job.model.astype(np.int64), job.intercept, 0
    target = 1 << job.label_shift
    for row, label in enumerate(labels):
        result = device.train(first_rows(job, row + 1))
        after, after_intercept = result.models[0].astype(np.int64), int(result.intercepts[0])
        fine_rows = int(job.fine_rows[row].astype(np.int64) @ words) \
            + (job.intercept_level * intercept << fraction)
        codes = int(levels[row] @ words) + job.intercept_level * intercept
        active = label * fine_rows < target << fraction
        change = words - after
        moved = bool(change.any() or after_intercept != intercept)
        assert moved == active, (row, label)
        now_refetched = int(result.counters["refetched_rows"] or 0)
        again = now_refetched - refetched
        assert again in (0, 1)
        update = (intercept - after_intercept) // job.intercept_level
        assert np.sign(update) == -label * active
        expected = update * levels[row]
        if again:
            product = update * job.fine_rows[row].astype(np.int64)
            expected = (product + (1 << fraction - 1)) >> fraction
        np.testing.assert_array_equal(change, expected)
        counts[0] += again
        counts[1] += not active
        counts[2] += (label * codes < target) != active
        words, intercept, refetched = after, after_intercept, now_refetched
    return counts


def check_width(config, seeds):
    """Both cells, several lengths of rows and look-aheads."""
    total = np.zeros(3, int)
    with open_board(config, stall_probability=0.1) as board:
        for seed in range(seeds):
            for cell in (1, 2) if config.bits > 1 else (2, 4):
                n_features = [1, 3, config.rows.lanes, 20, config.rows.capacity][(seed + cell) % 5]
                job = close_job(config, n_features, cell, seed)
                allowed = allowed_lookahead(config, job.beats)
                total += check(board, job, allowed[-1 - seed % 2])
    refetched, inactive, wrong = total
    assert refetched > 5
    assert inactive > 5
    assert wrong > 0, "no row needed to be fetched again"


@pytest.mark.parametrize("seeds", [6, pytest.param(15, marks=pytest.mark.slow)])
@pytest.mark.parametrize("config", [REFETCH, WEIGHTED_REFETCH], ids=lambda config: config.name)
def test_no_decision_is_wrong(config, seeds):
    check_width(config, seeds)


@pytest.mark.slow
@pytest.mark.parametrize("config", WIDTHS, ids=lambda config: config.name)
def test_no_decision_is_wrong_at_any_width(config):
    check_width(config, 30)
