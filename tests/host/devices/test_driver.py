"""Jobs on a device behind registers and on the golden device: the same call and results."""

import dataclasses
import itertools
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fakes import DEVICES, FakeDevice, make_job
from hypothesis import given, settings
from hypothesis import strategies as st

from bitstep.devices.driver import RegisterRun
from bitstep.devices.progress import RunProgress
from bitstep.devices.register_device import GradientRun
from bitstep.golden.sgd import train
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.job import EpochSteps
from bitstep.pipeline.registers import (
    COUNTERS,
    MAP_VERSION,
    OFFSETS,
    Control,
    Error,
    LabelFormat,
    Loss,
    Overflow,
    Status,
)
from bitstep.pipeline.results import (
    AbortedError,
    BadConfigurationError,
    BusError,
    DeviceError,
    RangeOverflowError,
    RunError,
    RunTimeoutError,
    TrainingInterrupted,
)
from bitstep_sim.testing.bit_plane_jobs import random_bit_plane_job
from bitstep_sim.testing.random_jobs import random_job as simulated_job

CONFIG = PipelineConfig(bits=3, max_features=64)        # 21 lanes, 22 words a beat


def random_job(n_features=25, n_rows=10, epochs=3, config=CONFIG, **changes):
    rng = np.random.default_rng(n_features)
    levels = rng.integers(-3, 4, (n_rows, n_features))
    labels = rng.integers(-100, 100, n_rows)
    return make_job(levels, labels, config=config, mantissa=3, epochs=epochs, label_shift=8,
                    intercept_level=3, **changes)


def whole_job(**changes):
    """Every buffer in use: two copies, first model, corrections, batches."""
    job = random_job(batch=2, correction_period=4,
                     coefficients=np.arange(-12, 13, dtype=np.int32) * 1000,
                     model=np.arange(25, dtype=np.int32), intercept=-77,
                     epochs=3)
    epochs = tuple(EpochSteps(3 + epoch, 1, 9 + epoch, 3) for epoch in range(3))
    return dataclasses.replace(job, rows=(job.rows[0], job.rows[0][::-1].copy()), epochs=epochs,
                               **changes)


def small_job():
    return random_job(n_features=3)


NEW_JOBS = {                        # what register or buffer each is about: configuration, changes
    "loss": ({}, {"loss": Loss.SQUARED_HINGE}),
    "logistic": ({"loss_family": "logistic", "update_interval": 6}, {"loss": Loss.LOGISTIC}),
    "proximal": ({"proximal": True}, {"proximal_period": 5}),
    "codebooks": ({"codebooks": True}, {"n_features": 64}),
    "fine rows": ({"refetch": True, "lookahead": 0}, {"loss": Loss.HINGE, "cell_half_levels": 2}),
    "wider fine rows": ({"refetch": True, "lookahead": 0, "bits": 1},
                        {"loss": Loss.HINGE, "cell_half_levels": 4, "copies": 2, "n_features": 64}),
    "float32": ({"bits": 32, "row_format": "float32", "proximal": True},
              {"loss": Loss.HINGE, "proximal_period": 3, "copies": 2}),
    "float32, corrected": ({"bits": 32, "row_format": "float32", "bus_width": 512},
                         {"correction_period": 10, "warm": True}),
}


def new_job(name):
    config, changes = NEW_JOBS[name]
    return simulated_job(dataclasses.replace(CONFIG, **config),
                         **{"n_features": 43, "n_rows": 30, "epochs": 3} | changes)


def overflowing_job():
    return make_job([[3, 3]] * 4, [1000, 900, 800, 700], config=CONFIG, mantissa=60, epochs=9)


