"""Bit-centred training on the simulated board: constants, derivatives, gradients of all rows."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from bit_plane_runs import CLOCK_HZ, FAST, FEATURES, LINEAR, LOGISTIC, MEMORIES, WIDE, run
from centred_runs import check_training, constants_of, gradient_job
from drawn_jobs import PROFILE, fresh_seed
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated import TestedDevice, compare, lookahead_registers, open_board

from bitstep.cli import main
from bitstep.cycles import Memory, count_epochs
from bitstep.devices.cpu.device import CpuDevice
from bitstep.estimators import LowPrecisionRegressor
from bitstep.golden.gradient import gradient
from bitstep.golden.sgd import train
from bitstep.pipeline.bit_planes import BitPlaneLayout, to_bit_planes
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.job import EpochSteps
from bitstep.pipeline.memory import pack_labels
from bitstep.pipeline.parts.formats import BIT_PLANES
from bitstep.pipeline.registers import Control, LabelFormat, Loss, Overflow
from bitstep.pipeline.results import DeviceError, RunError
from bitstep.quantization import QuantizedDataset, quantize_bit_planes, quantize_labels, sign_labels
from bitstep.training.objective import Objective
from bitstep.training.pipelines import pipeline_of
from bitstep_sim.testing.bit_plane_jobs import random_bit_plane_job

LIMIT = (1 << 31) - 1


@st.composite
def centred_jobs(draw, config):
    """A job as inner passes have it, and a look-ahead for it."""
    n_features = draw(st.sampled_from([n for n in FEATURES if n <= config.max_features]))
    loss = Loss.LOGISTIC if config.loss_family == "logistic" else \
        draw(st.sampled_from([Loss.LEAST_SQUARES, Loss.SQUARED_HINGE]))
    batch, seed = draw(st.sampled_from([1, 1, 1, 3, 64])), draw(st.integers(0, 1 << 30))
    options = {"loss": loss, "batch": batch, "label_format": LabelFormat.INT32}
    if config.corrections:
        options |= constants_of(n_features, seed, draw(st.sampled_from([9, 1 << 22, 1 << 31])))
        options["correction_period"] = batch * draw(st.sampled_from([1, 2, 8, 33]))
    job = random_bit_plane_job(
        config, n_features=n_features, n_rows=draw(st.sampled_from([1, 2, 7, 64, 129, 300])),
        planes=tuple(draw(st.lists(st.integers(1, 16), min_size=1, max_size=3))), seed=seed,
        speed=draw(st.sampled_from([0.01, 0.3, 0.3, 100.0])), **options)
    return job, draw(st.integers(0, config.ahead.of_rows(job.beats)))


@pytest.mark.parametrize("config, examples", [
    (LINEAR, 20), (FAST, 14), *(pytest.param(config, 60, marks=pytest.mark.slow)
                                for config in (LINEAR, FAST, LOGISTIC, WIDE))],
    ids=lambda value: getattr(value, "name", ""))
def test_any_inner_pass(config, examples):
    @fresh_seed(f"centred {config.name}")
    @settings(max_examples=examples, **PROFILE)
    @given(centred_jobs(config), MEMORIES)
    def check(job_and_lookahead, memory):
        run(config, *job_and_lookahead, **memory)

    check()


def check_gradient(config, job, lookahead=None, **options):
    """Sum a gradient: golden's sums, the counters of the cycle model."""
    lookahead = config.ahead.of_rows(job.beats) if lookahead is None else lookahead
    expected = gradient(job)
    with open_board(config, clock_hz=CLOCK_HZ, **options) as board:
        device = TestedDevice(board, registers=lookahead_registers(job, lookahead))
        found = device.gradient(job)
        assert board.board.stray_accesses == 0
    assert bool(found.overflow) == bool(expected.overflow)
    if expected.overflow:
        assert found.overflow & Overflow.UPDATE
        return found
    np.testing.assert_array_equal(found.words, expected.words)
    assert found.intercept == expected.intercept
    if "stall_probability" not in options:
        gbps = options.get("memory_gbps")
        memory = Memory(options.get("memory_latency", 20), gbps and gbps * 1e9 / CLOCK_HZ)
        assert count_epochs(job, memory, lookahead=lookahead, gradient=True)[0] == found.counters
    return found


