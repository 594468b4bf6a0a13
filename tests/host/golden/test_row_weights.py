"""Weights of rows in the golden model, by hand, and on device cpu."""

from dataclasses import replace

import numpy as np
import pytest

from bitstep.cycles.shape import Shape
from bitstep.devices.cpu.device import CpuDevice
from bitstep.golden.sgd import train
from bitstep.golden.steps import row_mantissa, update_rules
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.job import EpochSteps
from bitstep.pipeline.memory import pack_codes, pack_labels
from bitstep.pipeline.registers import LabelFormat, Loss
from bitstep.pipeline.results import RunResult
from bitstep_sim.testing.bit_plane_jobs import random_bit_plane_job
from bitstep_sim.testing.random_jobs import random_job, random_jobs

CONFIG = PipelineConfig(bits=4, max_features=64, row_weights=True, proximal=True)
LOGISTIC = replace(CONFIG, loss_family="logistic", update_interval=6)


@pytest.mark.parametrize("mantissa, weight, row, key, expected", [
    (1000, 0, 3, 0xFFFF, 0), (1 << 16, 12345, 7, 99, 12345), (3 << 16, 65535, 9, 1, 3 * 65535),
    (1000, 32768, 0, 0, 500), (1001, 32768, 0, 0, 500), (1001, 32768, 0, 0x8000, 501),
    (1, 65535, 0, 0, 0), (1, 65535, 0, 1, 1),
    (1, 32768, 1, 0, 1),        # 40503 + 32768 is 73271
    ((1 << 18) - 1, 65535, 0, 0xFFFF, (1 << 18) - 4)])
def test_mantissa_of_a_row(mantissa, weight, row, key, expected):
    assert row_mantissa(mantissa, weight, row, key) == expected


@pytest.mark.parametrize("mantissa, weight", [(1000, 77), (262143, 1), (64, 40000)])
def test_mean_over_all_keys_is_exact(mantissa, weight):
    found = [row_mantissa(mantissa, weight, 5, key) for key in range(1 << 16)]
    assert sum(found) == mantissa * weight


def test_an_update_by_hand():
    job = random_job(CONFIG, n_features=3, n_rows=4, weighted=True)
    job = replace(job, weights=np.array([32768, 65535, 0, 16384], np.uint16))
    steps = EpochSteps(1 << 17, 2, key=0)
    rules = update_rules(job, steps)
    assert [rules(row)(1 << 17, 0, 0) for row in range(4)] == [
        1 << 17, (1 << 18) - 4, 0, 1 << 16]     # 2^16 2^17 2^-16 and so on


READ_AGAIN = PipelineConfig(bits=4, max_features=64, refetch=True, proximal=True, row_weights=True)


@pytest.mark.parametrize("weight, word", [
    (0, 80000), (16384, 505216), (32768, 930432), (65535, 1780838), (1, 80026)])
def test_a_row_that_is_read_again_by_hand(weight, word):
    """Code 3 stands for values from 2.5 to 3.5 levels, so 2 z for products from 400000 to 560000,
    with 2^19 between. The row's own value is 13288 / 2^12 levels: it is active. The mantissa is
    twice the weight and the update four times that, without a fraction; the word changes by
    13288 / 2^12 times the update, rounded.
    """
    job = random_job(READ_AGAIN, n_features=1, n_rows=1, loss=Loss.HINGE, cell_half_levels=1,
                     intercept=False, epochs=1)
    job = replace(
        job, rows=(pack_codes(np.array([[3]], np.uint8), 4, 64),), label_shift=18,
        fine_rows=np.array([[13288]], np.int16), model=np.array([80000], np.int32),
        labels=pack_labels(np.array([1]), LabelFormat.SIGN), epochs=(EpochSteps(1 << 17, 2),),
        weights=np.array([weight], np.uint16))
    epoch, = train(job)
    assert (epoch.model.tolist(), epoch.refetched_rows, epoch.overflow) == ([word], 1, 0)