@pytest.mark.parametrize("kind", DEVICES.values(), ids=DEVICES)
@pytest.mark.parametrize("make", [random_job, whole_job, small_job])
def test_every_epoch_as_golden(kind, make):
    job, seen = make(), []
    expected = list(train(job))
    device = kind(CONFIG)
    result = device.train(job, on_epoch=seen.append)
    assert result.models.dtype == result.intercepts.dtype == np.int32
    np.testing.assert_array_equal(result.models, [epoch.model for epoch in expected])
    np.testing.assert_array_equal(result.intercepts, [epoch.intercept for epoch in expected])
    assert result.epochs_done == 3
    assert seen == [1, 2, 3]
    assert list(result.counters) == [name.lower() for name, _ in COUNTERS]
    assert result.counters["beats"] == 3 * job.n_rows * job.beats
    assert getattr(device, "buffers", []) == []


@pytest.mark.parametrize("kind", DEVICES.values(), ids=DEVICES)
@pytest.mark.parametrize("name", NEW_JOBS)
def test_losses_and_options_as_golden(kind, name):
    job = new_job(name)
    expected = list(train(job))
    assert not any(epoch.overflow for epoch in expected)
    device = kind(job.config)
    result = device.train(job)
    np.testing.assert_array_equal(result.models, [epoch.model for epoch in expected])
    np.testing.assert_array_equal(result.intercepts, [epoch.intercept for epoch in expected])
    refetched = sum(epoch.refetched_rows for epoch in expected)
    assert result.counters["refetched_rows"] == refetched
    assert (refetched > 0) == bool(job.cell_half_levels)
    assert getattr(device, "buffers", []) == []


@given(bits=st.integers(1, 8), bus_width=st.sampled_from([64, 128, 512]),
       n_features=st.integers(1, 150), n_rows=st.integers(1, 9), seed=st.integers(0, 1000))
@settings(max_examples=40)
def test_any_layout_of_fine_rows(bits, bus_width, n_features, n_rows, seed):
    config = PipelineConfig(bits=bits, bus_width=bus_width, max_features=150, refetch=True,
                            lookahead=0)
    job = simulated_job(config, n_features=n_features, n_rows=n_rows, seed=seed, loss=Loss.HINGE,
                        cell_half_levels=4)
    device = FakeDevice(config)
    device.train(job)
    np.testing.assert_array_equal(device.job().fine_rows, job.fine_rows)


def test_unused_registers_are_written():
    """A run after one that refetched must not do so, too."""
    device = FakeDevice(dataclasses.replace(CONFIG, refetch=True, lookahead=0))
    assert device.train(new_job("fine rows")).counters["refetched_rows"]
    job = small_job()
    result = device.train(dataclasses.replace(job, config=device.config))
    assert result.counters["refetched_rows"] == device.get("CELL_HALF_LEVELS") == 0
    np.testing.assert_array_equal(result.models, [epoch.model for epoch in train(job)])


@pytest.mark.parametrize("label_format", LabelFormat)
def test_label_formats(label_format):
    job = make_job([[1, 2], [3, -1], [2, 2]], [1, -1, -1], config=CONFIG, label_shift=8,
                   label_format=label_format)
    result = FakeDevice(CONFIG).train(job)
    np.testing.assert_array_equal(result.models, [epoch.model for epoch in train(job)])


@given(bits=st.integers(1, 8), bus=st.sampled_from([(64, 1), (128, 1), (512, 1), (128, 2),
                                                     (512, 2), (256, 4), (512, 4)]),
       n_features=st.integers(1, 150), n_rows=st.integers(1, 9), batch=st.integers(1, 3),
       corrected=st.booleans(), seed=st.integers(0, 1000))
@settings(max_examples=60)
def test_any_layout(bits, bus, n_features, n_rows, batch, corrected, seed):
    bus_width, row_ports = bus
    config = PipelineConfig(bits=bits, bus_width=bus_width, row_ports=row_ports, max_features=150)
    rng = np.random.default_rng(seed)
    levels = rng.choice([-1, 1], (n_rows, n_features)) * rng.integers(
        1, config.rows.level_limit + 1, (n_rows, n_features))
    job = make_job(levels, rng.integers(-99, 99, n_rows), config=config, mantissa=99, shift=2,
                   epochs=2, batch=batch, label_shift=6,
                   correction_period=batch * 2 if corrected else 0,
                   coefficients=rng.integers(-2**17, 2**17, n_features).astype(np.int32),
                   model=rng.integers(-999, 999, n_features).astype(np.int32), intercept=seed,
                   intercept_level=config.rows.level_limit)
    expected = [epoch for epoch in train(job) if not epoch.overflow]
    try:
        result = FakeDevice(config).train(job)
    except RangeOverflowError as error:
        result = error.result
    models = np.array([epoch.model for epoch in expected]).reshape(-1, n_features)
    np.testing.assert_array_equal(result.models, models)
    np.testing.assert_array_equal(result.intercepts, [epoch.intercept for epoch in expected])


