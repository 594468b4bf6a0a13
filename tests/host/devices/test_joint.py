"""Models that one pass over the rows trains: each is bit for bit the one that is trained alone."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bitstep.devices.golden import GoldenDevice
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.device import share_rows
from bitstep.pipeline.job import EpochSteps
from bitstep.pipeline.registers import LabelFormat, Loss
from bitstep.pipeline.results import (
    RangeOverflowError,
    RunTimeoutError,
    TrainingInterrupted,
)
from bitstep_sim.testing.random_jobs import random_job

pytest.importorskip("numba", reason="the native device needs numba")

from bitstep.devices.cpu import joint, portions
from bitstep.devices.cpu.device import CpuDevice

FORMATS = [("one_level", bits) for bits in range(1, 9)] \
    + [("two_levels", bits) for bits in range(2, 9)]
FEW_BITS = st.sampled_from([0, 2, 5, 16])       # of the model and of updates


def sharing(job, others):
    """Jobs on the rows of the first one, with all else of their own."""
    return [job] + [dataclasses.replace(other, rows=job.rows, codebooks=job.codebooks)
                    for other in others]


def alone(job, kind) -> Any:
    try:
        return kind(job.config).train(job)
    except RangeOverflowError as error:
        return error


def together(device, jobs, **options) -> Any:
    return device.train_models(jobs, **options)


def compare(jobs, device=None, kind: Any = GoldenDevice):
    """Train jobs side by side, and each by itself; return the errors' epochs."""
    device = device or CpuDevice(jobs[0].config)
    assert device.joins(jobs)
    endings = []
    for own, expected in zip(together(device, jobs), [alone(job, kind) for job in jobs],
                             strict=True):
        assert isinstance(own, RangeOverflowError) == isinstance(expected, RangeOverflowError)
        if isinstance(own, RangeOverflowError):
            assert (own.epoch, own.overflow) == (expected.epoch, expected.overflow)
            endings.append(own.epoch)
            own, expected = own.result, expected.result
        assert np.array_equal(own.models, expected.models)
        assert np.array_equal(own.intercepts, expected.intercepts)
        known = {name: value for name, value in expected.counters.items() if value is not None}
        assert {name: own.counters[name] for name in known} == known
    return endings


@st.composite
def passes(draw):
    """Jobs of one pass: all but rows, shape and epochs differs; one in some overflows."""
    row_format, bits = draw(st.sampled_from(FORMATS))
    solver = draw(st.sampled_from(["linear", "linear", "logistic"]))
    n_features = draw(st.sampled_from([1, 7, 8, 9, 31, 33, 64, 100]))
    config = PipelineConfig(
        bits=bits, row_format=row_format, max_features=n_features,
        lookahead=draw(st.integers(0, 8)),
        codebooks=row_format == "one_level" and bits <= 5 and draw(st.booleans()),
        loss_family=solver, update_interval=6 if solver == "logistic" else 2, proximal=True)
    shape = {"n_features": n_features, "n_rows": draw(st.integers(1, 60)),
             "epochs": draw(st.integers(1, 3)), "copies": draw(st.integers(1, 3))}
    jobs = []
    for _ in range(draw(st.sampled_from([1, 2, 3, 8]))):
        batch = draw(st.sampled_from([1, 1, 2, 3, 16]))
        periods = st.integers(0, 4).map(lambda count, batch=batch: batch * count)
        proximal_period = draw(periods)
        jobs.append(random_job(
            config, **shape, batch=batch, seed=draw(st.integers(0, 1 << 30)),
            loss=Loss.LOGISTIC if solver == "logistic" else draw(st.sampled_from(
                [Loss.LEAST_SQUARES, Loss.SQUARED_HINGE, Loss.HINGE])),
            correction_period=draw(periods), proximal_period=proximal_period,
            label_format=draw(st.sampled_from(list(LabelFormat))), intercept=draw(st.booleans()),
            warm=draw(st.booleans()),
            speed=draw(st.sampled_from([0.5, 4.0] if proximal_period else [0.5, 4.0, 1e3, 1e6]))))
        if draw(st.booleans()):
            jobs[-1] = dataclasses.replace(jobs[-1], model_bits=draw(FEW_BITS),
                                           update_bits=draw(FEW_BITS))
    return sharing(jobs[0], jobs[1:])


