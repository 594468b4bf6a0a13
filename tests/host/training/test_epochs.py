"""Corrections between epochs that are too short for any within them, against float64."""

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from fakes import DEVICES, FakeDevice, run_plan, settings
from fakes import planned as plan

from bitstep.devices.golden import GoldenDevice
from bitstep.pipeline.job import EpochSteps
from bitstep.pipeline.registers import Error, Loss
from bitstep.pipeline.results import (
    BusError,
    RangeOverflowError,
    RunTimeoutError,
    TrainingInterrupted,
)
from bitstep.quantization import quantize, scaler_of_ranges
from bitstep.training.files.checkpoint import Checkpoint, load_checkpoint
from bitstep.training.files.checkpoint_writer import CheckpointWriter
from bitstep.training.pipelines import pipeline_for
from bitstep.training.schedules import automatic_step
from bitstep.training.train import train_model

N_ROWS, N_FEATURES, STEPS = 48, 5, 0.4 / np.arange(1, 7)


def problem(bits=4, encoding="compensated", n_rows=N_ROWS, **options):
    """A linear function with noise, quantized; a multiple of 256 labels apart."""
    rng = np.random.default_rng(5)
    features = rng.uniform(-1, 1, (n_rows, N_FEATURES))
    labels = features @ np.arange(1.0, 6.0) + rng.normal(size=n_rows)
    return quantize(features, labels, bits=bits, encoding=encoding, seed=3, **options)


def pipeline(data, **options):
    return pipeline_for(n_features=data.n_features, bits=data.bits, encoding=data.encoding,
                        **options)


def gradient_descent(data, *, share=1.0, l2=0.0, l1=0.0, box=np.inf):
    """Weights of scaled features and intercepts after every epoch."""
    targets = data.label_scale * data.stored_labels()
    corrected = data.variance if data.encoding in ("compensated", "double-symmetric") else 0.0
    weights, intercept, found = np.zeros(N_FEATURES), 0.0, []
    for epoch, step in enumerate(STEPS):
        dots, gradients = _rows(data, epoch)
        errors = dots @ weights + intercept - targets
        change = gradients.T @ errors / data.n_rows - (corrected - l2) * weights
        weights = weights - share * step * change
        weights = np.sign(weights) * np.clip(np.abs(weights) - share * step * l1, 0, box)
        intercept -= share * step * errors.mean()
        found.append([*weights, intercept])
    return np.array(found)


def _rows(data, epoch):
    """Rows that an epoch reads."""
    if data.row_format == "float32":
        values = data.rows.codes(epoch % data.rows.copies).astype(float)
        return values, values
    first = type(data.rows)(**{**vars(data.rows), "stored": (
        data.rows.stored[epoch % data.rows.copies],)})
    return first.levels(slice(None))


def trained(data, device=GoldenDevice, **options):
    config = pipeline(data, proximal="l1" in options or "box" in options)
    return train_model([data], device(config), config, *settings(steps=STEPS, **options))


@pytest.mark.parametrize("bits, encoding, options", [
    *((bits, "compensated", {}) for bits in range(1, 9)), (2, "double-symmetric", {}),
    (5, "double-symmetric", {"l2": 0.3}), (3, "nearest", {"l2": 0.3}), (3, "double", {"l2": 0.3}),
    (32, "float", {"l2": 0.3}), (1, "stochastic", {"l2": 0.3}),
    (4, "compensated", {"l1": 1.0, "l2": 0.1}), (4, "compensated", {"box": 0.6})])
@pytest.mark.parametrize("batch", [N_ROWS, 3 * N_ROWS])
def test_a_batch_of_all_rows_is_gradient_descent(bits, encoding, options, batch):
    data = problem(bits, encoding)
    model = trained(data, batch=batch, **options)
    exact = gradient_descent(data, share=N_ROWS / batch, **options)
    ours = np.column_stack([model.weights[:, 0], model.scaled_intercepts[:, 0] - data.label_offset])
    # The steps of the hardware differ by up to 0.8 %.
    assert np.abs(ours - exact).max() < 0.01 * np.abs(exact).max()
    if options.get("l1"):
        np.testing.assert_array_equal(ours == 0, exact == 0)
        assert (ours[:, :-1] == 0).any()