def test_lookahead_of_the_run():
    device = FakeDevice(CONFIG)         # lookahead 8
    device.train(small_job())
    assert device.get("LOOKAHEAD") == min(8, CONFIG.stages.required_lookahead(1))
    device = FakeDevice(dataclasses.replace(CONFIG, lookahead=1))
    device.train(small_job())
    assert device.get("LOOKAHEAD") == 1


@pytest.mark.parametrize("kind", DEVICES.values(), ids=DEVICES)
def test_lookahead_of_floating_point_rows_is_the_job_s(kind):
    config = PipelineConfig(bits=32, row_format="float32", max_features=8, minibatch=False)
    found = []
    for lookahead in (0, 3, 8):
        job = simulated_job(dataclasses.replace(config, lookahead=lookahead), n_features=8,
                            n_rows=200, warm=True)
        result = kind(config).train(job)
        np.testing.assert_array_equal(result.models, [epoch.model for epoch in train(job)])
        found.append(result.models.tolist())
    assert found[0] != found[1] != found[2] != found[0]


def test_margin_of_a_look_ahead():
    """As docs/registers.md has it: half levels, rows, features and the largest level multiplied."""
    config = dataclasses.replace(CONFIG, refetch=True, lookahead=5)
    job = simulated_job(config, n_features=43, n_rows=9, loss=Loss.HINGE, cell_half_levels=2)
    device = FakeDevice(config)
    device.train(job)
    assert device.get("LOOKAHEAD_MARGIN") == 2 * 5 * 43 * 3
    device.train(simulated_job(config, n_features=43, n_rows=9, loss=Loss.HINGE))
    assert device.get("LOOKAHEAD_MARGIN") == 0


def test_second_model_may_be_the_only_warm_one():
    config = dataclasses.replace(CONFIG, models=2)
    cold = random_job(config=config)
    warm = dataclasses.replace(cold, model=np.arange(25, dtype=np.int32), intercept=-7)
    device = FakeDevice(config)
    with device.begin([cold, warm]) as run:
        assert isinstance(run, RegisterRun)
        assert device.get("WARM_START") == 1
        words = device.take(device.pair("MODEL_IN_ADDRESS"), 2 * run.layout.n_bytes).view("<i4")
        models, intercepts = run.layout.unpack(words.reshape(2, -1))
    assert models.tolist() == [[0] * 25, [*range(25)]]
    assert intercepts.tolist() == [0, -7]


def test_close():
    device = FakeDevice(CONFIG)
    with device:
        device.train(small_job())
    assert device.closed


# Refused before anything is transferred

@pytest.mark.parametrize("options, message", [
    ({"version": 7}, f"version 7 of the register map, not {MAP_VERSION}: load a bitstream"),
    ({"identity": 5}, r"identifies itself as 0{31}5, not 0123456789abcdef.*another bitstream"),
    ({"alignment": 4}, "where .* bytes aligned to 8 are needed")])
def test_not_the_expected_device(options, message):
    device = FakeDevice(CONFIG, **options)
    with pytest.raises(DeviceError, match=message):
        device.train(small_job())
    assert device.log == []
    assert not device.memory.any()
    assert device.buffers == []


