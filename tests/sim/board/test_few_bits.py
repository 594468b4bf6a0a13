"""A model and updates of few bits on the simulated board: golden's models, the model's cycles."""

import dataclasses

import numpy as np
import pytest
from drawn_jobs import FEW_BITS as CONFIG
from drawn_jobs import allowed_lookahead, losses
from simulated import TestedDevice, check_models, golden, open_board

from bitstep.devices.cpu.device import CpuDevice
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.registers import LabelFormat, Loss
from bitstep.pipeline.results import AbortedError, BadConfigurationError, DeviceError
from bitstep_sim.testing.random_jobs import random_job

MORE = [
    PipelineConfig(bits=4, max_features=80, lookahead=8, proximal=True, rounded_updates=True),
    PipelineConfig(bits=3, max_features=300, lookahead=3, proximal=True, model_bits=16,
                   update_interval=4, rounded_updates=True),
    PipelineConfig(bits=5, max_features=256, lookahead=3, model_bits=4, loss_family="logistic",
                   update_interval=6, rounded_updates=True),
    PipelineConfig(bits=1, bus_width=128, max_features=300, lookahead=2, model_bits=5),
    PipelineConfig(bits=6, row_format="two_levels", max_features=70, lookahead=0, model_bits=3,
                   corrections=False),
    PipelineConfig(bits=4, max_features=100, lookahead=4, model_bits=8, rounded_updates=True,
                   codebooks=True, proximal=True),
    PipelineConfig(bits=7, max_features=40, lookahead=5, model_bits=2, minibatch=False),
]


@pytest.fixture(scope="module")
def board():
    with open_board(CONFIG) as device:
        yield device


def check(board, job, lookahead=None):
    """Models of golden, counters of the cycle model; False for a job that leaves its range."""
    if any(epoch.overflow for epoch in golden(job)):
        return False
    check_models(board, [job], lookahead=lookahead)
    return True


def draw(config, rng):
    """A random job at the sizes where a lane group, a beat or a batch ends."""
    lanes, rounding = config.rows.lanes, config.stages.rounding     # of the model, if it has one
    group = rounding.lanes if rounding else lanes
    n_features = int(rng.choice([n for n in (
        1, group, group + 1, lanes - 1, lanes, lanes + 1, 63, 64, 65, 255, 256,
        config.rows.capacity,
        rng.integers(1, config.rows.capacity + 1)) if 1 <= n <= min(config.rows.capacity, 600)]))
    batch = int(rng.choice([1, 2, 3, 7, 64, 256])) if config.minibatch else 1
    few = [0, *range(2, 17)]
    return random_job(
        config, n_features=n_features, n_rows=int(rng.choice([1, 2, 63, 65, 130])), batch=batch,
        correction_period=batch * int(rng.integers(0, 4)) * config.corrections,
        proximal_period=batch * int(rng.integers(0, 3)) * config.proximal,
        model_bits=int(rng.integers(2, config.model_bits + 1)) if config.model_bits else 0,
        update_bits=int(rng.choice(few)) if config.rounded_updates else 0,
        loss=Loss(int(rng.choice([int(loss) for loss in losses(config)]))),
        seed=int(rng.integers(1 << 30)), epochs=int(rng.integers(1, 4)), speed=0.3,
        label_format=rng.choice(list(LabelFormat)), copies=int(rng.integers(1, 3)),
        intercept=bool(rng.integers(2)), warm=bool(rng.integers(2)))


def check_many(board, seed, count):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        job = draw(board.config, rng)
        allowed = allowed_lookahead(board.config, job.beats)
        check(board, job, int(rng.choice(allowed)) if rng.random() < 0.3 else None)


@pytest.mark.parametrize("count", [24, pytest.param(60, marks=pytest.mark.slow)])
def test_drawn_jobs(board, count):
    check_many(board, 0, count)


