"""Weights of rows on the simulated board: golden's models, the cycle model's counters."""

from dataclasses import replace

import numpy as np
import pytest
from bit_plane_runs import CLOCK_HZ
from centred_runs import check_training
from counted import are_equal, counters_of
from drawn_jobs import FAST_WEIGHTED_REFETCH, WEIGHTED_REFETCH
from simulated import (
    TestedDevice,
    check_against_golden,
    check_models,
    golden,
    lookahead_registers,
    open_board,
)

from bitstep.devices.derivatives import derivative_job
from bitstep.devices.register_device import DerivativeRun
from bitstep.golden.gradient import gradient
from bitstep.golden.sgd import train
from bitstep.golden.steps import MAX_DERIVATIVE_STEP, derivative_step
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.job import MODEL_LIMIT
from bitstep.pipeline.memory import pack_codes
from bitstep.pipeline.parts.formats import BIT_PLANES
from bitstep.pipeline.registers import LabelFormat, Loss
from bitstep.pipeline.results import BadConfigurationError, RangeOverflowError
from bitstep.quantization import QuantizedDataset, quantize_bit_planes, sign_labels
from bitstep.training.objective import Objective
from bitstep_sim.testing.bit_plane_jobs import random_bit_plane_job
from bitstep_sim.testing.random_jobs import random_job, random_jobs

SEVERAL = PipelineConfig(bits=4, max_features=64, lookahead=8, models=3, proximal=True,
                         row_weights=True)
FAST = PipelineConfig(bits=32, row_format="float32", max_features=24, lookahead=4,
                      update_interval=4, row_weights=True)
FEW_BITS = PipelineConfig(bits=3, max_features=64, lookahead=3, model_bits=8, rounded_updates=True,
                          row_weights=True)
LOGISTIC = PipelineConfig(bits=4, max_features=64, lookahead=2, loss_family="logistic",
                          update_interval=6, row_weights=True)
PLANES = PipelineConfig(row_format=BIT_PLANES, bits=16, max_features=64, lookahead=4,
                        row_weights=True)
SMOOTH = PipelineConfig(row_format=BIT_PLANES, bits=16, max_features=64, lookahead=2,
                        loss_family="logistic", update_interval=6, row_weights=True)
LINEAR_LOSSES = [Loss.LEAST_SQUARES, Loss.SQUARED_HINGE, Loss.HINGE, Loss.HUBER]


OTHERS = [pytest.param(config, marks=pytest.mark.slow)
          for config in (PLANES, FAST, FEW_BITS, LOGISTIC)]


@pytest.fixture(scope="module", params=[SEVERAL, SMOOTH, *OTHERS],
                ids=lambda config: config.name)
def board(request):
    with open_board(request.param, clock_hz=CLOCK_HZ) as device:
        yield device


def losses_of(config):
    """Losses of a pipeline."""
    return LINEAR_LOSSES if config.loss_family == "linear" else [Loss.LOGISTIC]


def job_of(config, loss, seed, **options):
    """A job with weights, all of whose numbers stay in range."""
    if config.row_format == BIT_PLANES:
        return random_bit_plane_job(config, n_features=19, n_rows=70, planes=(5, 2), loss=loss,
                                    seed=seed, weighted=True, **options)
    few = {"model_bits": 6, "update_bits": 5 * (seed % 2)} if config.model_bits else {}
    return random_job(config, n_features=19, n_rows=70, loss=loss, seed=seed, weighted=True,
                      **few, **options)


@pytest.mark.by_day(6)
@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("batch, period", [(1, 0), (1, 12), (8, 16)])
def test_every_loss(board, number, batch, period):
    config, losses = board.config, losses_of(board.config)
    for seed in range(3):
        job = job_of(config, losses[number % len(losses)], 10 * number + seed, batch=batch,
                     correction_period=period)
        assert job.weights is not None
        assert job.weights.max() == 65535
        check_models(board, [job])


def test_weights_can_be_left_out(board):
    loss = losses_of(board.config)[0]
    job = replace(job_of(board.config, loss, 5), weights=None)
    check_models(board, [job])


@pytest.mark.parametrize("label_format", [LabelFormat.INT16, LabelFormat.INT32])
def test_label_formats(board, label_format):
    if board.config.loss_family != "linear":
        pytest.skip("the labels of this pipeline are signs")
    check_models(board, [job_of(board.config, Loss.LEAST_SQUARES, 3, label_format=label_format)])


