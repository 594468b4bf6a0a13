"""A model and updates of few bits on the native device: the golden model's integers."""

import dataclasses

import numpy as np
import pytest
from fakes import FakeDevice

from bitstep.devices import open_device
from bitstep.devices.golden import GoldenDevice
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.registers import Loss
from bitstep.pipeline.results import DeviceError, RangeOverflowError
from bitstep_sim.testing.random_jobs import random_job

pytest.importorskip("numba", reason="the native device needs numba")

from bitstep.devices.cpu.arithmetic import rounded
from bitstep.devices.cpu.device import CpuDevice
from bitstep.golden.dither import round_floating
from bitstep_sim.testing.kernels import for_python

FEW = [(2, 0), (0, 2), (2, 2), (3, 8), (8, 4), (16, 16)]


def outcome(device, job):
    """Models, intercepts, and the epoch and reason of an overflow."""
    try:
        result, ending = device.train(job), None
    except RangeOverflowError as error:
        result, ending = error.result, (error.epoch, error.overflow)
    return result.models.tolist(), result.intercepts.tolist(), ending


def job_of(config, *, model_bits, update_bits, **options):
    return dataclasses.replace(random_job(config, **options), model_bits=model_bits,
                               update_bits=update_bits)


@pytest.mark.covering(1)
@pytest.mark.parametrize("model_bits, update_bits", FEW)
@pytest.mark.parametrize("n_features, batch", [(256, 1), (256, 256), (4096, 16), (4095, 64),
                                               (63, 1), (65, 300)])
def test_sizes_that_users_have(model_bits, update_bits, n_features, batch):
    config = PipelineConfig(bits=4, bus_width=512, max_features=4096)
    job = job_of(config, model_bits=model_bits, update_bits=update_bits, n_features=n_features,
                 n_rows=300, batch=batch, seed=n_features, epochs=2, speed=0.2, warm=True,
                 correction_period=2 * batch)
    device = CpuDevice(config)
    expected = outcome(GoldenDevice(config), job)
    assert expected[2] is None
    # A second run leaves nothing of the first one.
    assert outcome(device, job) == expected
    assert outcome(device, job) == expected
    whole = dataclasses.replace(job, model_bits=0, update_bits=0)
    assert not 0 < model_bits <= 8 or outcome(device, whole)[0] != expected[0]


@pytest.mark.parametrize("model_bits, update_bits", FEW)
def test_proximal_steps(model_bits, update_bits):
    config = PipelineConfig(bits=4, max_features=256, proximal=True)
    for batch in (1, 16):
        job = job_of(config, model_bits=model_bits, update_bits=update_bits, n_features=256,
                     n_rows=300, batch=batch, seed=batch, epochs=2, speed=4.0, warm=True,
                     correction_period=2 * batch, proximal_period=3 * batch)
        assert outcome(CpuDevice(config), job) == outcome(GoldenDevice(config), job)


@pytest.mark.parametrize("bits", range(2, 17))
def test_every_width(bits):
    config = PipelineConfig(bits=3, max_features=100, lookahead=3)
    for loss in (Loss.LEAST_SQUARES, Loss.SQUARED_HINGE, Loss.HINGE):
        job = job_of(config, model_bits=bits, update_bits=18 - bits, n_features=91, n_rows=70,
                     batch=16, seed=bits, loss=loss, epochs=3, copies=2)
        assert outcome(CpuDevice(config), job) == outcome(GoldenDevice(config), job)


@pytest.mark.parametrize("model_bits", [2, 4, 16])
def test_words_at_the_ends_of_their_range(model_bits):
    config = PipelineConfig(bits=8, max_features=1024, bus_width=512)
    job = job_of(config, model_bits=model_bits, update_bits=2, n_features=1000, n_rows=40, batch=8,
                 seed=0, speed=1e-9)
    ends = np.array([2**31 - 1, -2**31, 2**30, 2**30 + 1, 0], np.int64).astype(np.int32)
    job = dataclasses.replace(job, model=np.resize(ends, 1000))
    assert outcome(CpuDevice(config), job) == outcome(GoldenDevice(config), job)