@pytest.mark.parametrize("kind", DEVICES.values(), ids=DEVICES)
@pytest.mark.parametrize("change, make, message", [
    ({"bits": 4}, small_job, "job is for 3 bits, .* open the device with the job's configuration"),
    ({"bus_width": 128}, small_job,
     "a 64-bit bus and row format 'one_level', the device has .* 128-bit"),
    ({"max_features": 21}, random_job, "1 to 21 features for this pipeline, not 25; build one"),
    ({"minibatch": False}, whole_job, "no mini-batches, so batch must be 1, not 2"),
    ({"corrections": False}, whole_job, "no diagonal corrections"),
    ({}, lambda: new_job("proximal"), "no proximal steps.* build one with proximal=True"),
    ({"lookahead": 0}, lambda: new_job("fine rows"), "no refetching.* refetch=True"),
    ({}, lambda: new_job("logistic"), "for loss family 'logistic', the device has .* 'linear'"),
    ({"loss_family": "logistic", "update_interval": 6}, small_job,
     "for loss family 'linear', the device has .* 'logistic'"),
    ({}, lambda: new_job("float32"), "a 64-bit bus and row format 'float32', the device has"),
    ({"bits": 32, "row_format": "float32", "proximal": True, "lookahead": 0},
     lambda: new_job("float32"), "for a look-ahead of 1 rows, which is part of the result"),
])
def test_job_for_another_pipeline(kind, change, make, message):
    device = kind(dataclasses.replace(CONFIG, **change))
    with pytest.raises(DeviceError, match=message):
        device.train(make())
    assert getattr(device, "log", []) == []


def test_every_job_of_a_run_is_for_the_pipeline():
    device = FakeDevice(CONFIG)
    with pytest.raises(DeviceError, match="job is for 4 bits"):
        device.begin([small_job(), make_job([[1, 2]], [1], bits=4)])
    assert device.log == []


def test_few_bits_that_a_pipeline_does_not_have():
    device = FakeDevice(CONFIG)
    for changes, needed in (({"model_bits": 4}, "--model-bits 4"),
                            ({"update_bits": 4}, "--rounded-updates")):
        with pytest.raises(DeviceError, match=rf"a job asks for 4 bits: .*bitstep rtl {needed}"):
            device.train(dataclasses.replace(small_job(), **changes))
    rounding = FakeDevice(dataclasses.replace(CONFIG, rounded_updates=True))
    rounding.begin([dataclasses.replace(small_job(), update_bits=4)]).close()
    assert rounding.get("UPDATE_BITS") == 4
    assert device.log == []


def test_buffer_that_is_too_small(monkeypatch):
    allocate = FakeDevice.allocate
    monkeypatch.setattr(FakeDevice, "allocate", lambda self, n_bytes: allocate(self, n_bytes - 8))
    device = FakeDevice(CONFIG)
    with pytest.raises(DeviceError, match=r"gave 72 bytes at address 0x\w+ where 80 bytes aligned"):
        device.train(small_job())
    assert device.buffers == device.log == []


def test_gradients_are_of_the_expected_device_too():
    config = PipelineConfig(bits=16, row_format="bit_planes", max_features=64)
    job = random_bit_plane_job(config, n_features=40, n_rows=9)
    with pytest.raises(DeviceError, match="another bitstream is loaded"):
        FakeDevice(config, identity=5).gradient(job)


def test_a_gradient_has_no_corrections_and_proximal_steps():
    """Neither is a part of the loss whose gradient it is."""
    config = PipelineConfig(bits=16, row_format="bit_planes", max_features=64, proximal=True)
    job = random_bit_plane_job(config, n_features=40, n_rows=9, correction_period=2,
                               proximal_period=4)
    device = FakeDevice(config)
    GradientRun(device, job, 60.0).close()
    assert (device.get("GRADIENT"), device.get("BATCH")) == (1, 9)
    assert device.get("CORRECTION_PERIOD") == device.get("PROXIMAL_PERIOD") == 0


def test_not_enough_memory():
    device = FakeDevice(CONFIG)
    device.memory = np.zeros(16384, np.uint8)
    with pytest.raises(MemoryError, match="bytes are wanted"):
        device.train(small_job())
    assert device.buffers == []


# Errors of a run