def test_a_step_that_fits_no_row_but_those_of_small_weight(board):
    config = board.config
    loss = Loss.HINGE if config.loss_family == "linear" else Loss.LOGISTIC
    job = job_of(config, loss, 8)
    job = replace(job, label_shift=max(job.label_shift, 24))
    # K of weight 1 does not fit, so a row of large weight ends the run.
    large = replace(job, epochs=tuple(
        replace(one, mantissa=(1 << 18) - 1, shift=1) for one in job.epochs[:1]))
    small = replace(large, weights=np.zeros_like(job.weights))
    assert next(iter(train(large))).overflow
    with pytest.raises(RangeOverflowError):
        board.train(large)
    assert not any(one.overflow for one in train(small))
    check_models(board, [small])


@pytest.mark.parametrize("count, shared", [(2, False), (3, False), (3, True)])
@pytest.mark.parametrize("options", [
    {"loss": Loss.HINGE}, {"label_format": LabelFormat.INT16},
    {"label_format": LabelFormat.INT32, "batch": 4, "correction_period": 8, "proximal_period": 4}],
    ids=["signs", "int16", "int32"])
def test_several_models(count, shared, options):
    with open_board(SEVERAL, clock_hz=CLOCK_HZ) as device:
        check_models(device, random_jobs(SEVERAL, count, n_features=19, n_rows=70, seed=count,
                                         weighted=True, shared_labels=shared, **options))


@pytest.mark.parametrize("config, loss", [
    *(pytest.param(PLANES, loss, marks=pytest.mark.slow) for loss in LINEAR_LOSSES),
    (SMOOTH, Loss.LOGISTIC)])
@pytest.mark.parametrize("power", [False, True])
def test_gradient_of_all_rows(config, loss, power):
    job = random_bit_plane_job(config, n_features=19, n_rows=70, planes=(16,), loss=loss,
                               weighted=True)
    if power:       # no mantissa is rounded
        job = replace(job, epochs=(replace(job.epochs[0], mantissa=1 << 17),))
    planes = 4 * (loss in (Loss.SQUARED_HINGE, Loss.LOGISTIC))
    expected = gradient(job, planes)
    assert not expected.overflow
    assert expected.words.any()
    with open_board(config, clock_hz=CLOCK_HZ) as device:
        found = device.gradient(job, derivative_planes=planes)
    np.testing.assert_array_equal(found.words, expected.words)
    assert found.intercept == expected.intercept
    if planes:
        np.testing.assert_array_equal(found.derivatives, expected.derivatives)


@pytest.fixture(scope="module", params=[
    WEIGHTED_REFETCH, pytest.param(FAST_WEIGHTED_REFETCH, marks=pytest.mark.slow)],
    ids=lambda config: config.name)
def again(request):
    """A board whose pipeline fetches rows again."""
    with open_board(request.param, clock_hz=CLOCK_HZ) as device:
        yield device


def hinge_job(board, *, open_share="some", weights=None, n_rows=70, **options):
    """A job of hinge loss. Its codes leave some rows open, or all, or none but with replays."""
    job = random_job(board.config, **{
        "n_features": 19, "n_rows": n_rows, "loss": Loss.HINGE, "cell_half_levels": 2,
        "warm": True, "weighted": True, "epochs": 2, **options})
    if open_share == "all":     # words so large that no code decides a row, and tiny steps
        rng = np.random.default_rng(3)
        large = rng.integers(1 << 24, 1 << 25, job.n_features) * rng.choice([-1, 1], job.n_features)
        rows = np.zeros((n_rows, job.n_features), np.uint8)
        job = replace(job, model=large.astype(np.int32), intercept=0, label_shift=12,
                      rows=(pack_codes(rows, board.config.bits, board.config.bus_width),),
                      fine_rows=rng.integers(-99, 100, rows.shape).astype(np.int16),
                      epochs=tuple(replace(one, mantissa=999, shift=1) for one in job.epochs))
    if open_share == "none":
        job = replace(job, model=np.zeros_like(job.model), intercept=0, epochs=tuple(
            replace(one, mantissa=1, shift=7) for one in job.epochs))
    if weights is not None:
        pattern = np.resize(np.array(weights, np.uint16), n_rows)
        job = replace(job, weights=pattern)
    return job


def check_again(board, job, lookahead):
    """Models of golden, counters of the cycle model; rows that were fetched again."""
    device = TestedDevice(board, registers=lookahead_registers(job, lookahead))
    are_equal(*counters_of(board.config, job, lookahead, {}, check_against_golden(device, job)))
    return [epoch.refetched_rows for epoch in golden(job)]


@pytest.mark.parametrize("lookahead", [0, 1, 3])
@pytest.mark.parametrize("n_rows", [1, 2, 70])
@pytest.mark.parametrize("open_share, count", [("all", 1), ("none", 0)])
def test_all_rows_are_read_again_or_none(again, lookahead, n_rows, open_share, count):
    """The last one, too, and the only one."""
    job = hinge_job(again, open_share=open_share, n_rows=n_rows)
    assert check_again(again, job, lookahead) == [count * n_rows] * 2
    assert check_again(again, replace(job, weights=None), lookahead) == [count * n_rows] * 2


