"""Passes of all classes on the software devices: the same integers, and what is refused."""

import functools
from dataclasses import replace

import numpy as np
import pytest
from tests.host.fakes import DEVICES
from tests.host.golden.test_softmax import make_jobs

from bitstep.devices import open_device
from bitstep.golden.softmax import FINE_VALUE, softmax
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.device import Device
from bitstep.pipeline.job import EpochSteps
from bitstep.pipeline.losses import DERIVATIVE_FRACTION
from bitstep.pipeline.registers import LabelFormat, Loss, Overflow
from bitstep.pipeline.results import DeviceError, RangeOverflowError, RunTimeoutError

SOFTWARE = [name for name in ("golden", "cpu") if name in DEVICES]
both = pytest.mark.skipif(len(SOFTWARE) < 2, reason="needs numba")


def on_each(jobs, work):
    found = []
    for name in SOFTWARE:
        with open_device(name, jobs[0].config) as device:
            found.append(work(device))
    return found


def same_gradients(jobs, **options):
    """Sums of a full pass, which must be the same on each device."""
    first, second = on_each(jobs, lambda device: device.class_gradients(jobs, **options))
    np.testing.assert_array_equal(first.shared, second.shared)
    for one, other in zip(first.classes, second.classes, strict=True):
        np.testing.assert_array_equal(one.words, other.words)
        np.testing.assert_array_equal(one.derivatives, other.derivatives)
        assert (one.intercept, one.overflow) == (other.intercept, other.overflow)
    return first


def inner_jobs(jobs, derivative_planes, planes, **options):
    """Jobs of inner passes around the model of the jobs, and around it no longer at rest."""
    with open_device("golden", jobs[0].config) as device:
        sums = device.class_gradients(jobs, derivative_planes=derivative_planes).classes
    rng = np.random.default_rng(3)
    steps = {"mantissa": 1 << 17, "shift": 4, "correction_mantissa": 1 << 12,
             "correction_shift": 3, "planes": planes} | options
    return [replace(
        job, labels=one.derivatives, label_format=LabelFormat.INT32, correction_period=8,
        coefficients=np.full(job.n_features, -1000, np.int32),
        constants=rng.integers(-1 << 20, 1 << 20, job.n_features).astype(np.int32),
        constant_intercept=int(rng.integers(-1 << 20, 1 << 20)),
        epochs=tuple(EpochSteps(**steps, key=key) for key in (9, 10)))
        for job, one in zip(jobs, sums, strict=True)]


@functools.cache
def on_cpu(name):
    """A function of kernels, which Python cannot call itself."""
    import numba

    from bitstep.devices.cpu import softmax as of_cpu

    function = getattr(of_cpu, name)
    return numba.njit(lambda *arguments: function(*arguments))


@both
def test_quotients():
    """Around whole ones, where floats are wrong."""
    rng = np.random.default_rng(2)
    divisors = [1, 2, 3, (1 << 31) + 1, (1 << 38) - 1, *rng.integers(1 << 31, 1 << 38, 2000)]
    for divisor in map(int, divisors):
        for found in (0, 1, 1 << 24, int(rng.integers(1 << 23, 1 << 24))):
            for more in (-1, 0, 1):
                if (dividend := max(found * divisor + more, 0)) < divisor << 24:
                    assert on_cpu("_quotient")(dividend, divisor) == dividend // divisor


@both
@pytest.mark.parametrize("label_shift", [0, 1, 13, 21, 22, 23, 36, 58])
@pytest.mark.parametrize("fraction", [DERIVATIVE_FRACTION, FINE_VALUE])
def test_probabilities_of_several_rows(label_shift, fraction):
    """Of rows beside each other: equal products, those at the ends of the words, distances around
    the range and around halves of the last bit of an argument, and drawn ones.
    """
    unit = 1 << max(label_shift - 22, 0)
    columns = [
        [0] * 5, [-(1 << 63), (1 << 63) - 1, 0, -1, 1], [(1 << 63) - 1] * 4 + [-(1 << 63)],
        [0, -(32 << label_shift), 1 - (32 << label_shift), -(31 << label_shift), -unit],
        [0, *(-((unit * times >> 1) + more) for times, more in ((1, 0), (1, -1), (3, 0), (3, -1)))],
        *np.random.default_rng(label_shift).integers(
            -4 << label_shift, 4 << label_shift, (60, 5)).tolist()]
    values, room = np.array(columns, np.int64).T.copy(), np.empty((2, len(columns)), np.int64)
    on_cpu("_probabilities")(values, room, label_shift, fraction)
    assert values.T.tolist() == [softmax(column, label_shift, fraction) for column in columns]