def jobs():
    """Jobs of every loss and row format."""
    for config in (
            CONFIG, replace(CONFIG, bits=3, row_format="two_levels"), LOGISTIC,
            replace(CONFIG, bits=32, row_format="float32", update_interval=4),
            replace(CONFIG, bits=2, codebooks=True), replace(LOGISTIC, bits=1),
            replace(CONFIG, proximal=False, model_bits=6, rounded_updates=True)):
        losses = [Loss.LOGISTIC] if config.loss_family == "logistic" else [
            loss for loss in Loss if loss != Loss.LOGISTIC]
        few = {"model_bits": 6, "update_bits": 5} if config.model_bits else {}
        for loss in losses:
            for batch, period in ((1, 0), (4, 20)):
                yield random_job(config, n_features=17, n_rows=60, loss=loss, batch=batch,
                                 correction_period=period, weighted=True, **few)
    for options in ({}, {"lookahead": 3, "correction_period": 7}, {"proximal_period": 9}):
        config = replace(READ_AGAIN, lookahead=options.pop("lookahead", 0))
        yield random_job(config, n_features=17, n_rows=90, loss=Loss.HINGE, cell_half_levels=2,
                         warm=True, copies=2, weighted=True, **options)
    planes = PipelineConfig(bits=16, row_format="bit_planes", max_features=64, row_weights=True)
    for loss in Loss:
        config = replace(planes, loss_family="logistic", update_interval=6) \
            if loss == Loss.LOGISTIC else planes
        yield random_bit_plane_job(config, n_features=20, n_rows=50, planes=(4, 2, 9), loss=loss,
                                   weighted=True)


@pytest.mark.by_day(20)
@pytest.mark.parametrize("job", [*jobs()], ids=lambda job: f"{job.config.name}-{job.loss.name}")
def test_cpu(job):
    expected = list(train(job))
    assert not any(one.overflow for one in expected)
    result = CpuDevice(job.config).train(job)
    np.testing.assert_array_equal(result.models, [one.model for one in expected])
    assert result.intercepts.tolist() == [one.intercept for one in expected]
    assert (result.counters["refetched_rows"] or 0) == sum(one.refetched_rows for one in expected)
    plain = list(train(replace(job, weights=None)))
    assert (plain[-1].model != expected[-1].model).any()


def test_several_models():
    config = replace(CONFIG, models=3)
    drawn = random_jobs(config, 3, n_features=17, n_rows=60, weighted=True, loss=Loss.HINGE)
    for job, result in zip(drawn, CpuDevice(config).train_models(drawn), strict=True):
        assert isinstance(result, RunResult)
        np.testing.assert_array_equal(result.models, [one.model for one in train(job)])


def test_pipelines_without_weights_refuse_them():
    job = random_job(CONFIG, n_features=3, n_rows=4, weighted=True)
    with pytest.raises(ValueError, match=r"no weights of rows.*row_weights=True"):
        replace(job, config=replace(CONFIG, row_weights=False))


@pytest.mark.parametrize("models", [1, 3])
def test_packed_rows(models):
    """Those of every other pipeline, bit for bit, and their labels and weights take 32 bits a
    row: of a beat of 2 rows of 8 codes, a word.
    """
    config = replace(CONFIG, packed=True, lookahead=0, proximal=False, max_features=8,
                     models=models)
    drawn = random_jobs(config, models, n_features=7, n_rows=61, weighted=True, batch=3,
                        correction_period=6, loss=Loss.HINGE)
    other = replace(CONFIG, models=models)
    assert all(job.weights is not None for job in drawn)
    for job, result in zip(drawn, CpuDevice(config).train_models(drawn), strict=True):
        assert isinstance(result, RunResult)
        expected = [one.model for one in train(replace(job, config=other))]
        np.testing.assert_array_equal(result.models, expected)
        np.testing.assert_array_equal(result.models, [one.model for one in train(job)])
    with_weights, without = (Shape.of(job, config, None).label_words for job in (
        drawn[0], replace(drawn[0], weights=None)))
    assert (with_weights, without) == (31, 1)