@settings(max_examples=60,
          suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(passes())
def test_any_models(jobs):
    compare(jobs)


@pytest.mark.parametrize("row_format, bits", [("one_level", 1), ("one_level", 4), ("one_level", 7),
                                              ("two_levels", 5)])
@pytest.mark.parametrize("n_features, batches", [(256, (1, 64, 256)), (4096, (1, 7)),
                                                 (4095, (64, 3))])
def test_sizes_that_users_have(row_format, bits, n_features, batches):
    config = PipelineConfig(bits=bits, row_format=row_format, bus_width=512, max_features=4096,
                            lookahead=2)
    jobs = [random_job(config, n_features=n_features, n_rows=300, batch=batch, seed=batch + bits,
                       correction_period=2 * batch, epochs=2, speed=0.2) for batch in batches]
    assert compare(sharing(jobs[0], jobs[1:]), kind=CpuDevice) == []


def narrow_jobs(count, *, n_rows=65, epochs=3, **options):
    """Jobs on common rows of 33 features."""
    config = PipelineConfig(bits=4, max_features=40, lookahead=3)
    jobs = [random_job(config, n_features=33, n_rows=n_rows, epochs=epochs, seed=seed, **options)
            for seed in range(count)]
    return sharing(jobs[0], jobs[1:])


def test_tiles_and_portions_that_divide_nothing(monkeypatch):
    monkeypatch.setattr(portions, "PORTION_ROWS", 24)
    monkeypatch.setattr(joint, "MAX_TILE_ROWS", 5)
    compare(narrow_jobs(3, n_rows=203, batch=5, correction_period=35))


def test_common_labels_and_keys():
    """A sweep: one stream of labels, one key an epoch, other steps and units of the labels."""
    first = narrow_jobs(1)[0]
    steps = [tuple(EpochSteps(entry.mantissa >> k, entry.shift, key=entry.key)
                   for entry in first.epochs) for k in range(3)]
    compare([dataclasses.replace(first, epochs=entries, label_shift=first.label_shift - k)
             for k, entries in enumerate(steps)])


def test_one_that_leaves_its_range_does_not_end_the_others():
    jobs = narrow_jobs(3)
    wild = tuple(EpochSteps((1 << 18) - 1, 1, key=entry.key) for entry in jobs[1].epochs)
    jobs[1] = dataclasses.replace(jobs[1], epochs=(jobs[1].epochs[0], *wild[1:]))
    assert compare(jobs) == [2]
    seen = []
    found = together(CpuDevice(jobs[0].config), jobs, on_epoch=seen.append, to_the_end=False)
    assert [len((one.result if isinstance(one, RangeOverflowError) else one).models)
            for one in found] == [1, 1, 1]      # of 3: the second epoch counts for none
    assert seen == [1, 2, 3]


@pytest.mark.parametrize("rows", [8, 1000])
def test_all_that_leave_their_range_in_the_last_epoch_are_told(monkeypatch, rows):
    """Wherever in that epoch, in whatever portions it is computed."""
    monkeypatch.setattr(portions, "PORTION_ROWS", rows)
    jobs = narrow_jobs(4)
    for number, mantissa in ((1, (1 << 18) - 1), (2, 1 << 13)):
        steps = tuple(EpochSteps(mantissa, 1, key=entry.key) for entry in jobs[number].epochs)
        jobs[number] = dataclasses.replace(jobs[number], epochs=(jobs[number].epochs[0],
                                                                 *steps[1:]))
    assert compare(jobs) == [2, 2]
    found = together(CpuDevice(jobs[0].config), jobs, to_the_end=False)
    assert [isinstance(one, RangeOverflowError) for one in found] == [False, True, True, False]
    for one, job in zip(found, jobs, strict=True):
        result = one.result if isinstance(one, RangeOverflowError) else one
        np.testing.assert_array_equal(
            result.models, GoldenDevice(job.config).train(dataclasses.replace(
                job, epochs=job.epochs[:1])).models)


def test_second_run_is_as_the_first():
    device, jobs = CpuDevice(narrow_jobs(1)[0].config), narrow_jobs(8, correction_period=3)
    first = [one.models for one in together(device, jobs)]
    wild = tuple(EpochSteps((1 << 18) - 1, 1) for _ in jobs[0].epochs)
    lost = together(device, [dataclasses.replace(job, epochs=wild) for job in jobs])
    assert all(isinstance(one, RangeOverflowError) for one in lost)
    assert all(map(np.array_equal, [one.models for one in together(device, jobs)], first))
    compare(jobs[2:], device)


@pytest.mark.parametrize("kind", [CpuDevice, GoldenDevice])
def test_interrupt_keeps_the_finished_epochs(kind):
    jobs = narrow_jobs(2, epochs=5)

    def on_epoch(done):
        if done == 4:
            raise KeyboardInterrupt
    with pytest.raises(TrainingInterrupted) as caught:
        kind(jobs[0].config).train_models(jobs, on_epoch=on_epoch)
    assert isinstance(caught.value, TrainingInterrupted)
    outcomes: Any = caught.value.outcomes
    counts = [one.epochs_done for one in outcomes]
    assert counts == ([2, 2] if kind is CpuDevice else [4])
    for outcome, job in zip(outcomes, jobs, strict=False):
        expected = GoldenDevice(job.config).train(job).models
        assert np.array_equal(outcome.models, expected[:outcome.epochs_done])


def test_time_limit():
    jobs = narrow_jobs(2)
    with pytest.raises(RunTimeoutError, match="of 2 models, more than the limit"):
        CpuDevice(jobs[0].config).train_models(jobs, timeout_s=1e-9)


def test_other_rows_are_trained_one_job_after_the_other():
    config = PipelineConfig(bits=4, max_features=40, lookahead=3)
    jobs = [random_job(config, n_features=33, n_rows=20, seed=seed) for seed in range(2)]
    device = CpuDevice(config)
    assert not share_rows(*jobs)
    assert not device.joins(jobs)
    for own, job in zip(together(device, jobs), jobs, strict=True):
        assert np.array_equal(own.models, GoldenDevice(config).train(job).models)


@pytest.mark.parametrize("options, cell", [
    ({"bits": 32, "row_format": "float32"}, 0), ({"bits": 8, "refetch": True}, 1)])
def test_rows_that_are_not_shared(options, cell):
    """Floating-point rows, and rows that are fetched again."""
    config = PipelineConfig(max_features=40, lookahead=3, **options)
    job = random_job(config, n_features=33, n_rows=20, cell_half_levels=cell,
                     loss=Loss.HINGE if cell else Loss.LEAST_SQUARES)
    jobs, device = [job, dataclasses.replace(job, epochs=job.epochs[::-1])], CpuDevice(config)
    assert not device.joins(jobs)
    for own, one in zip(together(device, jobs), jobs, strict=True):
        assert np.array_equal(own.models, GoldenDevice(config).train(one).models)