@both
@pytest.mark.parametrize("count, planes, derivative_planes, rows, level", [
    (2, 16, 0, 0, 1 << 16), (3, 16, 1, 1, 1 << 16), (7, 16, 16, 0, 0), (26, 9, 4, 33, 1 << 16),
    (3, 6, 6, 77, 1 << 16)])
def test_gradients(count, planes, derivative_planes, rows, level):
    jobs, _, _ = make_jobs(n_rows=77, n_features=11, count=count, seed=count, planes=planes,
                           level=level)
    found = same_gradients(jobs, derivative_planes=derivative_planes, derivative_rows=rows)
    all_of = same_gradients(jobs, derivative_planes=derivative_planes)
    assert found.shared.any() == (planes == 16)
    for one, whole in zip(found.classes, all_of.classes, strict=True):
        assert (one.intercept != 0) == (level != 0)
        assert (one.derivatives is None) == (derivative_planes == 0)
        if one.derivatives is not None:
            n_bytes = 4 * (rows or 77)
            np.testing.assert_array_equal(one.derivatives[:n_bytes], whole.derivatives[:n_bytes])
            assert len(one.derivatives) == -(-n_bytes // 8) * 8


@both
def test_weights_of_rows():
    """Full and inner passes; a weight of half a row's factor halves its updates."""
    plain, _, _ = make_jobs(n_rows=77, n_features=11, count=3, seed=5)
    config = replace(plain[0].config, row_weights=True)
    weights = np.random.default_rng(4).integers(1, 1 << 16, 77).astype(np.uint16)
    jobs = [replace(job, config=config, weights=weights) for job in plain]
    same_gradients(jobs, derivative_planes=4)

    half = [replace(job, weights=np.full(77, 1 << 15, np.uint16)) for job in jobs]
    whole = [replace(job, weights=None) for job in jobs]
    halves, wholes = on_each(half, lambda device: device.class_gradients(half)), \
        on_each(whole, lambda device: device.class_gradients(whole))
    np.testing.assert_allclose(halves[0].shared, wholes[0].shared / 2, atol=77)
    for one, other in zip(halves[0].classes, wholes[0].classes, strict=True):
        np.testing.assert_allclose(one.words, other.words / 2, rtol=0, atol=77 * 2 ** 17)

    passes = inner_jobs(jobs, 4, 4)
    assert all(job.weights is weights for job in passes)
    first, second = on_each(passes, lambda device: device.train_classes(passes))
    plain = [replace(job, weights=None) for job in passes]
    third, _ = on_each(plain, lambda device: device.train_classes(plain))
    for one, other, unweighted in zip(first, second, third, strict=True):
        np.testing.assert_array_equal(one.models, other.models)
        assert (one.models != unweighted.models).any()


@both
@pytest.mark.parametrize("weighted", [False, True])
def test_gradients_in_portions(short_portions, weighted):
    """Sums and derivatives of several portions of the rows."""
    jobs, _, _ = make_jobs(n_rows=201, n_features=5, count=3, seed=8)
    if weighted:
        config = replace(jobs[0].config, row_weights=True)
        weights = np.random.default_rng(4).integers(1, 1 << 16, 201).astype(np.uint16)
        jobs = [replace(job, config=config, weights=weights) for job in jobs]
    same_gradients(jobs, derivative_planes=4, derivative_rows=150)


@both
def test_limit_of_sums_of_all_portions(short_portions, monkeypatch):
    jobs, _, _ = make_jobs(n_rows=201, n_features=5, count=3, seed=8)
    for limit, overflow in ((1 << 46, Overflow(0)), (1 << 30, Overflow.UPDATE)):
        for module in ("bitstep.golden.softmax", "bitstep.devices.cpu.softmax"):
            monkeypatch.setattr(f"{module}.UPDATES_LIMIT", limit)
        for found in on_each(jobs, lambda device: device.class_gradients(jobs)):
            assert [one.overflow for one in found.classes] == [overflow] * 3


@both
@pytest.mark.parametrize("shift, overflow", [(2, Overflow.UPDATE), (3, Overflow(0))])
def test_step_of_a_weight_that_does_not_fit(shift, overflow):
    """The step of a derivative of 1 is 2^(68 - 8 shift) for a weight of a half, and has room below
    2^47; for the others, of 2^-16, it fits.
    """
    weights = np.ones(77, np.uint16)
    weights[40] = 1 << 15
    jobs, _, _ = make_jobs(n_rows=77, count=3, mantissa=1 << 18 - 1, shift=shift, label_shift=36)
    config = replace(jobs[0].config, row_weights=True)
    jobs = [replace(job, config=config, weights=weights) for job in jobs]
    for found in on_each(jobs, lambda device: device.class_gradients(jobs)):
        assert [one.overflow for one in found.classes] == [overflow] * 3


@both
@pytest.mark.parametrize("value", [-(1 << 31), (1 << 31) - 1])
def test_largest_words(value):
    """Dot products as far apart as they can be; label shifts from the least to the largest."""
    for shift in (33, 36, 40):
        jobs, _, _ = make_jobs(n_features=4, label_shift=shift, mantissa=1, shift=1)
        jobs = [replace(job, model=np.full(4, value if k % 2 else ~value, np.int32),
                        intercept=value) for k, job in enumerate(jobs)]
        same_gradients(jobs, derivative_planes=4)


@both
@pytest.mark.parametrize("count, planes", [(2, 1), (3, 4), (10, 8)])
def test_inner_passes(count, planes):
    jobs = inner_jobs(make_jobs(n_rows=90, n_features=6, count=count, seed=2)[0], planes, planes)
    first, second = on_each(jobs, lambda device: device.train_classes(jobs))
    for job, one, other in zip(jobs, first, second, strict=True):
        assert one.epochs_done == 2
        assert (one.models[-1] != job.model).any()
        np.testing.assert_array_equal(one.models, other.models)
        np.testing.assert_array_equal(one.intercepts, other.intercepts)
    assert first[0].counters == second[0].counters
    assert first[0].counters["beats"]
    assert not first[1].counters["beats"]


@both
@pytest.mark.parametrize("options, kind", [
    ({"mantissa": (1 << 18) - 1, "shift": 1}, Overflow.UPDATE),
    ({"correction_mantissa": (1 << 18) - 1, "correction_shift": 1}, Overflow.CORRECTION),
    ({"mantissa": 1 << 17, "shift": 3}, Overflow.MODEL)])
def test_overflows(options, kind):
    jobs = inner_jobs(make_jobs(n_rows=90, n_features=6)[0], 4, 4, **options)
    if kind == Overflow.MODEL:
        jobs[1] = replace(jobs[1], model=np.full(6, (1 << 31) - 1, np.int32))

    def run(device):
        with pytest.raises(RangeOverflowError) as caught:
            device.train_classes(jobs)
        assert caught.value.result.epochs_done == 0
        return caught.value.overflow

    assert on_each(jobs, run) == [kind] * 2


@pytest.mark.parametrize("name", SOFTWARE)
def test_time_is_limited(name):
    jobs = inner_jobs(make_jobs(n_rows=90, n_features=6)[0], 4, 4)
    with open_device(name, jobs[0].config) as device, \
            pytest.raises(RunTimeoutError, match="more than the limit"):
        device.train_classes(jobs, timeout_s=0.0)
    with open_device(name, jobs[0].config) as device, \
            pytest.raises(ValueError, match=r"timeout_s must .*, not nan"):
        device.train_classes(jobs, timeout_s=float("nan"))


def test_what_is_no_set_of_classes_is_refused():
    jobs, _, _ = make_jobs()
    inner = inner_jobs(jobs, 4, 4)
    with open_device("golden", jobs[0].config) as device:
        for wrong, text in [
                (jobs[:1], "2 to 32768 classes"),
                ([jobs[0], replace(jobs[1], label_shift=37)], "same label_shift"),
                ([jobs[0], replace(jobs[1], epochs=(replace(jobs[1].epochs[0], key=6),))],
                 "same epochs"),
                (inner, "labels that are signs")]:
            with pytest.raises(DeviceError, match=text):
                device.class_gradients(wrong)
        with pytest.raises(DeviceError, match="labels that are derivatives"):
            device.train_classes(jobs)
        with pytest.raises(DeviceError, match="the logistic loss"):
            device.class_gradients([replace(job, loss=Loss.LEAST_SQUARES, config=replace(
                job.config, loss_family="linear", update_interval=2)) for job in jobs])


def test_other_devices_say_so():
    class Board(Device):
        name = "board"
        config = PipelineConfig()
        clock_hz = None

        def begin(self, jobs, *, timeout_s=60.0, to_the_end=True):
            raise AssertionError

        def close(self):
            return None

    for work in (Board().class_gradients, Board().train_classes):
        with pytest.raises(DeviceError, match=r"'board' has no pass of all classes.*one-vs-rest"):
            work([])