@pytest.mark.parametrize("error, kind, message", [
    (Error.ROW_READ, BusError, "read of the rows with an error in epoch 3 of 5"),
    (Error.AUX_READ, BusError, "labels, epoch table, initial model or coefficients"),
    (Error.MODEL_WRITE, BusError, "write of the model with an error in epoch 3 of 5"),
    (Error.BAD_CONFIGURATION, BadConfigurationError, "refused its registers.*rebuild"),
    (Error.ABORTED, AbortedError, "aborted in epoch 3 of 5, not by this program"),
    (13, RunError, "unknown error code 13")])
def test_error_codes(error, kind, message):
    job = random_job(epochs=5)
    device = FakeDevice(CONFIG, fault=(2, error))
    with pytest.raises(kind, match=message) as caught:
        device.train(job)
    assert caught.value.result.epochs_done == 2
    np.testing.assert_array_equal(caught.value.result.models,
                                  [epoch.model for epoch in train(job)][:2])
    assert device.buffers == []


@pytest.mark.parametrize("kind", DEVICES.values(), ids=DEVICES)
def test_overflow_names_epoch_and_remedy(kind):
    job = overflowing_job()
    *finished, last = train(job)
    assert last.overflow
    assert 1 <= len(finished) < 8
    with pytest.raises(RangeOverflowError) as caught:
        kind(CONFIG).train(job)
    error = caught.value
    assert (error.epoch, error.overflow) == (len(finished) + 1, last.overflow)
    assert str(error) == (
        f"Training left the number range in epoch {len(finished) + 1}: a weight or the "
        "intercept. Choose a smaller step, or a larger model_range if the model itself is large")
    np.testing.assert_array_equal(error.result.models, [epoch.model for epoch in finished])


@pytest.mark.parametrize("overflow, what", [
    (Overflow.MODEL, "a weight or the intercept"),
    (Overflow.CORRECTION, "a diagonal correction"),
    (Overflow.UPDATE | Overflow.MODEL, "an update .* and a weight"), (0, "an unknown value")])
def test_what_overflowed(monkeypatch, overflow, what):
    device = FakeDevice(CONFIG, fault=(1, Error.OVERFLOW))
    step = device.step

    def leave_the_range():
        device.set("OVERFLOW", overflow)
        step()

    monkeypatch.setattr(device, "step", leave_the_range)
    with pytest.raises(RangeOverflowError, match=f"in epoch 2: {what}"):
        device.train(small_job())


def test_run_that_ends_too_early():
    device = FakeDevice(CONFIG, early=True)
    with pytest.raises(DeviceError, match="end of the run after 1 of 3 epochs, without an error"):
        device.train(small_job())


def test_run_that_failed_without_an_error(monkeypatch):
    """STATUS says so, whatever ERROR does: its models are not taken for right."""
    def end(self, error=Error.NONE):
        self.set("STATUS", Status.DONE | Status.FAILED)
        self.run = None

    monkeypatch.setattr(FakeDevice, "end", end)
    with pytest.raises(RunError, match="in epoch 4 of 3 with the unknown error code 0"):
        FakeDevice(CONFIG).train(small_job())


@pytest.mark.parametrize("deaf, ending", [
    (False, "the run was aborted$"), (True, "told to abort but did not: reset the device$")])
def test_timeout(monkeypatch, deaf, ending):
    if deaf:                    # the other has the usual time, however busy the machine
        monkeypatch.setattr("bitstep.devices.driver.ABORT_TIMEOUT_S", 0.05)
    job = random_job(epochs=4)
    device = FakeDevice(CONFIG, hang=2, deaf=deaf)
    with pytest.raises(RunTimeoutError, match=ending) as caught:
        device.train(job, timeout_s=0.1)
    assert isinstance(caught.value, TimeoutError)
    waited, where = str(caught.value).split(" s (", 1)
    assert waited.startswith("Device 'fake' made no progress for ")
    assert float(waited.split()[-1]) >= 0.1         # more on a busy machine
    assert where.startswith("STATUS 0x00000001, 2 of 4 epochs done, 40 row beats")
    assert caught.value.result.epochs_done == 2
    assert bool(device.buffers) is deaf     # it may still be writing its models there
    device.deaf, device.hang = False, None
    assert device.train(small_job()).epochs_done == 3
    assert device.buffers == []