@pytest.mark.parametrize("device", DEVICES.values(), ids=DEVICES)
def test_every_epoch_reads_the_next_copy(device):
    data = problem(bits=2, copies=4)
    model = trained(data, device, batch=N_ROWS)
    exact = gradient_descent(data)
    assert np.abs(model.weights[:, 0] - exact[:, :-1]).max() < 0.01 * np.abs(exact).max()
    other = trained(problem(bits=2), device, batch=N_ROWS)
    assert np.abs(model.weights - other.weights).max() > 0.05 * np.abs(exact).max()


@pytest.mark.parametrize("bits", [1, 2, 4])
def test_one_row(bits):
    """On average over many draws, one row leads to the solution of its features."""
    row, label = np.array([[0.0, 0.7, -0.4, 0.1, 0.9]]), np.array([3.0])
    data = quantize(row, label, bits=bits, copies=200, seed=1, center_labels=False,
                    scaler=scaler_of_ranges(np.full(5, -1.0), np.ones(5), "minmax"))
    config = pipeline(data)
    made = plan(data, config, steps=[0.02] * 200, between_epochs=True, fit_intercept=False)
    assert made.between_epochs
    result = run_plan(GoldenDevice(config), made)
    assert result.counters["beats"] == result.epochs_done == 200
    weights = made.units.weights(result.models[100:]).mean(axis=0)
    assert row[0] @ weights == pytest.approx(3.0, rel=0.15)


@pytest.mark.parametrize("rows, within", [(8, False), (9, True)])
def test_floating_point_rows_shorter_than_the_lookahead(rows, within):
    data = problem(32, "float", n_rows=rows)
    config = pipeline(data, lookahead=5)
    made = plan(data, config, steps=STEPS, l2=0.2, between_epochs=True)
    assert made.between_epochs == (not within)
    assert bool(made.job.correction_period) == within
    model = train_model([data], GoldenDevice(config), config, *settings(steps=STEPS, l2=0.2))
    free = train_model([data], GoldenDevice(config), config, *settings(steps=STEPS))
    assert 0 < np.linalg.norm(model.weights[-1]) < np.linalg.norm(free.weights[-1])


@pytest.mark.parametrize("options", [{}, {"copies": 3}, {"l1": 0.1}], ids=str)
def test_resumed_is_uninterrupted(options):
    data = problem(**{name: options[name] for name in options if name == "copies"})
    penalty = {name: options[name] for name in options if name == "l1"}
    config = pipeline(data, proximal=bool(penalty))
    device, training = GoldenDevice(config), {"steps": STEPS, "batch": 100, **penalty}
    whole = plan(data, config, between_epochs=True, **training)
    result = run_plan(device, whole)
    start = (whole.units.weights(result.models[3]), whole.units.intercepts(result.intercepts[3]))
    rest = plan(data, config, between_epochs=True, initial=start, first_epoch=4, **training)
    again = run_plan(device, rest)
    np.testing.assert_array_equal(again.models, result.models[4:])
    np.testing.assert_array_equal(again.intercepts, result.intercepts[4:])


def test_a_checkpoint_between_epochs(tmp_path):
    """What is left of a training after a checkpoint gives the models of the whole."""
    data = problem(copies=4)
    config, (objective, training) = pipeline(data), settings(steps=STEPS, batch=N_ROWS)
    whole = trained(data, batch=N_ROWS)
    path = str(tmp_path / "kept.npz")
    writer = CheckpointWriter(path, Checkpoint({}, {}, list(STEPS), 1), warnings.warn)

    def interrupt(done):
        if done == 3:
            raise KeyboardInterrupt

    assert train_model([data], FakeDevice(config), config, objective, training, checkpoint=writer,
                       on_epoch=interrupt).interrupted
    state = load_checkpoint(path)
    assert state.results[0].epochs_done == 3
    later = CheckpointWriter(path, state, warnings.warn)
    again = train_model([data], GoldenDevice(config), config, objective, training, checkpoint=later)
    np.testing.assert_array_equal(again.weights, whole.weights)
    np.testing.assert_array_equal(again.intercepts, whole.intercepts)