@pytest.mark.parametrize("bits", range(2, 17))
def test_every_width(board, bits):
    for loss in (Loss.LEAST_SQUARES, Loss.HINGE, Loss.HUBER):
        assert check(board, random_job(
            CONFIG, n_features=20, n_rows=40, batch=8, seed=bits, loss=loss, model_bits=bits,
            update_bits=18 - bits, warm=True, correction_period=16, proximal_period=8))


@pytest.mark.parametrize("n_features, batch, n_rows", [
    (256, 64, 300), (256, 256, 300), (256, 1, 40), (4096, 64, 70), (4095, 3, 8)])
def test_sizes_that_users_have(board, n_features, batch, n_rows):
    for _ in range(2):          # the second run finds nothing of the first
        assert check(board, random_job(
            CONFIG, n_features=n_features, n_rows=n_rows, batch=batch, seed=batch, model_bits=4,
            update_bits=6, warm=True, correction_period=batch, epochs=2, speed=0.2))


def test_more_batches_than_a_byte_counts(board):
    """Each has random bits of its own."""
    assert check(board, random_job(CONFIG, n_features=20, n_rows=270, model_bits=4, update_bits=6,
                                   warm=True, correction_period=8, speed=0.2))


@pytest.mark.parametrize("model_bits", [2, 4, 16])
def test_words_at_the_ends_of_their_range(board, model_bits):
    job = random_job(CONFIG, n_features=100, n_rows=20, batch=8, seed=0, speed=1e-9,
                     model_bits=model_bits, update_bits=2)
    for words in ([2**31 - 1, -2**31], [2**30, 0], [2**30 + 1], [-2**30], [1, 0], [0],
                  [(1 << model_bits - 1) - 1], [-(1 << model_bits - 1)], [3 << 20, -(1 << 21)]):
        words = np.array(words, np.int64).astype(np.int32)
        check(board, dataclasses.replace(job, model=np.resize(words, 100)))


@pytest.mark.parametrize("cycles", [30, 90, 300, 1200])
def test_abort(board, cycles):
    options = {"n_features": 100, "batch": 4, "model_bits": 5, "update_bits": 5, "warm": True,
               "correction_period": 8, "proximal_period": 16}
    long = random_job(CONFIG, n_rows=200, epochs=4, speed=0.01, **options)
    device = TestedDevice(board, during=lambda: device.write(0x20, 2), cycles=cycles)
    with pytest.raises(AbortedError):
        device.train(long)
    check(board, random_job(CONFIG, n_rows=30, **options))


@pytest.mark.parametrize("registers", [
    {"MODEL_BITS": 0}, {"MODEL_BITS": 1}, {"MODEL_BITS": 17}, {"UPDATE_BITS": 1},
    {"UPDATE_BITS": 17}, {"CORRECTION_PERIOD": 6}])
def test_wrong_registers_are_refused(board, registers):
    job = random_job(CONFIG, n_features=9, n_rows=50, batch=4, model_bits=3, update_bits=3,
                     correction_period=8)
    with pytest.raises(BadConfigurationError, match="refused its registers"):
        TestedDevice(board, registers=registers).train(job)
    check(board, job)


def test_jobs_without_a_model_of_few_bits_are_refused(board):
    config = dataclasses.replace(CONFIG, model_bits=0, rounded_updates=False)
    job = random_job(config, n_features=9, n_rows=5)
    with pytest.raises(DeviceError, match="model_bits must be from 2 to 16, not 0"):
        board.train(job)


def test_native_device_counts_the_cycles(board):
    job = random_job(CONFIG, n_features=30, n_rows=100, batch=16, model_bits=4, update_bits=4,
                     correction_period=16)
    assert CpuDevice(CONFIG).train(job).counters == board.train(job).counters


@pytest.mark.slow
@pytest.mark.parametrize("config", MORE, ids=lambda config: config.name)
def test_more_pipelines(config):
    with open_board(config) as device:
        check_many(device, 1, 150)