def test_callback_may_take_longer_than_the_time_limit():
    """The limit is of the device, which goes on meanwhile."""
    seen = []

    def slow(done):
        seen.append(done)
        time.sleep(0.15)

    assert FakeDevice(CONFIG).train(small_job(), timeout_s=0.1, on_epoch=slow).epochs_done == 3
    assert seen == [1, 2, 3]


@pytest.mark.parametrize("what", ["Ctrl-C", "a line that is dead"])
def test_memory_stays_where_the_abort_fails(monkeypatch, what):
    device = FakeDevice(CONFIG, hang=0)

    def fail(run):
        raise KeyboardInterrupt if what == "Ctrl-C" else DeviceError(what)

    run = device.begin([small_job()], timeout_s=0.05)
    with monkeypatch.context() as patch:
        patch.setattr(RegisterRun, "abort", fail)
        with pytest.raises((KeyboardInterrupt, DeviceError)), run:
            next(run.epochs())
    assert device.buffers
    device.hang = None
    assert device.train(small_job()).epochs_done == 3
    assert device.buffers == []


def test_pipeline_that_runs_wild_is_stopped():
    device = FakeDevice(CONFIG, hang=0, wild=True)
    with pytest.raises(RunTimeoutError, match="no progress"):
        device.train(small_job(), timeout_s=0.1)
    assert device.get("ERROR") == Error.ABORTED


def test_golden_timeout(monkeypatch):
    clock = iter(range(0, 1000, 10))
    # Its own clock alone: threads of other libraries ask for the time, too.
    monkeypatch.setattr("bitstep.devices.software.time",
                        SimpleNamespace(monotonic=lambda: next(clock)))
    with pytest.raises(RunTimeoutError, match=r"took 10\.0 s for an epoch, more than the limit"):
        DEVICES["golden"](CONFIG).train(small_job(), timeout_s=5)


def test_interrupt_keeps_finished_epochs():
    job = random_job(epochs=6)
    device = FakeDevice(CONFIG, interrupt=3)
    with pytest.raises(TrainingInterrupted, match="after 3 epochs") as caught:
        device.train(job)
    np.testing.assert_array_equal(caught.value.result.models,
                                  [epoch.model for epoch in train(job)][:3])
    assert device.get("ERROR") == Error.ABORTED
    assert device.buffers == []


def test_interrupt_before_the_start_arrives(monkeypatch):
    """What the registers then tell is of the run before: no epoch of it, and no counter."""
    device = FakeDevice(CONFIG)
    device.train(random_job())
    write = FakeDevice.write

    def interrupted(self, offset, value):
        if offset == OFFSETS["CONTROL"] and value & Control.START:
            raise KeyboardInterrupt
        write(self, offset, value)

    monkeypatch.setattr(FakeDevice, "write", interrupted)
    with pytest.raises(TrainingInterrupted, match="after 0 epochs") as caught:
        device.train(random_job(epochs=6))
    assert caught.value.result.models.shape == (0, 25)
    assert not any(caught.value.result.counters.values())
    monkeypatch.undo()
    device.train(random_job())
    assert device.buffers == []


@pytest.mark.parametrize("kind", DEVICES.values(), ids=DEVICES)
def test_interrupt_in_the_callback(kind):
    def interrupt(epochs_done):
        if epochs_done == 2:
            raise KeyboardInterrupt
    with pytest.raises(TrainingInterrupted) as caught:
        kind(CONFIG).train(random_job(epochs=6), on_epoch=interrupt)
    assert isinstance(caught.value, KeyboardInterrupt)
    assert caught.value.result.epochs_done == 2