@st.composite
def gradient_jobs(draw, config):
    """A job of a full pass, and a look-ahead for it."""
    n_features = draw(st.sampled_from([n for n in FEATURES if n <= config.max_features]))
    loss = draw(st.sampled_from([Loss.LEAST_SQUARES, Loss.SQUARED_HINGE, Loss.HINGE]))
    options = {"loss": loss}
    if draw(st.booleans()):
        options |= {"model": np.zeros(n_features, np.int32), "intercept": 0}
    if draw(st.booleans()):
        options |= {"intercept_level": 0, "intercept": 0}
    if loss == Loss.LEAST_SQUARES:
        options["label_format"] = draw(st.sampled_from(LabelFormat))
    job = gradient_job(
        config, n_features=n_features, n_rows=draw(st.sampled_from([1, 2, 7, 8, 64, 129, 300])),
        seed=draw(st.integers(0, 1 << 30)), scale=draw(st.sampled_from([1e-6, 3e-4, 3e-3, 0.1])),
        **options)
    return job, draw(st.integers(0, config.ahead.of_rows(job.beats)))


@pytest.mark.parametrize("config, examples", [
    (LINEAR, 20), (FAST, 14), *(pytest.param(config, 60, marks=pytest.mark.slow)
                                for config in (LINEAR, FAST, WIDE))],
    ids=lambda value: getattr(value, "name", ""))
def test_any_gradient(config, examples):
    @fresh_seed(f"gradient {config.name}")
    @settings(max_examples=examples, **PROFILE)
    @given(gradient_jobs(config), MEMORIES)
    def check(job_and_lookahead, memory):
        check_gradient(config, *job_and_lookahead, **memory)

    check()


@pytest.mark.parametrize("n_features, n_rows, batch", [
    (4096, 9, 1), (4095, 12, 3), (256, 520, 256), (256, 300, 64)])
def test_wide_rows_and_batches(n_features, n_rows, batch):
    job = random_bit_plane_job(LINEAR, n_features=n_features, n_rows=n_rows, batch=batch,
                           planes=(4, 16), correction_period=batch, **constants_of(n_features, 1))
    run(LINEAR, job)
    check_gradient(LINEAR, gradient_job(LINEAR, n_features=n_features, n_rows=n_rows, scale=1e-5))


@pytest.mark.parametrize("value, overflow", [
    (LIMIT, Overflow.CORRECTION), (-LIMIT - 1, Overflow.CORRECTION), (1 << 13, 0)])
@pytest.mark.parametrize("place", [0, 4, "intercept"])
def test_constants_beyond_the_range(value, overflow, place):
    """A correction that does not fit ends the run, wherever it is."""
    constants = np.zeros(5, np.int32)
    fields = {"constants": constants, "constant_intercept": 0}
    if place == "intercept":
        fields["constant_intercept"] = value
    else:
        constants[place] = value
    job = random_bit_plane_job(LINEAR, n_features=5, n_rows=30, correction_period=8, speed=1e-3,
                           **fields)
    job = replace(job, coefficients=np.zeros(5, np.int32), epochs=(
        replace(job.epochs[0], correction_mantissa=1 << 10, correction_shift=3),))
    assert list(train(job))[-1].overflow == overflow
    run(LINEAR, job)


@pytest.mark.parametrize("n_rows, overflows", [(65_000, False), (65_600, True)])
def test_sum_of_all_updates(n_rows, overflows):
    """Updates of nearly 2^31 of so many rows that their sum could leave 64 bits."""
    def job_of(n_rows):
        job = gradient_job(LINEAR, n_features=1, n_rows=n_rows, model=np.zeros(1, np.int32),
                           intercept=0, label_format=LabelFormat.INT16)
        labels = pack_labels(np.where(np.arange(n_rows) % 2, 32_767, -32_767), LabelFormat.INT16)
        return replace(job, labels=labels, label_shift=24,
                       epochs=(EpochSteps(1 << 16, 3, planes=16),))

    job = job_of(n_rows)
    with open_board(LINEAR) as board:
        board.gradient(job_of(1000))        # the next one does not go on with its sum
        found = board.gradient(job)
    with CpuDevice(LINEAR) as cpu:
        expected = cpu.gradient(job)
    assert bool(found.overflow) == bool(expected.overflow) == overflows
    if not overflows:
        np.testing.assert_array_equal(found.words, expected.words)
        assert found.intercept == expected.intercept
        assert found.counters == expected.counters