@pytest.mark.parametrize("lookahead", [0, 3])
@pytest.mark.parametrize("open_share", ["some", "all"])
@pytest.mark.parametrize("weights", [[0], [1], [65535], [0, 65535], [65535, 1, 1], [1, 0, 65534]],
                         ids=str)
def test_corner_weights_of_rows_that_are_read_again(again, lookahead, open_share, weights):
    job = hinge_job(again, open_share=open_share, weights=weights)
    assert sum(check_again(again, job, lookahead)) > 0
    if weights == [0]:
        assert all((epoch.model == job.model).all() for epoch in golden(job))


@pytest.mark.parametrize("lookahead", [0, 3])
@pytest.mark.parametrize("period, steps", [(0, 0), (3, 0), (0, 4), (7, 5)])
def test_rows_that_are_read_again_with_steps_between(again, lookahead, period, steps):
    """Of two copies, in runs with weights and, in turn, without."""
    for seed in range(4):
        job = hinge_job(again, correction_period=period, proximal_period=steps, copies=2, seed=seed)
        job = job if seed % 2 == 0 else replace(job, weights=None)
        assert sum(check_again(again, replace(job, box_limit=MODEL_LIMIT), lookahead)) > 10


@pytest.mark.parametrize("lookahead", [0, 3])
def test_a_step_that_fits_no_row_that_is_read_again_but_those_of_small_weight(again, lookahead):
    """K of the epoch, whose lowest 47 bits are 0, is no bound any more: with look-ahead every row
    waits for those before.
    """
    job = hinge_job(again, weights=[1, 0], epochs=1)
    job = replace(job, label_shift=24, epochs=tuple(
        replace(one, mantissa=1 << 17, shift=1) for one in job.epochs))
    assert derivative_step(job, job.epochs[0]) == 4 * MAX_DERIVATIVE_STEP
    assert sum(check_again(again, job, lookahead)) > 0
    device = TestedDevice(again, registers=lookahead_registers(job, lookahead))
    large = replace(job, weights=np.full_like(job.weights, 65535))
    assert next(iter(train(large))).overflow
    with pytest.raises(RangeOverflowError):
        device.train(large)
    assert sum(check_again(again, job, lookahead)) > 0      # after a run that left the range


@pytest.mark.slow
@pytest.mark.parametrize("update_interval", [2, 4])
def test_rows_of_4096_features_in_batches_of_256(update_interval):
    config = PipelineConfig(bits=4, lookahead=2, update_interval=update_interval, row_weights=True)
    job = random_job(config, n_features=4096, n_rows=600, batch=256, correction_period=256,
                     loss=Loss.SQUARED_HINGE, epochs=2, weighted=True)
    with open_board(config, clock_hz=CLOCK_HZ) as device:
        check_models(device, [job])


@pytest.mark.parametrize("config, loss", [
    pytest.param(PLANES, Loss.SQUARED_HINGE, marks=pytest.mark.slow), (SMOOTH, Loss.LOGISTIC)])
def test_inner_passes(config, loss):
    job = random_bit_plane_job(
        config, n_features=19, n_rows=70, planes=(3, 6), loss=loss, weighted=True,
        label_format=LabelFormat.INT32, correction_period=8)
    with open_board(config, clock_hz=CLOCK_HZ) as device:
        check_models(device, [job])


def test_derivatives_have_no_weights():
    job = random_bit_plane_job(SMOOTH, n_features=19, n_rows=70, planes=(4,), loss=Loss.LOGISTIC)
    with open_board(SMOOTH, clock_hz=CLOCK_HZ) as board:
        device = TestedDevice(board, registers={"WEIGHTED": 1})
        with DerivativeRun(device, derivative_job(job, 4), 60.0) as run, \
                pytest.raises(BadConfigurationError):
            run.finish()


def test_inner_passes_over_the_first_rows(monkeypatch):
    """Their weights stand beside derivatives, which the host copies for it."""
    monkeypatch.setattr("bitstep.training.schedules.INNER_ROWS", 100)
    monkeypatch.setattr("bitstep.training.schedules.INNER_ROWS_OF_A_FEATURE", 1)
    rng = np.random.default_rng(8)
    features = rng.standard_normal((300, 9))
    signs = np.where(features[:, 0] + 0.5 * rng.standard_normal(300) > 0, 1, -1)
    rows = quantize_bit_planes(
        features, weights=rng.integers(1 << 14, 1 << 16, 300).astype(np.uint16))
    model = check_training(SMOOTH, QuantizedDataset(rows, sign_labels(signs)),
                           Objective(loss=Loss.LOGISTIC, l2=1e-2), epochs=4, planes=4)
    assert model.gradients is not None
    assert model.gradients[-1].max() < 0.05