def test_error_in_the_callback_aborts():
    device = FakeDevice(CONFIG)

    def fail(epochs_done):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        device.train(random_job(), on_epoch=fail)
    assert not device.get("STATUS") & Status.BUSY
    assert device.buffers == []


def test_error_in_the_callback_is_told_where_the_abort_fails(monkeypatch):
    """Not that of the abort, which may follow from it."""
    def fail(*_):
        raise ZeroDivisionError

    def dead(run):
        raise DeviceError("a line that is dead")

    monkeypatch.setattr(RegisterRun, "abort", dead)
    with pytest.raises(ZeroDivisionError):
        FakeDevice(CONFIG).train(random_job(), on_epoch=fail)


def test_run_left_behind_is_stopped_first(monkeypatch):
    device = FakeDevice(CONFIG, busy=True)
    assert device.train(small_job()).epochs_done == 3
    assert device.log[0] == "CONTROL"
    monkeypatch.setattr("bitstep.devices.driver.ABORT_TIMEOUT_S", 0.05)
    deaf = FakeDevice(CONFIG, busy=True, deaf=True)
    with pytest.raises(DeviceError, match=r"busy with another run .* within 0\.05 s"):
        deaf.train(small_job())


@pytest.mark.parametrize("direction", ["to_device", "from_device"])
def test_fake_notices_a_missing_flush(monkeypatch, direction):
    """The tests above would fail if the driver forgot to flush."""
    monkeypatch.setattr(f"fakes.FakeBuffer.{direction}", lambda self: None)
    job = whole_job()
    try:
        models = FakeDevice(CONFIG).train(job).models
    except ValueError:          # an epoch table of zeros
        return
    assert not np.array_equal(models, [epoch.model for epoch in train(job)])


def check(device, job):
    """Run a job: golden's models."""
    result, expected = device.train(job), list(train(job))
    np.testing.assert_array_equal(result.models, [epoch.model for epoch in expected])
    assert result.intercepts.tolist() == [epoch.intercept for epoch in expected]


def buffers_of(device):
    """Addresses of the device's buffers."""
    return {buffer.address for buffer in device.buffers}


def test_rows_are_kept_from_run_to_run():
    """They are copied once, whatever else changes, and given back at the end."""
    job, device = whole_job(), FakeDevice(CONFIG)
    with device.keep_rows():
        for _ in range(3):
            check(device, job)
            assert len(device.buffers) == 1
            kept = buffers_of(device)
        check(device, dataclasses.replace(job, rows=tuple(rows.copy() for rows in job.rows)))
        assert len(device.buffers) == 1
        assert buffers_of(device) != kept
        kept = buffers_of(device)
        with device.keep_rows():        # the outer one decides
            check(device, dataclasses.replace(job, rows=(job.rows[1],)))
        assert len(device.buffers) == 1
        assert buffers_of(device) != kept
    assert not device.buffers
    check(device, job)
    assert not device.buffers


@pytest.mark.parametrize("fault", [{"fault": (0, Error.ROW_READ)}, {"interrupt": 0}])
def test_kept_rows_survive_a_run_that_fails(fault):
    job = whole_job()
    device = FakeDevice(CONFIG, **fault)
    with device.keep_rows():
        with pytest.raises((RunError, TrainingInterrupted)):
            device.train(job)
        kept = buffers_of(device)
        device.fault = device.interrupt = None
        check(device, job)
        assert buffers_of(device) == kept
    assert not device.buffers


def test_rows_that_could_not_be_copied_are_not_kept(monkeypatch):
    """No buffer stays behind, and the next run copies them."""
    job, device = whole_job(), FakeDevice(CONFIG)

    def failing(self):
        raise KeyboardInterrupt

    with device.keep_rows():
        with monkeypatch.context() as patch:
            patch.setattr("fakes.FakeBuffer.to_device", failing)
            with pytest.raises(KeyboardInterrupt):
                device.train(job)
        assert not device.buffers
        check(device, job)
    assert not device.buffers