# What golden gives takes longer than all else.
@pytest.mark.parametrize("by_golden", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_updates_of_a_training_have_no_limit(by_golden):
    """A word goes from one half of its range to the other with every row."""
    n_rows = 67_000
    job = gradient_job(LINEAR, n_features=1, n_rows=n_rows, model=np.array([1 << 30], np.int32),
                       intercept=0, intercept_level=0, label_format=LabelFormat.INT16)
    labels = pack_labels(np.where(np.arange(n_rows) % 2, 32_767, -32_767), LabelFormat.INT16)
    job = replace(job, rows=(to_bit_planes(np.full((n_rows, 1), 0x8000, np.uint16)),),
                  labels=labels,
                  label_shift=24, epochs=(EpochSteps(65_000, 3, planes=16),))
    if by_golden:
        run(LINEAR, job)
        return
    with CpuDevice(LINEAR) as cpu:
        expected = cpu.train(job)
    with open_board(LINEAR) as board:
        found = board.train(job)
        assert board.board.stray_accesses == 0
    np.testing.assert_array_equal(found.models, expected.models)
    np.testing.assert_array_equal(found.intercepts, expected.intercepts)
    assert found.counters == expected.counters


@pytest.mark.parametrize("n_features", [64, 256, pytest.param(1001, marks=pytest.mark.slow)])
def test_full_pass_at_the_rate_of_the_memory(n_features):
    """A beat a cycle of all 16 planes, within 2 %, without start and end."""
    layout, cycles = BitPlaneLayout(n_features), []
    for blocks in (4, 14):
        job = gradient_job(LINEAR, n_features=n_features, n_rows=blocks * layout.block_rows)
        counters, _ = count_epochs(job, gradient=True)
        cycles.append(counters["cycles"])
    assert 1 <= (cycles[1] - cycles[0]) / (10 * layout.block_bytes // 8) < 1.02


@pytest.mark.parametrize("config", [LINEAR, FAST], ids=lambda config: config.name)
def test_board_keeps_nothing_between_runs(config):
    """Gradients, runs with constants and without, and of derivatives follow each other; runs that
    are aborted or refused lie between.
    """
    with open_board(config) as board:
        for number, n_features in enumerate([256, 1, 65, 16]):
            options: dict[str, Any] = {"n_features": n_features, "seed": number,
                                       "n_rows": [100, 40, 77][number % 3]}
            hinge = {"loss": Loss.SQUARED_HINGE, "label_format": LabelFormat.INT32}
            jobs = [random_bit_plane_job(config, correction_period=4, planes=(5, 3), **options,
                                     **constants_of(n_features, number)),
                    random_bit_plane_job(config, correction_period=4, planes=(4,), **options),
                    random_bit_plane_job(config, planes=(6,), **options, **hinge)]
            full = gradient_job(config, scale=1e-4, **options)
            expected = gradient(full)
            for place, job in enumerate(jobs):
                changed = TestedDevice(board, during=lambda: board.write(0x20, Control.ABORT),
                                       cycles=150 + 40 * number + 30 * place)
                with pytest.raises(RunError, match="abort"):
                    changed.gradient(full) if place % 2 else changed.train(job)
                compare(board.train(job), list(train(job)))
                found = board.gradient(full)
                np.testing.assert_array_equal(found.words, expected.words)
                assert found.intercept == expected.intercept


@pytest.mark.parametrize("registers", [
    {"BATCH": 29}, {"EPOCHS": 2}, {"CORRECTION_PERIOD": 4}, {"PROXIMAL_PERIOD": 30}])
def test_registers_that_no_gradient_can_have(registers):
    job = gradient_job(FAST, n_features=5, n_rows=30)
    with open_board(FAST) as board:
        with pytest.raises(RunError, match="refused its registers"):
            TestedDevice(board, registers=registers).gradient(job)
        np.testing.assert_array_equal(board.gradient(job).words, gradient(job).words)


def test_gradients_that_no_pipeline_sums():
    none = PipelineConfig(row_format=BIT_PLANES, bits=16, max_features=16, corrections=False)
    with open_board(LINEAR) as board:
        board.config = none
        with pytest.raises(DeviceError, match="must have corrections and mini-batches"):
            board.gradient(gradient_job(none, n_features=5, n_rows=30))


@pytest.mark.parametrize("config, n_features, l2", [
    (LINEAR, 6, 0.0), (LINEAR, 256, 1e-2), (FAST, 20, 1e-3)], ids=lambda value: str(value)[:40])
def test_training(config, n_features, l2):
    rng = np.random.default_rng(0)
    features = rng.standard_normal((400, n_features))
    labels = features @ rng.standard_normal(n_features) + 0.1 * rng.standard_normal(400) + 3
    data = QuantizedDataset(quantize_bit_planes(features), quantize_labels(labels, 400))
    model = check_training(config, data, Objective(l2=l2), epochs=4, planes=[2, 4, 4, 6])
    assert model.gradients is not None
    assert model.gradients[-1].max() < 0.05
    assert (model.counters["cycles"] or 0) > 0


@pytest.mark.parametrize("config, loss", [
    (LINEAR, Loss.LEAST_SQUARES), (FAST, Loss.SQUARED_HINGE), (LOGISTIC, Loss.LOGISTIC)],
    ids=lambda value: str(value)[:40])
def test_inner_passes_over_the_first_rows(config, loss, monkeypatch):
    """In memory they are followed by the others, with their labels."""
    monkeypatch.setattr("bitstep.training.schedules.INNER_ROWS", 100)
    monkeypatch.setattr("bitstep.training.schedules.INNER_ROWS_OF_A_FEATURE", 1)
    rng = np.random.default_rng(4)
    features = rng.standard_normal((500, 9))
    outputs = features @ rng.standard_normal(9) + 0.5 * rng.standard_normal(500)
    labels = quantize_labels(outputs, 500) if loss == Loss.LEAST_SQUARES \
        else sign_labels(np.where(outputs > 0, 1, -1))
    data = QuantizedDataset(quantize_bit_planes(features), labels)
    model = check_training(config, data, Objective(loss=loss, l2=1e-2), epochs=4, planes=4)
    assert model.gradients is not None
    assert model.gradients[-1].max() < 0.05
    # Of a plane of 9 features, padded to 12 bits: all rows are read with 16 planes, the first 200,
    # for derivatives, with 4, and the first 100 twice with 4.
    assert model.bytes_read is not None
    derivatives = 0 if loss == Loss.LEAST_SQUARES else 4
    assert model.bytes_read[1] == 16 * 768 + derivatives * 320 + 2 * 4 * 192


def test_least_squares_of_classes():
    """The inner passes have no labels, which the format of signs could not say."""
    rng = np.random.default_rng(3)
    features = rng.random((1500, 6))
    classes = rng.random(1500) < 0.2 + 0.6 * features[:, 0]
    data = QuantizedDataset(quantize_bit_planes(features), sign_labels(np.where(classes, 1, -1)))
    check_training(LINEAR, data, Objective(), epochs=3, planes=[2, 4])


@pytest.mark.parametrize("loss", [
    Loss.SQUARED_HINGE, pytest.param(Loss.LOGISTIC, marks=pytest.mark.slow)])
def test_training_of_classes(loss):
    rng = np.random.default_rng(1)
    features = rng.standard_normal((400, 12))
    classes = features @ rng.standard_normal(12) + 0.5 * rng.standard_normal(400) > 0
    objective = Objective(loss=loss, l2=1e-2)
    data = QuantizedDataset(quantize_bit_planes(features), sign_labels(np.where(classes, 1, -1)))
    config = LINEAR if loss != Loss.LOGISTIC else pipeline_of(data.rows, objective)
    model = check_training(config, data, objective, epochs=4, planes=4)
    assert model.gradients is not None
    assert model.gradients[-1].max() < 0.05


def test_command_line(tmp_path):
    """The simulated board trains what device cpu trains, in the cycles that it counts."""
    found = []
    for device in ("sim", "cpu"):
        path = tmp_path / f"{device}.json"
        assert main(["train", "diabetes", "--solver", "bit-centred", "--epochs", "3", "--device",
                     device, "--report", str(path)]) == 0
        found.append(json.loads(path.read_text()))
    sim, cpu = found
    assert sim["coef"] == cpu["coef"]
    assert sim["history"] == cpu["history"]
    assert sim["counters"] == cpu["counters"]


def test_estimator():
    rng = np.random.default_rng(2)
    features = rng.standard_normal((200, 5))
    labels = features @ np.arange(5) + 1
    options = {"solver": "bit-centred", "planes": 4, "epochs": 4, "tol": 0.0,
               "random_state": 0}
    sim, cpu = (LowPrecisionRegressor(device=device, **options).fit(features, labels)
                for device in ("sim", "cpu"))
    np.testing.assert_array_equal(sim.coef_, cpu.coef_)