def test_updates_of_any_size():
    rng = np.random.default_rng(0)
    for _ in range(3000):
        shift, bits = int(rng.choice([8, 16, 24, 32, 56])), int(rng.integers(2, 17))
        factor = int(rng.integers(0, 1 << 18))
        value = int(rng.integers(-1 << 62, 1 << 62)) >> int(rng.integers(0, 62))
        dither = int(rng.integers(0, 1 << 16))
        expected = round_floating(factor * value, shift, dither, bits)
        found = for_python(rounded)(factor, value >> 24, value & (1 << 24) - 1, dither, shift, bits)
        fits = -1 << 31 <= expected < 1 << 31
        assert found == expected if fits else not -1 << 31 <= found < 1 << 31


@pytest.mark.parametrize("bits", [2, 3, 8, 16])
def test_updates_about_the_ends_of_their_range(bits):
    """-1.5 * 2^31 in 2 bits is -2 * 2^31, which is no update, or -2^31, which is the least one."""
    rounded_up = 0
    for whole in (1 << 31, 3 << 30, 1 << 32, 1 << 33):
        for value in (sign * whole + step for sign in (1, -1) for step in range(-2, 3)):
            for dither in (0, 1 << 15, (1 << 16) - 1):
                expected = round_floating(value << 8 | 255, 8, dither, bits)
                found = for_python(rounded)(1, (value << 8 | 255) >> 24,
                                            (value << 8 | 255) & (1 << 24) - 1, dither, 8, bits)
                fits = -1 << 31 <= expected < 1 << 31
                assert found == expected if fits else not -1 << 31 <= found < 1 << 31
                rounded_up += fits and value < -1 << 31
    assert rounded_up


def test_models_side_by_side():
    config = PipelineConfig(bits=4, max_features=256, lookahead=2)
    first = random_job(config, n_features=256, n_rows=130, seed=0, batch=64, epochs=2)
    jobs = [dataclasses.replace(first, model_bits=model_bits, update_bits=update_bits, batch=batch)
            for (model_bits, update_bits), batch in zip([(0, 0), *FEW], (64, 1, 16, 64, 256, 7, 1),
                                                        strict=True)]
    device = CpuDevice(config)
    assert device.joins(jobs)
    for job, result in zip(jobs, device.train_models(jobs), strict=True):
        assert not isinstance(result, RangeOverflowError)
        assert (result.models.tolist(), result.intercepts.tolist(), None) \
            == outcome(GoldenDevice(config), job)


def test_counters_that_are_known():
    config = PipelineConfig(bits=4, max_features=64)
    job = job_of(config, model_bits=4, update_bits=0, n_features=60, n_rows=50, seed=0)
    result = CpuDevice(config).train(job)
    # This pipeline has no such option, so nothing is said about its cycles.
    assert result.counters["cycles"] is None
    assert result.epoch_cycles is None
    assert result.counters["beats"] == 2 * 50 * job.beats
    able = dataclasses.replace(config, model_bits=4)
    there = CpuDevice(able).train(dataclasses.replace(job, config=able))
    assert there.epoch_cycles is not None
    assert there.counters["cycles"] == there.epoch_cycles[-1] + 64
    assert there.models.tolist() == result.models.tolist()


@pytest.mark.parametrize("bits", [{"model_bits": 4}, {"update_bits": 6}])
def test_a_board_refuses(bits):
    config = PipelineConfig(bits=4, max_features=64)
    job = dataclasses.replace(random_job(config, n_features=9, n_rows=5, seed=0), **bits)
    board = FakeDevice(config)
    text = "of all bits, and a job asks for [46] bits: build a pipeline for that"
    with pytest.raises(DeviceError, match=text):
        board.train(job)
    able = dataclasses.replace(config, model_bits=4, rounded_updates=True)
    with pytest.raises(DeviceError, match=r"No pipeline for 2 models in a pass: .* models out"):
        open_device("sim", able, few_bits=True, models=2)
    with open_device("golden", config, few_bits=True) as device:
        assert device.train(job).epochs_done == len(job.epochs)
