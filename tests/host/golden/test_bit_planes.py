"""Sequential SGD and the gradient on bit-plane rows."""

import importlib.util
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bitstep.devices.golden import GoldenDevice
from bitstep.golden.gradient import gradient
from bitstep.golden.sgd import train
from bitstep.golden.sigmoid import FINE_ERROR_BOUND, fine_sigmoid
from bitstep.pipeline.bit_planes import from_bit_planes, middle_levels, to_bit_planes
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.job import EpochSteps, TrainingJob
from bitstep.pipeline.levels import unpack_labels
from bitstep.pipeline.losses import LOSSES, has_derivatives
from bitstep.pipeline.memory import pack_codes, pack_labels
from bitstep.pipeline.registers import LabelFormat, Loss, Overflow
from bitstep.pipeline.results import DeviceError
from bitstep.training.stepping import step_mantissa

needs_cpu = pytest.mark.skipif(not importlib.util.find_spec("numba"), reason="needs numba")


def make_job(seed, *, n_features=5, n_rows=40, planes=(4,), **options):
    """A drawn job whose epochs have the planes asked for."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 1 << 16, (n_rows, n_features)).astype(np.uint16)
    loss = options.get("loss", Loss.LEAST_SQUARES)
    signs = LOSSES[loss].signs
    kind = LabelFormat.SIGN if signs else LabelFormat.INT16
    labels = rng.choice([-1, 1], n_rows) if signs else rng.integers(-30000, 30000, n_rows)
    epochs = tuple(EpochSteps(*step_mantissa(0.5 * 4.0 ** -b / (n_features + 1), 1.0),
                              correction_mantissa=7 + b, correction_shift=3,
                              threshold=900, key=17 * number, planes=b)
                   for number, b in enumerate(planes))
    config = PipelineConfig(bits=16, row_format="bit_planes", max_features=max(n_features, 8),
                            loss_family="logistic" if loss == Loss.LOGISTIC else "linear",
                            update_interval=6 if loss == Loss.LOGISTIC else 2, proximal=True)
    words = rng.integers(-1 << 20, 1 << 20, n_features).astype(np.int32)
    choices = {"batch": 1, "correction_period": 4, "constant_intercept": 123,
               "constants": rng.integers(-4000, 4000, n_features).astype(np.int32),
               "derivative_bound": 15000 * LOSSES[loss].clipped} | options
    return TrainingJob(
        config=config, n_features=n_features, rows=(to_bit_planes(codes),), bit_plane_rows=n_rows,
        labels=pack_labels(labels, kind), label_format=kind, label_shift=39 if signs else 30,
        intercept_level=1 << 16, model=words, intercept=-777, epochs=epochs,
        coefficients=rng.integers(-99999, 99999, n_features).astype(np.int32), **choices)


@pytest.mark.parametrize("planes", range(1, 8))
@pytest.mark.parametrize("batch", [1, 3])
def test_equals_the_pipeline_of_fixed_bits(planes, batch):
    """The levels of b planes are odd levels of b + 1 bits: the same integers give the same model,
    whichever rows hold them.
    """
    job = make_job(planes, planes=(planes,) * 2, batch=batch, correction_period=2 * batch,
                   constants=None, constant_intercept=0)
    levels = middle_levels(from_bit_planes(job.rows[0], 5, planes, 0, 40), planes)
    bits = planes + 1 if planes > 1 else 1
    codes = (levels > 0 if bits == 1 else levels & (1 << bits) - 1).astype(np.uint8)
    config = PipelineConfig(bits=bits, max_features=8, proximal=True)
    fixed = replace(
        job, config=config, rows=(pack_codes(codes, bits, 64),), bit_plane_rows=0,
        label_shift=job.label_shift - 16 + planes, intercept_level=0,
        epochs=tuple(replace(steps, planes=0) for steps in job.epochs))
    # An intercept's level is 2^b here, and one less at the most in the fixed pipeline.
    for ours, theirs in zip(train(replace(job, intercept_level=0)), train(fixed), strict=True):
        assert not ours.overflow
        np.testing.assert_array_equal(ours.model, theirs.model)


def test_row_by_hand():
    """One feature, one row, 2 planes: level 3 of 4, label 10."""
    config = PipelineConfig(bits=16, row_format="bit_planes", max_features=1)
    job = TrainingJob(
        config=config, n_features=1, rows=(to_bit_planes(np.array([[0xFFFF]], np.uint16)),),
        bit_plane_rows=1,
        labels=pack_labels(np.array([10]), LabelFormat.INT16), label_format=LabelFormat.INT16,
        label_shift=20, intercept_level=1 << 16, batch=1, correction_period=0,
        coefficients=np.zeros(1, np.int32), epochs=(EpochSteps(256, 1, planes=2),),
        model=np.array([100], np.int32), intercept=7)
    # z = 3 * 100 + 4 * 7 = 328; the label counts 10 << (20 - 14) = 640; c = -312
    (after,) = train(job)
    assert (after.model.tolist(), after.intercept) == ([100 + 3 * 312], 7 + 4 * 312)
    sums = gradient(job)
    assert (sums.words.tolist(), sums.intercept, sums.overflow) == (
        [-3 * 312], -4 * 312, Overflow(0))


def test_constants_by_hand():
    """e = (word * coefficient + constant * 2^18) * mantissa / 2^8, a period after it is made."""
    config = PipelineConfig(bits=16, row_format="bit_planes", max_features=1)
    steps = EpochSteps(0, 1, correction_mantissa=1, correction_shift=2, planes=1)
    job = TrainingJob(
        config=config, n_features=1, rows=(to_bit_planes(np.zeros((5, 1), np.uint16)),),
        bit_plane_rows=5,
        labels=np.empty(0, np.uint8), label_format=LabelFormat.INT16, label_shift=16,
        intercept_level=0, batch=1, correction_period=2, coefficients=np.array([1 << 16], np.int32),
        epochs=(steps,), model=np.array([100], np.int32), constants=np.array([3], np.int32),
        constant_intercept=-5)
    # Rows 0, 2 and 4 are boundaries. Row 2 adds 100 + 3 * 4, and row 4 212 + 3 * 4.
    (after,) = train(job)
    assert (after.model.tolist(), after.intercept) == ([448 - 12], 2 * -5 * 4)


@needs_cpu
@pytest.mark.parametrize("n_features, n_rows", [(1, 9), (3, 70), (4, 33), (5, 40), (31, 20),
                                                (256, 12), (4095, 3)])
def test_cpu_is_golden_at_every_precision(n_features, n_rows):
    job = make_job(n_features, n_features=n_features, n_rows=n_rows, planes=range(16, 0, -1))
    _compare(job)


@needs_cpu
@pytest.mark.parametrize("loss", Loss)
@pytest.mark.parametrize("batch", [1, 7])
def test_cpu_is_golden_for_every_loss(loss, batch):
    options = {"proximal_period": 14} if batch == 7 else {}
    _compare(make_job(batch, loss=loss, batch=batch, correction_period=2 * batch,
                      planes=(1, 16, 3, 8), n_rows=50, **options))


def centred(job, planes):
    """A job whose labels are the derivatives of another at its model."""
    found = gradient(replace(job, epochs=job.epochs[:1]), planes)
    assert found.derivatives is not None
    mantissa, shift = step_mantissa(0.5 * 4.0 ** -planes / (job.n_features + 1), 1.0)
    return replace(job, labels=found.derivatives, label_format=LabelFormat.INT32,
                   epochs=tuple(replace(one, mantissa=mantissa, shift=shift, planes=planes)
                                for one in job.epochs))


@needs_cpu
@pytest.mark.parametrize("loss", [Loss.LOGISTIC, Loss.SQUARED_HINGE])
@pytest.mark.parametrize("planes", [1, 2, 5, 16])
def test_cpu_is_golden_for_derivatives_at_a_centre(loss, planes):
    job = make_job(planes, loss=loss, planes=(16, 16), n_rows=60)
    _compare(centred(job, planes))
    other = replace(job, model=-job.model, intercept=99)     # far from where the labels are from
    labels = centred(job, planes).labels
    _compare(replace(centred(other, planes), labels=labels))


@pytest.mark.parametrize("loss", [Loss.LOGISTIC, Loss.SQUARED_HINGE])
@pytest.mark.parametrize("planes", [1, 4, 16])
def test_at_the_centre_only_corrections_move(loss, planes):
    """Updates are differences to the derivatives at the centre, which are 0 there."""
    job = make_job(9, loss=loss, planes=(16,), constants=None, constant_intercept=0,
                   correction_period=0, n_features=3)
    if loss == Loss.SQUARED_HINGE:      # derivatives in whole units of a label
        job = replace(job, model=job.model >> 8 << 18, intercept=0)
    (after,) = train(centred(job, planes))
    assert (after.model.tolist(), after.intercept) == (job.model.tolist(), job.intercept)
    (moved,) = train(replace(centred(job, planes), model=job.model + (1 << 22)))
    assert moved.model.tolist() != (job.model + (1 << 22)).tolist()


def test_derivatives_by_hand():
    """Squared hinge, one feature, 2 planes: level 3 of 4 and y = -1."""
    config = PipelineConfig(bits=16, row_format="bit_planes", max_features=1)
    job = TrainingJob(
        config=config, n_features=1, rows=(to_bit_planes(np.array([[0xFFFF]], np.uint16)),),
        bit_plane_rows=1,
        labels=pack_labels(np.array([-1]), LabelFormat.SIGN), label_format=LabelFormat.SIGN,
        label_shift=40, intercept_level=0, batch=1, correction_period=0, loss=Loss.SQUARED_HINGE,
        coefficients=np.zeros(1, np.int32), epochs=(EpochSteps(1, 4, planes=16),),
        model=np.array([1 << 24], np.int32))
    # 1 counts 2^(40 - 14) = 2^26 at 2 planes, and z = 3 * 2^24: l' = 1 + 3/4, so d = 1.75 * 2^16.
    found = gradient(job, 2)
    assert found.derivatives is not None
    assert unpack_labels(found.derivatives, LabelFormat.INT32, 1).tolist() == [2 * 7 * (1 << 14)]
    # With all planes it is (2^17 - 1) 2^24; times 2^-32 that is 511.996, rounded up by the dither.
    assert found.words.tolist() == [512 * ((1 << 16) - 1)]
    inner = replace(job, labels=found.derivatives, label_format=LabelFormat.INT32,
                    epochs=(EpochSteps(1, 2, planes=2),), model=np.array([1 << 23], np.int32))
    # z = 3 * 2^23: the derivative falls by 3/8 of 2^26; c = -3 * 2^23 / 2^16
    (after,) = train(inner)
    assert after.model.tolist() == [(1 << 23) + 3 * 3 * (1 << 7)]


@pytest.mark.parametrize("rows", [-1, 301])
def test_derivatives_of_rows_that_there_are_not(rows):
    job = make_job(0, loss=Loss.LOGISTIC, planes=(16,))
    message = f"Derivatives can be written of 1 to {job.n_rows} rows, or of all by 0, not of {rows}"
    with pytest.raises(DeviceError, match=message):
        GoldenDevice(job.config).gradient(job, derivative_planes=4, derivative_rows=rows)


@pytest.mark.parametrize("change, planes, message", [
    ({"loss": Loss.LEAST_SQUARES}, 4, "Derivatives need a smooth loss of signs, 1 to 16 planes"),
    ({"loss": Loss.HINGE}, 4, "Derivatives need a smooth loss"),
    ({"label_shift": 25}, 2, "a label_shift of at least 30, not LOGISTIC, 2 and 25"),
    ({}, 17, "1 to 16 planes, as the epoch has"),
    ({"label_shift": 16}, 0, "a label_shift of at least 17 at 16 planes, not 16"),
])
def test_derivatives_that_cannot_be(change, planes, message):
    job = make_job(0, loss=change.pop("loss", Loss.LOGISTIC), planes=(16,))
    with pytest.raises(DeviceError, match=message):
        GoldenDevice(job.config).gradient(replace(job, **change), derivative_planes=planes)


def test_fine_sigmoid():
    arguments = [*range(-17 << 16, 17 << 16, 9973), -(1 << 60), 1 << 60, 0]
    found = np.array([fine_sigmoid(one) for one in arguments]) / 2 ** 24
    exact = 1 / (1 + np.exp(-np.clip(np.array(arguments) / 65536.0, -40, 40)))
    assert np.abs(found - exact).max() < FINE_ERROR_BOUND
    assert fine_sigmoid(0) == 1 << 23


@needs_cpu
def test_cpu_is_golden_without_labels():
    _compare(replace(make_job(3, planes=(2, 4)), labels=np.empty(0, np.uint8)))


@needs_cpu
@pytest.mark.parametrize("loss", [Loss.LOGISTIC, Loss.SQUARED_HINGE, Loss.LEAST_SQUARES])
@pytest.mark.parametrize("code", [0, 65535])
@pytest.mark.parametrize("shift", [36, 40])
def test_cpu_is_golden_at_the_ends_of_products(loss, code, shift):
    """The largest words times the largest levels, in 4,096 features; then the least steps."""
    n_features, words = 4096, (1 << 31) - 1
    job = make_job(1, n_features=n_features, n_rows=3, loss=loss, planes=(16, 9, 4),
                   correction_period=0, constants=None, constant_intercept=0, proximal_period=0)
    job = replace(job, rows=(to_bit_planes(np.full((3, n_features), code, np.uint16)),),
                  model=np.full(n_features, words, np.int32), intercept=words, label_shift=shift,
                  epochs=tuple(replace(one, mantissa=1, shift=7) for one in job.epochs))
    for sign in (1, -1):
        _compare(replace(job, model=sign * job.model, intercept=sign * words))
        if loss == Loss.LOGISTIC:       # derivatives of the others do not fit
            there = replace(job, model=sign * job.model)
            _compare(replace(centred(there, 4), model=-there.model))


@needs_cpu
def test_cpu_names_the_same_overflow():
    found = []
    changes: list[dict[str, Any]] = [{"constant_intercept": 1 << 20},
                                     {"constant_intercept": (1 << 31) - 1},
                                     {"constants": np.full(5, -(1 << 31), np.int32)}]
    for change in changes:
        job = make_job(5, planes=(2, 2), **change)
        if not found:       # the correction fits, but not what it makes of the intercept
            job = replace(job, intercept=(1 << 31) - 99_999)
        job = replace(job, epochs=tuple(replace(steps, correction_mantissa=99, mantissa=1)
                                        for steps in job.epochs))
        _compare(job)
        found.append([epoch.overflow for epoch in train(job)])
    assert found == [[Overflow.MODEL], [Overflow.CORRECTION], [Overflow.CORRECTION]]


@pytest.mark.parametrize("loss, sizes", [
    (Loss.LOGISTIC, [-1]), (Loss.LOGISTIC, [(1 << 16) + 1]), (Loss.SQUARED_HINGE, [5, -1])])
def test_derivatives_that_no_loss_has(loss, sizes):
    """A derivative has the sign of -y, and that of the logistic loss is at most 1."""
    job = make_job(3, n_rows=40, loss=loss)
    for positive in (0, 1):
        labels = np.zeros(40, np.int64)
        labels[:len(sizes)] = [2 * (-size if positive else size) + positive for size in sizes]
        with pytest.raises(ValueError, match="must have the sign of -y and at most the size"):
            replace(job, labels=pack_labels(labels, LabelFormat.INT32),
                    label_format=LabelFormat.INT32)


def _compare(job):
    from bitstep.devices.cpu.device import CpuDevice
    cpu = CpuDevice(job.config)
    cpu.prepare(job)
    ours = [epoch for epoch in cpu.epochs(job) if epoch is not None]
    golden = list(train(job))
    assert [epoch.overflow for epoch in ours] == [epoch.overflow for epoch in golden]
    for one, other in zip(ours, golden, strict=True):
        if not other.overflow:
            np.testing.assert_array_equal(one.model, other.model)
            assert one.intercept == other.intercept
    for steps in () if has_derivatives(job) else job.epochs:
        one = replace(job, epochs=(steps,))
        smooth = job.loss in (Loss.LOGISTIC, Loss.SQUARED_HINGE)
        planes = max(1, steps.planes // 2) if smooth else 0
        rows = steps.key % (job.n_rows + 1)         # 0: all
        sums = cpu.gradient(one, derivative_planes=planes, derivative_rows=rows)
        exact = gradient(one, planes, rows)
        assert (sums.overflow, sums.intercept) == (exact.overflow, exact.intercept)
        np.testing.assert_array_equal(sums.words, exact.words)
        assert (sums.derivatives is None) == (exact.derivatives is None) == (
            not planes or bool(exact.overflow))
        if exact.derivatives is not None:
            np.testing.assert_array_equal(sums.derivatives, exact.derivatives)
            of_all, n_bytes = gradient(one, planes), 4 * (rows or job.n_rows)
            if of_all.derivatives is not None:      # else one of the other rows overflows
                np.testing.assert_array_equal(exact.derivatives[:n_bytes],
                                              of_all.derivatives[:n_bytes])
            assert not exact.derivatives[n_bytes:].any()
            assert len(exact.derivatives) == -(-n_bytes // 8) * 8


@pytest.mark.parametrize("change, message", [
    ({"epochs": (EpochSteps(1, 1),)},
     "planes of every epoch must be from 1 to 16 for bit-plane rows"),
    ({"bit_plane_rows": 513, "labels": np.empty(0, np.uint8)},
     "bit_plane_rows must be from 1 to 512, the rows of 1 blocks, not 513"),
    ({"labels": np.zeros(1032, np.uint8)}, r"labels must be uint8 of shape \(80,\)"),
    ({"labels": np.zeros(72, np.uint8)}, r"labels must be uint8 of shape \(80,\)"),
    ({"label_shift": 3}, "label_shift must be at least 12"),
    ({"correction_period": 0}, "constants need a correction_period"),
    ({"constant_intercept": 1 << 31}, "constant_intercept must fit 32 bits"),
    ({"constants": np.zeros(3, np.int32)}, r"constants must have shape \(5,\)"),
])
def test_bad_jobs(change, message):
    with pytest.raises(ValueError, match=message):
        replace(make_job(0), **change)


@pytest.mark.parametrize("n_rows", [1, 300, 511, 512, 513])
def test_first_rows_alone(n_rows):
    """Rows and labels of 700, in two blocks, of which those after the first mean nothing."""
    job = replace(make_job(3, n_rows=700, planes=(4, 2)), bit_plane_rows=n_rows)
    alone = replace(job, rows=tuple(copy[:-(-n_rows // 512)] for copy in job.rows),
                    labels=job.labels[:-(-n_rows // 4) * 8])
    for one, other in zip(train(job), train(alone), strict=True):
        np.testing.assert_array_equal(one.model, other.model)
        assert (one.intercept, one.overflow) == (other.intercept, other.overflow)


@needs_cpu
@pytest.mark.parametrize("n_rows", [1, 300, 511, 512, 513])
def test_cpu_is_golden_over_the_first_rows(n_rows):
    """And once more over all rows, which are decoded anew, and over the first again."""
    from bitstep.devices.cpu.device import CpuDevice
    whole = make_job(3, n_rows=700, planes=(4, 2))
    job, device = replace(whole, bit_plane_rows=n_rows), CpuDevice(whole.config)
    for one in (job, whole, job):
        found, expected = device.train(one), list(train(one))
        np.testing.assert_array_equal(found.models, [epoch.model for epoch in expected])


def test_planes_of_other_rows():
    fixed = {"config": PipelineConfig(bits=4, max_features=8), "label_shift": 9,
             "rows": (np.zeros((40, 8), np.uint8),), "intercept_level": 0, "correction_period": 0}
    with pytest.raises(ValueError, match="and 0 for others, not "):
        replace(make_job(0), **fixed)
    with pytest.raises(ValueError,
                       match="need a pipeline of row format 'bit_planes', not 'one_level'"):
        replace(make_job(0), **fixed, epochs=(EpochSteps(1, 1),), proximal_period=0)
    with pytest.raises(ValueError, match=r"planes must be from 0 to 16, not 17"):
        EpochSteps(1, 1, planes=17)


def test_gradient_needs_one_epoch():
    with pytest.raises(DeviceError, match="a job of one epoch, not row format 'bit_planes' and 2"):
        GoldenDevice(make_job(0).config).gradient(make_job(0, planes=(3, 3)))


def test_updates_beyond_the_sums_overflow():
    job = make_job(1, planes=(16,))
    most = replace(job, epochs=(EpochSteps((1 << 18) - 1, 1, planes=16),))
    assert gradient(most).overflow == Overflow.UPDATE


def test_sum_of_all_updates_has_a_limit_whatever_their_signs(monkeypatch):
    """Those of labels -2^15 and 1 are 2^31 - 2^8 and -2^16 - 2^8 (:func:`extreme_job`)."""
    job = replace(extreme_job(2), labels=pack_labels(np.array([-(1 << 15), 1]), LabelFormat.INT16))
    sizes = (1 << 31) - (1 << 8), (1 << 16) + (1 << 8)
    for limit, overflow in ((sum(sizes), Overflow.UPDATE), (sum(sizes) + 1, Overflow(0))):
        monkeypatch.setattr("bitstep.golden.gradient.UPDATES_LIMIT", limit)
        found = gradient(job)
        assert found.overflow == overflow
        assert overflow or found.intercept == (sizes[0] - sizes[1]) << 16


@pytest.mark.parametrize("kind", ["golden", pytest.param("cpu", marks=needs_cpu)])
@pytest.mark.parametrize("shift, overflow", [(3, Overflow.UPDATE), (4, Overflow(0))])
def test_step_of_derivatives_must_fit_though_none_changes(kind, shift, overflow):
    """At zeros s(0) = 1/2, which is what the labels hold, so no row has an update; the step of a
    derivative of 1 is mantissa 2^(55 - 8 shift), and has room below 2^47.
    """
    job = make_job(3, loss=Loss.LOGISTIC, planes=(16,), correction_period=0, constants=None,
                   constant_intercept=0)
    signs = unpack_labels(job.labels, job.label_format, job.n_rows)
    centred = replace(
        job, labels=pack_labels((signs > 0) - (signs << 16), LabelFormat.INT32), intercept=0,
        label_format=LabelFormat.INT32, model=np.zeros_like(job.model),
        epochs=(EpochSteps(1 << 17, shift, planes=16),))
    assert has_derivatives(centred)
    if kind == "golden":
        (epoch,) = train(centred)
        assert epoch.overflow == overflow
        assert not epoch.model.any()
        return
    from bitstep.devices.cpu.device import CpuDevice
    (outcome,) = CpuDevice(job.config).train_models([centred])
    assert getattr(outcome, "overflow", Overflow(0)) == overflow


def test_epoch_table_holds_the_planes():
    assert EpochSteps(5, 2, planes=11).words()[0] == 5 | 2 << 18 | 11 << 21 | 1 << 50


@pytest.mark.covering(2)
@pytest.mark.parametrize("planes", range(1, 17))
@pytest.mark.parametrize("loss", [Loss.LEAST_SQUARES, Loss.LOGISTIC, Loss.SQUARED_HINGE])
def test_cpu_in_portions(short_portions, loss, planes):
    """Around a block (128 rows of 100 features), a portion and a row; features that fill no byte,
    and no vector.
    """
    for n_rows, n_features in ((1, 1), (7, 3), (65, 5), (128, 100), (129, 33)):
        job = make_job(planes, n_rows=n_rows, n_features=n_features, loss=loss, planes=(planes, 16))
        _compare(job)
        weights = np.arange(65535, 65535 - 400 * n_rows, -400).astype(np.uint16)
        _compare(replace(job, weights=weights, config=replace(job.config, row_weights=True)))


@needs_cpu
@pytest.mark.parametrize("shift", [3, 4])
def test_cpu_is_golden_where_the_step_of_a_weight_does_not_fit(shift):
    """The step of a derivative of 1 is mantissa 2^(55 - 8 shift), and has room below 2^47."""
    job = make_job(2, n_rows=70, loss=Loss.LOGISTIC, planes=(16,))
    job = replace(job, weights=np.full(70, 1 << 15, np.uint16),
                  config=replace(job.config, row_weights=True),
                  epochs=(EpochSteps(1 << 17, shift, planes=16),))
    _compare(job)
    assert gradient(job).overflow == (Overflow.UPDATE if shift == 3 else 0)


@needs_cpu
@pytest.mark.parametrize("mantissa, shift", [(1, 1), (1 << 16, 3)])
@pytest.mark.parametrize("label, intercept, overflow", [
    (-(1 << 15), -1, 0), (-(1 << 15), 0, Overflow.UPDATE),
    ((1 << 15) - 1, -(1 << 8), 0), ((1 << 15) - 1, -(1 << 8) - 1, Overflow.UPDATE)])
def test_cpu_takes_the_largest_updates(mantissa, shift, label, intercept, overflow):
    """2^31 - 2^8 and -2^31 fit, 2^31 and -2^31 - 2^8 do not."""
    from bitstep.devices.cpu.device import CpuDevice
    job = replace(extreme_job(1), labels=pack_labels(np.array([label]), LabelFormat.INT16),
                  intercept=intercept, epochs=(EpochSteps(mantissa, shift, planes=16),))
    assert CpuDevice(job.config).gradient(job).overflow == overflow
    assert gradient(job).overflow == overflow


@needs_cpu
def test_the_last_row_stands_for_rows_that_there_are_not():
    """Vectors take four rows; nothing beyond the last one is read, but for a part of a vector."""
    from bitstep.compiling import kernel
    from bitstep.devices.cpu.products import LANES, ROWS, dot_rows, empty_codes, whole

    def products_of(codes, row, last, model, products):
        dot_rows(codes, row, last, 0, model, products, 0)

    codes = empty_codes(6, 3)
    codes[:] = np.arange(18).reshape(6, 3)
    assert codes.base is not None
    assert codes.base.size >= codes.size + LANES - 1
    model, products = np.zeros(whole(3), np.int32), np.zeros(ROWS, np.int64)
    model[:3] = 1
    kernel(products_of)(codes, 3, 4, model, products)
    assert products.tolist() == [9 + 10 + 11] + 3 * [12 + 13 + 14]


def test_cpu_sums_that_leave_their_range_over_portions(short_portions):
    """Each row's update is 2^31 - 2^8, so 2^16 + 1 of them reach 2^47; no portion does."""
    from bitstep.devices.cpu.device import CpuDevice
    for n_rows, overflow in ((1 << 16, Overflow(0)), ((1 << 16) + 1, Overflow.UPDATE)):
        job = extreme_job(n_rows)
        found = CpuDevice(job.config).gradient(job)
        assert found.overflow == overflow
        if not overflow:
            assert found.intercept == n_rows * ((1 << 31) - (1 << 8)) << 16
            assert found.words.tolist() == [n_rows * ((1 << 31) - (1 << 8)) * 65535]


