"""Full passes of the losses of classes on the simulated board: gradients, and derivatives as
labels.
"""

from dataclasses import replace

import numpy as np
import pytest
from bit_plane_runs import CLOCK_HZ, FAST, FEATURES, LINEAR, LOGISTIC, MEMORIES, WIDE
from centred_runs import check_training, constants_of, gradient_job
from drawn_jobs import PROFILE, fresh_seed
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated import TestedDevice, compare, lookahead_registers, open_board

from bitstep.cycles import Memory, count_epochs
from bitstep.devices.cpu.device import CpuDevice
from bitstep.devices.derivatives import derivative_job
from bitstep.devices.register_device import DerivativeRun
from bitstep.golden.gradient import gradient
from bitstep.golden.sgd import train
from bitstep.pipeline.bit_planes import to_bit_planes
from bitstep.pipeline.job import EpochSteps
from bitstep.pipeline.memory import pack_labels
from bitstep.pipeline.parts.widths import MODEL_WIDTH
from bitstep.pipeline.registers import OFFSETS, Control, LabelFormat, Loss, Overflow
from bitstep.pipeline.results import COUNTER_NAMES, UPDATES_LIMIT, RunError, sum_counters
from bitstep.quantization import QuantizedDataset, quantize_bit_planes, sign_labels
from bitstep.training.objective import Objective
from bitstep_sim.testing.bit_plane_jobs import random_bit_plane_job

CONFIGS = [LINEAR, FAST, LOGISTIC]


def loss_of(config):
    """The smooth loss of classes that a pipeline has."""
    return Loss.LOGISTIC if config.loss_family == "logistic" else Loss.SQUARED_HINGE


def full_pass(config, **options):
    """A job of a full pass."""
    return gradient_job(config, loss=loss_of(config), **options)


def check_same(found, expected):
    """Gradient and derivatives are golden's."""
    np.testing.assert_array_equal(found.words, expected.words)
    assert found.intercept == expected.intercept
    np.testing.assert_array_equal(found.derivatives, expected.derivatives)


def check_full_pass(config, job, planes, lookahead=None, rows=0, **options):
    """Sum a gradient and write derivatives: golden's numbers, the counters of the cycle model.
    Returns them.
    """
    lookahead = config.ahead.of_rows(job.beats) if lookahead is None else lookahead
    expected = gradient(job, planes, rows)
    with open_board(config, clock_hz=CLOCK_HZ, **options) as board:
        device = TestedDevice(board, registers=lookahead_registers(job, lookahead))
        found = device.gradient(job, derivative_planes=planes, derivative_rows=rows)
        assert board.board.stray_accesses == 0
        assert not board._allocator.blocks
    assert bool(found.overflow) == bool(expected.overflow)
    if expected.overflow:
        assert found.overflow == Overflow.UPDATE
        return found
    check_same(found, expected)
    if "stall_probability" in options:
        return found
    gbps = options.get("memory_gbps")
    memory = Memory(options.get("memory_latency", 20), gbps and gbps * 1e9 / CLOCK_HZ)
    runs = [count_epochs(one, memory, lookahead=lookahead, gradient=True, derivatives=written)[0]
            for one, written in ((job, False), (derivative_job(job, planes, rows), True))]
    assert found.counters == sum_counters(runs)
    return found


