"""Outputs that are trained at the same time: the same models, endings, and no thread left."""

import threading

import numpy as np
import pytest

from bitstep.devices.golden import GoldenDevice
from bitstep.pipeline.results import RangeOverflowError, RunTimeoutError, TrainingInterrupted
from bitstep.quantization import quantize_rows
from bitstep.training.objective import Objective, Training
from bitstep.training.pipelines import pipeline_of
from bitstep.training.train import class_outputs, train_model

pytest.importorskip("numba", reason="the native device needs numba")

from bitstep.devices.cpu.device import CpuDevice

CLASSES = np.arange(5)


@pytest.fixture(scope="module")
def outputs():
    rng = np.random.default_rng(4)
    features = rng.uniform(-1, 1, (300, 20))
    rows = quantize_rows(features, bits=4, encoding="compensated", seed=1)
    return class_outputs(rows, rng.integers(0, 5, 300), CLASSES)


@pytest.fixture(autouse=True)
def no_thread_left():
    """Fail a test that leaves a thread running. Other tests' threads are none of its business."""
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= before


def trained(device, outputs, *, step=0.01, epochs=6, batch=1, models=1, **options):
    config = pipeline_of(outputs[0].rows, Objective())
    training = Training(steps=np.full(epochs, step), batch=batch)
    device = device(config)
    device.workers = min(device.workers, 1) if device.name == "golden" else 3
    device.models = models
    return train_model(outputs, device, config, Objective(), training, **options)


@pytest.mark.parametrize("batch", [1, 16, 300])     # 300: corrections between the epochs
@pytest.mark.parametrize("models", [1, 2, 64])
def test_same_models_as_one_after_the_other(outputs, batch, models):
    expected, seen = trained(GoldenDevice, outputs, batch=batch), []
    result = trained(CpuDevice, outputs, batch=batch, models=models, on_epoch=seen.append)
    assert np.array_equal(result.coefs, expected.coefs)
    assert np.array_equal(result.intercepts, expected.intercepts)
    assert result.counters["beats"] == expected.counters["beats"]
    assert seen == list(range(1, 31))       # epochs of all outputs together
    assert not result.interrupted


def test_cycles_are_those_of_all_outputs(outputs):
    """Outputs run one after the other, and their rows have one shape."""
    one, several = (trained(CpuDevice, chosen) for chosen in (outputs[:1], outputs))
    assert one.epoch_cycles is not None
    assert several.epoch_cycles is not None
    assert several.epoch_cycles.tolist() == (5 * one.epoch_cycles).tolist()
    assert several.epoch_cycles[-1] + 5 * 64 == several.counters["cycles"]
    assert trained(GoldenDevice, outputs).epoch_cycles is None


@pytest.mark.parametrize("models", [1, 64])
def test_overflow_names_the_class(outputs, models):
    with pytest.raises(RangeOverflowError, match=r"^Class [1-5] of 5: Training left") as caught:
        trained(CpuDevice, outputs, step=50.0, models=models)
    assert caught.value.epoch >= 1


@pytest.mark.parametrize("models", [1, 64])
def test_time_limit(outputs, models):
    with pytest.raises(RunTimeoutError):
        trained(CpuDevice, outputs, timeout_s=1e-9, models=models)


def interrupting(monkeypatch, after):
    """Let the wait for the runs end with KeyboardInterrupt after so many epochs in all."""
    from bitstep.training.loop import passes
    real, reached = passes.wait, threading.Event()

    def wait(runs, **options):
        if options:
            reached.wait(20)
            raise KeyboardInterrupt
        return real(runs)

    def on_epoch(done):
        if done == after:
            reached.set()
            threading.Event().wait(0.5)     # so that the runs are not over before they are ended
    monkeypatch.setattr(passes, "wait", wait)
    return on_epoch


@pytest.mark.parametrize("models", [1, 64])
def test_interrupt_keeps_what_every_output_has(outputs, monkeypatch, models):
    on_epoch = interrupting(monkeypatch, 5 * 3000 // 2)
    result = trained(CpuDevice, outputs[:3], epochs=5000, on_epoch=on_epoch, models=models)
    assert result.interrupted
    assert 0 < result.epochs_done < 5000
    expected = trained(GoldenDevice, outputs[:3], epochs=2)
    assert np.array_equal(result.coefs[:2], expected.coefs)


def test_interrupt_before_every_output_has_an_epoch(outputs, monkeypatch):
    on_epoch = interrupting(monkeypatch, 1)
    with pytest.raises(TrainingInterrupted, match="no model was kept, because a one-vs-rest"):
        trained(CpuDevice, outputs, epochs=5000, on_epoch=on_epoch)


def test_next_run_is_whole(outputs, monkeypatch):
    """A device that was interrupted trains again."""
    config = pipeline_of(outputs[0].rows, Objective())
    device, training = CpuDevice(config), Training(steps=np.full(5000, 0.01))
    device.workers, device.models = 2, 1
    with monkeypatch.context() as patch:
        on_epoch = interrupting(patch, 1)
        with pytest.raises(TrainingInterrupted):
            train_model(outputs, device, config, Objective(), training, on_epoch=on_epoch)
    short = Training(steps=np.full(3, 0.01))
    assert train_model(outputs, device, config, Objective(), short).epochs_done == 3