def extreme_job(n_rows):
    """Rows of one feature whose updates are all 2^31 - 2^8: the step is 2^-8, and the residual
    2^15 * 2^24, the label's, less 2^16 of the intercept.
    """
    config = PipelineConfig(bits=16, row_format="bit_planes", max_features=1)
    codes = np.full((n_rows, 1), 0xFFFF, np.uint16)
    return TrainingJob(
        config=config, n_features=1, rows=(to_bit_planes(codes),), bit_plane_rows=n_rows,
        labels=pack_labels(np.full(n_rows, -(1 << 15)), LabelFormat.INT16),
        label_format=LabelFormat.INT16, label_shift=24, intercept_level=1 << 16, batch=1,
        correction_period=0, coefficients=np.zeros(1, np.int32), model=np.zeros(1, np.int32),
        intercept=-1, epochs=(EpochSteps(1, 1, planes=16),))


def test_cpu_decodes_rows_once(monkeypatch):
    """The rows of a job are decoded once, others in their place; a closed device has none."""
    codes = pytest.importorskip("bitstep.devices.cpu.codes")
    from bitstep.devices.cpu.device import CpuDevice
    calls, unpacked = [], codes.unpacked_codes
    monkeypatch.setattr(codes, "unpacked_codes", lambda *call: calls.append(unpacked(*call)))
    job = make_job(0, planes=(16,))
    device = CpuDevice(job.config)
    for _ in range(3):
        device.gradient(job)
        list(device.epochs(job))
    assert len(calls) == 1
    other = replace(job, rows=(to_bit_planes(np.full((40, 5), 7, np.uint16)),))
    np.testing.assert_array_equal(device.gradient(other).words, gradient(other).words)
    np.testing.assert_array_equal(device.gradient(job).words, gradient(job).words)
    assert len(calls) == 3
    device.close()
    device.gradient(job)
    assert len(calls) == 4


def test_counters_wait_until_somebody_asks(monkeypatch):
    """A cycle model of bit planes takes longer than the training. A copy counts the same."""
    pytest.importorskip("numba")
    import pickle

    from bitstep.cycles import count_epochs, run
    from bitstep.devices.cpu.device import CpuDevice
    job = make_job(0, planes=(16,))
    known, _ = count_epochs(job)

    def count(*arguments):
        raise AssertionError(f"Nobody asked for cycles of {arguments}")
    with monkeypatch.context() as patched:
        patched.setattr(run, "_known_run", count)
        result, sums = CpuDevice(job.config).train(job), CpuDevice(job.config).gradient(job)
        copies = pickle.loads(pickle.dumps([result.counters, sums.counters]))
    assert dict(copies[0]) == known == dict(result.counters)
    assert repr(result.counters) == repr(known)
    assert list(result.epoch_cycles or ()) == count_epochs(job)[1]
    assert copies[1] == sums.counters