@pytest.mark.parametrize("timeout_s", [float("nan"), float("inf"), -1, "60", None, True])
@pytest.mark.parametrize("kind", [FakeDevice, *DEVICES.values()])
def test_time_limit_that_is_none(kind, timeout_s):
    """A run that hangs would be waited for without end."""
    one = small_job()
    with kind(CONFIG) as device:
        message = r"timeout_s must be a number of seconds, at least 0, not "
        with pytest.raises(ValueError, match=message):
            device.train(one, timeout_s=timeout_s)
        with pytest.raises(ValueError, match=message):
            device.train_models([one, one], timeout_s=timeout_s)
        assert device.train(one, timeout_s=60).epochs_done == 3


@pytest.mark.parametrize("count, flags", [
    (1, 0o5), (8, 0o5), (9, 3 << 24 | 0o5), (16, 3 << 24 | 0o5)])
def test_flags_of_a_ninth_job_are_in_another_register(count, flags):
    """A register has those of eight; what it tells before the start is of the run before."""
    words = {"OVERFLOW": 0o5, "OVERFLOW_MORE": 3}
    run: Any = SimpleNamespace(_begun=True, jobs=[None] * count, read=words.__getitem__)
    assert RegisterRun._flags(run) == flags
    run._begun = False
    assert RegisterRun._flags(run) == 0


@pytest.mark.parametrize("before_carry", range(5))
def test_counter_that_goes_on_while_it_is_read(before_carry):
    """Each read takes a cycle, and a low half may begin again between two of them."""
    first = (7 << 32) - before_carry
    cycles = itertools.count(first)
    run: Any = SimpleNamespace(read=lambda name: {
        "CYCLES_LO": (now := next(cycles)) & 0xFFFF_FFFF, "CYCLES_HI": now >> 32}[name])
    found = RegisterRun.read_pair(run, "CYCLES")
    assert first < found < next(cycles)


def test_halves_of_an_address():
    written: dict[str, int] = {}
    run: Any = SimpleNamespace(write=written.__setitem__)
    RegisterRun.write_pair(run, "ROWS_ADDRESS", 0x12_3456_789A)
    assert written == {"ROWS_ADDRESS_LO": 0x3456_789A, "ROWS_ADDRESS_HI": 0x12}


class Looks:
    """A run whose STATUS and beats are told look after look."""

    def __init__(self, statuses, beats=()):
        self.job, self.statuses, self.beats = small_job(), iter(statuses), iter(beats)

    def read(self, name):
        return next(self.statuses) if name == "STATUS" else 0

    def read_pair(self, name):
        return next(self.beats, 0)


@pytest.fixture
def clock(monkeypatch):
    """Time of :mod:`bitstep.devices.progress` in seconds, which goes on by hand."""
    now = [0.0]
    monkeypatch.setattr("bitstep.devices.progress.time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


@pytest.mark.parametrize(("statuses", "step_s", "lost"), [
    ([0] * 4, 0.6, [False] * 2 + [True] * 2),       # three looks, more than a second
    ([0] * 3, 1.5, [False] * 2 + [True]),
    ([0] * 6, 0.25, [False] * 4 + [True] * 2),      # a second, more than three looks
    ([0, 0, Status.BUSY] * 3, 0.6, [False] * 9)])   # never in a row
def test_run_that_is_neither_busy_nor_done_is_lost_in_the_end(clock, statuses, step_s, lost):
    progress, found = RunProgress(Looks(statuses), 60.0), []
    for _ in statuses:
        assert progress.look() == bool(progress.lost)
        found.append(bool(progress.lost))
        clock[0] += step_s
    assert found == lost


def test_look_ends_a_wait_in_which_nothing_happens_for_too_long(clock):
    """Beats are progress, and the time counts from the last of them."""
    progress, found = RunProgress(Looks([Status.BUSY] * 6, [0, 0, 1, 1, 1, 1]), 2.0), []
    for _ in range(6):
        found.append((progress.look(), progress.idle_s))
        clock[0] += 1.5
    assert found == [(False, 0.0), (False, 1.5), (False, 0.0), (False, 1.5), (True, 3.0),
                     (True, 4.5)]