@pytest.mark.parametrize("loss", [Loss.HINGE, Loss.SQUARED_HINGE, Loss.LOGISTIC])
def test_l2_of_other_losses(loss):
    rng = np.random.default_rng(1)
    features = rng.normal(size=(40, N_FEATURES))
    data = quantize(features, np.sign(features[:, 0]), bits=8, encoding="nearest",
                    task="classification")
    config = pipeline_for(n_features=N_FEATURES, bits=8, encoding="nearest", loss=loss)
    free, held = (train_model([data], GoldenDevice(config), config, *settings(
        loss=loss, steps=10 * STEPS, batch=40, l2=l2)).weights[-1, 0] for l2 in (0.0, 0.1))
    assert 0 < np.linalg.norm(held) < 0.9 * np.linalg.norm(free)


def test_progress_and_counters():
    data, done = problem(), []
    config = pipeline(data)
    device = FakeDevice(config)
    result = run_plan(device, plan(data, config, steps=STEPS, batch=N_ROWS, between_epochs=True),
                      on_epoch=done.append)
    assert done == [1, 2, 3, 4, 5, 6]
    assert result.counters["beats"] == 6 * N_ROWS
    assert not device.buffers
    assert device.log.count("CONTROL") == 6


def test_errors_keep_the_finished_epochs():
    data = problem()
    config = pipeline(data)
    made = plan(data, config, steps=STEPS, batch=N_ROWS, between_epochs=True)
    whole = run_plan(GoldenDevice(config), made)

    class Failing(FakeDevice):
        """Something happens in the third run."""

        runs = 0
        happen: Any = None

        def step(self):
            if self.get("EPOCHS_DONE") == 0 and self.run is not None:
                self.runs += 1
                if self.runs == 3:
                    return self.happen()
            return super().step()

    def interrupt(self):
        raise KeyboardInterrupt

    def leave_the_range(self):
        self.set("OVERFLOW", 1)
        self.end(Error.OVERFLOW)

    def stop(self):
        self.hang = 0

    for happen, kind, message in (
            (interrupt, TrainingInterrupted, "interrupted after 2 epochs"),
            (leave_the_range, RangeOverflowError, "left the number range in epoch 3"),
            (lambda self: self.end(Error.ROW_READ), BusError,
             "read of the rows .* \\(epochs count from epoch 2 of the training\\)$"),
            (stop, RunTimeoutError, "made no progress .*from epoch 2 of the training")):
        device = type("Other", (Failing,), {"happen": happen})(config)
        with pytest.raises(kind, match=message) as caught:
            run_plan(device, made, timeout_s=1.0 if happen is stop else 60.0)
        assert caught.value.result.epochs_done == 2
        np.testing.assert_array_equal(caught.value.result.models, whole.models[:2])
        assert not device.buffers


@pytest.mark.parametrize("device", DEVICES.values(), ids=DEVICES)
def test_a_step_that_is_too_large_is_named(device):
    data = problem()
    config = pipeline(data)
    with pytest.raises(RangeOverflowError, match=r"left the number range in epoch \d+: ") as caught:
        train_model([data], device(config), config,
                    *settings(steps=np.full(200, 9.0), batch=N_ROWS))
    assert caught.value.result.epochs_done == caught.value.epoch - 1 > 0


@pytest.mark.parametrize("share, kind", [(1.5, "a diagonal correction"), (0.4, "a weight")])
def test_a_correction_beyond_a_word(share, kind):
    """A correction of ``share`` of a word does not fit, or not on top of the word."""
    data = problem()
    config = pipeline(data)
    made = plan(data, config, steps=STEPS, batch=N_ROWS, between_epochs=True)
    first = EpochSteps(0, 7, 0, 3)
    job = replace(made.job, epochs=(first,), coefficients=np.full(N_FEATURES, 1 << 16, np.int32),
                  model=np.array([3, -5, 0, -1_600_000_000, 8], np.int32))
    job = replace(job, epochs=(first, replace(first, correction_mantissa=round(share * 2 ** 8))))
    with pytest.raises(RangeOverflowError, match=f"in epoch 2: {kind}") as caught:
        run_plan(GoldenDevice(config), replace(made, job=job))
    assert caught.value.result.epochs_done == 1


def test_the_automatic_step_learns():
    data = problem(bits=1, n_rows=400)
    config = pipeline(data)
    step = automatic_step(data.rows, 400)
    model = train_model([data], GoldenDevice(config), config,
                        *settings(steps=[step] * 200, batch=400))
    truth = np.arange(1.0, 6.0)
    assert np.abs(model.coefs[-1, 0] - truth).max() < 1.5