@st.composite
def full_passes(draw, config):
    """A full pass, the planes of its derivatives, a look-ahead, and the rows of derivatives."""
    n_features = draw(st.sampled_from([n for n in FEATURES if n <= config.max_features]))
    options = {"copies": draw(st.sampled_from([1, 1, 2]))}
    if draw(st.booleans()):
        options |= {"intercept_level": 0, "intercept": 0}
    size = draw(st.sampled_from([1, 1 << 12, 1 << 18, 1 << 24]))
    options["model"] = np.random.default_rng(draw(st.integers(0, 1 << 30))).integers(
        -size, size, n_features).astype(np.int32)
    job = full_pass(
        config, n_features=n_features, n_rows=draw(st.sampled_from([1, 2, 7, 33, 64, 129, 300])),
        seed=draw(st.integers(0, 1 << 30)), scale=draw(st.sampled_from([1e-6, 3e-4, 3e-3])),
        **options)
    total = draw(st.sampled_from([16, 16, 12, 6]))      # those of refining are fewer
    job = replace(job, epochs=(replace(job.epochs[0], planes=total),))
    return job, draw(st.integers(1, total)), draw(
        st.integers(0, config.ahead.of_rows(job.beats))), draw(
        st.sampled_from([0, 0, 1, job.n_rows // 2, job.n_rows - 1, job.n_rows]))


@pytest.mark.parametrize("config, examples", [
    (LINEAR, 9), (FAST, 9), (LOGISTIC, 9),
    *(pytest.param(config, 300, marks=pytest.mark.slow) for config in [*CONFIGS, WIDE])],
    ids=lambda value: getattr(value, "name", str(value)))
def test_any_full_pass(config, examples):
    @fresh_seed(f"full pass {config.name}")
    @settings(max_examples=examples, **PROFILE)
    @given(full_passes(config), MEMORIES)
    def check(arguments, memory):
        check_full_pass(config, *arguments, **memory)

    check()


@pytest.mark.parametrize("config", [LINEAR, LOGISTIC], ids=lambda config: config.name)
@pytest.mark.parametrize("n_features, n_rows", [(4096, 9), (4095, 12), (256, 520)])
def test_wide_rows(config, n_features, n_rows):
    check_full_pass(config, full_pass(config, n_features=n_features, n_rows=n_rows, scale=1e-5), 4)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
def test_memory_that_takes_labels_slower_than_rows_come(config):
    """Rows of one feature wait for room; the counters tell for how long."""
    job = full_pass(config, n_features=1, n_rows=701)
    check_full_pass(config, job, 1, memory_latency=40, memory_gbps=0.08)
    check_full_pass(config, job, 1, memory_latency=5, stall_probability=0.9)


def cycles_of(job, **options):
    """Cycles of a run of a gradient, or of derivatives."""
    cycles = count_epochs(job, gradient=True, **options)[0]["cycles"]
    assert cycles is not None
    return cycles


class Aborted(TestedDevice):
    """A board on which the run of this number is aborted, in this cycle."""

    def __init__(self, device, number, cycle):
        super().__init__(device)
        self.left, self.cycle = number + 1, cycle

    def write(self, offset, value):
        """As the board's, and count the starts."""
        self.left -= offset == OFFSETS["CONTROL"] and value == Control.START
        super().write(offset, value)

    def wait(self, done, timeout_s):
        """As the board's."""
        if self.left == 0:
            self.left = -1
            self.device.board.run(self.cycle)
            self.device.write(OFFSETS["CONTROL"], Control.ABORT)
        return self.device.wait(done, timeout_s)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
def test_board_keeps_nothing_between_runs(config):
    """Full passes, inner passes and others follow each other; runs that are aborted lie between,
    and full passes whose gradient or derivatives are.
    """
    with open_board(config) as board:
        for number, n_features in enumerate([256, 1, 65]):
            options = {"n_features": n_features, "n_rows": [70, 40, 77][number],
                       "seed": number, "loss": loss_of(config)}
            inner = random_bit_plane_job(config, planes=(6, 3), label_format=LabelFormat.INT32,
                                     correction_period=4, **options,
                                     **constants_of(n_features, number))
            full = full_pass(config, scale=1e-4, **{key: options[key] for key in (
                "n_features", "n_rows", "seed")})
            expected, models = gradient(full, 4), list(train(inner))
            lengths = [cycles_of(full), cycles_of(derivative_job(full, 4), derivatives=True)]
            for which, share in ((0, 0.5), (1, 0.3), (1, 0.6)):
                aborted = Aborted(board, which, int(share * lengths[which]))
                with pytest.raises(RunError, match="abort"):
                    aborted.gradient(full, derivative_planes=4)
                check_same(board.gradient(full, derivative_planes=4), expected)
                compare(board.train(inner), models)


@pytest.mark.parametrize("registers", [
    {"DERIVATIVES": 1, "GRADIENT": 0}, {"DERIVATIVES": 1, "LOSS": Loss.HINGE},
    {"DERIVATIVES": 1, "LOSS": Loss.LEAST_SQUARES}, {"DERIVATIVES": 1, "LABEL_FORMAT": 2}])
def test_registers_that_no_derivatives_can_have(registers):
    job = full_pass(FAST, n_features=5, n_rows=30)
    with open_board(FAST) as board:
        with pytest.raises(RunError, match="refused its registers"):
            TestedDevice(board, registers=registers).gradient(job)
        check_same(board.gradient(job, derivative_planes=4), gradient(job, 4))


def test_label_shift_that_the_finer_sigmoid_cannot_have():
    job = full_pass(LOGISTIC, n_features=5, n_rows=30)
    with open_board(LOGISTIC) as board:
        with pytest.raises(RunError, match="refused its registers"):
            TestedDevice(board, registers={"LABEL_SHIFT": 16}).gradient(job)
        np.testing.assert_array_equal(board.gradient(job).words, gradient(job).words)


@pytest.mark.parametrize("word, overflows", [(1 << 30, False), ((1 << MODEL_WIDTH - 1) - 1, True)])
@pytest.mark.parametrize("config", [LINEAR, FAST], ids=lambda config: config.name)
def test_derivatives_beyond_their_label(config, word, overflows):
    """A derivative of 31 bits is an update that fits, but no label."""
    job = full_pass(config, n_features=1, n_rows=300, model=np.array([word], np.int32),
                    intercept=0)
    job = replace(job, label_shift=32, epochs=(EpochSteps(1, 3, planes=16),))
    assert not gradient(job).overflow
    assert bool(gradient(job, 16).overflow) == overflows
    check_full_pass(config, job, 16)


def _derivatives_alone(job):
    written = derivative_job(job, 16)
    with CpuDevice(FAST) as cpu:
        expected = cpu.gradient(job, derivative_planes=16)
    with open_board(FAST, clock_hz=CLOCK_HZ) as board:
        with DerivativeRun(board, written, 60.0) as run:
            found = run.beside(replace(expected, derivatives=None,
                                       counters=dict.fromkeys(COUNTER_NAMES, 0)))
        assert board.board.stray_accesses == 0
    assert found.overflow == expected.overflow == Overflow(0)
    check_same(found, expected)
    assert found.counters == count_epochs(written, gradient=True, derivatives=True)[0]
    return found


@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_derivatives_have_no_limit_together(whole):
    """The sum of their magnitudes reaches what that of a gradient's updates must not. By day the
    run that writes them does without the one before it, which takes as long again, and without
    golden.
    """
    n_rows, word = 132_000, (1 << 30) - (1 << 20)
    job = full_pass(FAST, n_features=1, n_rows=n_rows, model=np.array([word], np.int32),
                    intercept=0)
    labels = pack_labels(np.full(n_rows, -1), LabelFormat.SIGN)
    job = replace(job, rows=(to_bit_planes(np.full((n_rows, 1), 0xFFFF, np.uint16)),),
                  labels=labels,
                  label_shift=32, epochs=(EpochSteps(1, 3, planes=16),))
    found = check_full_pass(FAST, job, 16) if whole else _derivatives_alone(job)
    assert found.derivatives is not None
    sizes = abs(found.derivatives.view("<i4").astype(np.int64) >> 1)
    assert sizes.sum() >= UPDATES_LIMIT


@pytest.mark.parametrize("config", [FAST, LOGISTIC], ids=lambda config: config.name)
def test_inner_passes_read_the_labels_where_they_are(config):
    job = full_pass(config, n_features=20, n_rows=129)
    with open_board(config) as board:
        device = TestedDevice(board)

        def written(planes):
            """Labels of a full pass, and the buffer that holds them."""
            labels = device.gradient(job, derivative_planes=planes).derivatives
            assert labels is not None
            assert device.kept_rows is not None
            return labels, device.kept_rows.held_labels(labels)

        with device.keep_rows():
            labels, held = written(4)
            assert held is not None
            inner = random_bit_plane_job(config, n_features=20, n_rows=129, loss=loss_of(config),
                                     label_format=LabelFormat.INT32, planes=(4, 4))
            inner = replace(inner, rows=job.rows, labels=labels)
            for _ in range(2):
                compare(device.train(inner), list(train(inner)))
                assert device.written["LABELS_ADDRESS_LO"] == held.address
            # Labels of others are copied, and those of another full pass take their place.
            other = replace(inner, labels=labels.copy())
            compare(device.train(other), list(train(other)))
            assert device.written["LABELS_ADDRESS_LO"] != held.address
            assert written(2)[1] is not None
            assert device.kept_rows is not None
            assert device.kept_rows.held_labels(labels) is None
        assert not board._allocator.blocks


@pytest.mark.parametrize("planes, rows", [(0, 0), (3, 0), (3, 41)])
@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
def test_native_device_counts_both_runs(config, planes, rows):
    job = full_pass(config, n_features=17, n_rows=90)
    with open_board(config) as board, CpuDevice(config) as cpu:
        found, expected = (device.gradient(job, derivative_planes=planes, derivative_rows=rows)
                           for device in (board, cpu))
    assert found.counters == expected.counters
    assert found.counters["cycles"]


def classes(n_rows, n_features):
    """Two classes that overlap."""
    rng = np.random.default_rng(n_features)
    features = rng.standard_normal((n_rows, n_features))
    scores = features @ rng.standard_normal(n_features) + 0.5 * rng.standard_normal(n_rows)
    return QuantizedDataset(quantize_bit_planes(features), sign_labels(np.where(scores > 0, 1, -1)))


@pytest.mark.parametrize("config, n_rows, n_features, epochs", [
    (LOGISTIC, 300, 12, 4), (FAST, 300, 20, 4), (LINEAR, 200, 256, 2),
    pytest.param(LOGISTIC, 300, 256, 2, marks=pytest.mark.slow),
    pytest.param(LINEAR, 400, 4096, 2, marks=pytest.mark.slow),
    pytest.param(LOGISTIC, 400, 4096, 2, marks=pytest.mark.slow)],
    ids=lambda value: getattr(value, "name", str(value)))
def test_training(config, n_rows, n_features, epochs):
    """Whole trainings, with the same counters."""
    model = check_training(config, classes(n_rows, n_features),
                           Objective(loss=loss_of(config), l2=1e-2), epochs=epochs, planes=4)
    assert model.gradients is not None
    assert model.gradients[-1].max() < (0.05 if epochs > 2 else 0.3)
    assert (model.counters["cycles"] or 0) > 0
    assert model.bytes_read is not None
    assert model.bytes_read.sum() == config.rows.beat_bytes * (model.counters["beats"] or 0)


@pytest.mark.parametrize("config", [FAST, LOGISTIC], ids=lambda config: config.name)
def test_training_that_refines(config, monkeypatch):
    """Outer steps whose full passes, of 16 planes and of 6, write no derivatives."""
    monkeypatch.setattr("bitstep.training.centred.smooth.SLOW", 0.0)
    model = check_training(config, classes(300, 9), Objective(loss=loss_of(config), l2=1e-2),
                           epochs=4, planes=4)
    assert model.planes is not None
    assert model.planes[:, 0].tolist() == [4, 6, 6, 6]
