"""Integer softmax, and the passes of all classes, against values worked out by hand and floats."""

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from bitstep.golden import softmax
from bitstep.golden.sgd import train
from bitstep.golden.softmax import error_bound, exponential
from bitstep.pipeline.job import EpochSteps, TrainingJob
from bitstep.pipeline.memory import pack_labels
from bitstep.pipeline.registers import LabelFormat, Loss, Overflow
from bitstep.quantization import quantize_bit_planes, sign_labels
from bitstep.training.objective import Objective
from bitstep.training.pipelines import pipeline_of


@pytest.mark.parametrize("argument, value", [
    (0, 1 << 30),
    (22_713, 1_067_942_999),        # the middle of the first piece: round(2^30 2^(-1/128))
    (1 << 22, 395_007_551),         # e^-1; 2^30 / e is 395,007,541.7
    (32 << 22, 0), ((32 << 22) - 1, 0), (1 << 60, 0)])
def test_exponential(argument, value):
    assert exponential(argument) == value


def test_tables():
    """Nodes are powers of 2 rounded to nearest, by integer roots."""
    for j, node in enumerate(softmax.NODES):        # node^64 = 2^(30 * 64 - j), to half a unit
        low, high = (2 * node - 1) ** 64, (2 * node + 1) ** 64
        assert low < 1 << 31 * 64 - j < high
    for j, bow in enumerate(softmax.BOWS):
        middle, rest = divmod(bow + 2 * (softmax.NODES[j] + softmax.NODES[j + 1]), 4)
        assert rest == 0
        assert (2 * middle - 1) ** 128 < 1 << 31 * 128 - 2 * j - 1 < (2 * middle + 1) ** 128
    # log2 e from the series of e^-1: 2^(C / 2^30) differs from e by less than half a unit of C.
    assert abs(softmax.LOG2 / 2 ** 30 - 1 / float(np.log(2))) < 2.0 ** -31


def test_pieces_meet():
    """Where a piece ends the next one begins, so values fall everywhere."""
    found = [exponential(argument) for argument in range(0, 1 << 22, 997)]
    assert all(before > after for before, after in pairwise(found))


@pytest.mark.parametrize("dots, shift, fraction, expected", [
    ([0, 0], 16, 24, [1 << 23] * 2),
    ([7, 7, 7], 3, 24, [5_592_405] * 3),
    ([-5] * 7, 0, 16, [9_362] * 7),
    ([100 << 16, 0], 16, 24, [1 << 24, 0]),
    ([0, 32, 31], 0, 16, [0, 47_911, 17_625]),      # sigmoid(1) 2^16 is 47,911.1
    ([-(1 << 62), 1 << 62], 40, 16, [0, 1 << 16]),  # their difference has 65 bits
    ([(1 << 62) + 1, 1 << 62], 62, 24, [1 << 23] * 2)])
def test_softmax_by_hand(dots, shift, fraction, expected):
    assert softmax.softmax(dots, shift, fraction) == expected


@pytest.mark.parametrize("count", [2, 3, 10, 100])
def test_accuracy(count):
    """Within the stated bound of the true softmax, over all sizes of arguments."""
    rng = np.random.default_rng(count)
    worst = 0.0
    for spread in (0.01, 0.3, 1, 3, 10, 40):
        for values in rng.standard_normal((300, count)) * spread:
            dots = np.rint(values * 2.0 ** 34).astype(np.int64)
            exact = np.exp((dots - dots.max()) / 2.0 ** 34)
            found = np.array(softmax.softmax(dots.tolist(), 34, 24)) / 2.0 ** 24
            worst = max(worst, np.abs(found - exact / exact.sum()).max())
    assert 1e-8 < worst < error_bound(count)


def make_jobs(n_rows=40, n_features=3, count=3, seed=0, label_shift=36, planes=16, level=1 << 16,
              **options) -> tuple[list[TrainingJob], Any, np.ndarray]:
    """Jobs of all classes on random rows; the rows, and the number of each row's class."""
    rng = np.random.default_rng(seed)
    rows = quantize_bit_planes(rng.uniform(-1, 1, (n_rows, n_features)))
    classes = np.arange(n_rows) % count
    config = pipeline_of(rows, Objective(loss=Loss.LOGISTIC, l2=0.1))
    options = {"mantissa": 3 << 14, "shift": 3, "planes": planes, "key": 5} | options
    return [TrainingJob(
        config=config, n_features=n_features, rows=rows.stored, bit_plane_rows=n_rows,
        labels=sign_labels(np.where(classes == k, 1.0, -1.0)).stored,
        label_format=LabelFormat.SIGN, label_shift=label_shift, loss=Loss.LOGISTIC,
        intercept_level=level, batch=1, correction_period=0,
        coefficients=np.zeros(n_features, np.int32), epochs=(EpochSteps(**options),),
        model=rng.integers(-1 << 20, 1 << 20, n_features).astype(np.int32),
        intercept=int(rng.integers(-1 << 20, 1 << 20))) for k in range(count)], rows, classes


def real_softmax(jobs, u, unit):
    """Probabilities of every row, from real numbers."""
    z = np.stack([u @ job.model + job.intercept for job in jobs], axis=1) * unit
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def test_gradient_is_that_of_real_numbers():
    jobs, rows, classes = make_jobs()
    found = softmax.gradients(jobs)
    u = rows.values(slice(None))[0]
    # A dot product is 2^16 u.x, and 2^label_shift is 1: a word is 2^(16 - 36).
    p = real_softmax(jobs, u, 2.0 ** (16 - 36))
    scale = EpochSteps.scale(3 << 14, 3) * 2.0 ** 36
    for k, sums in enumerate(found.classes):
        slope = (p[:, k] - (classes == k)) @ np.hstack([u, np.ones((len(u), 1))])
        measured = np.array([*sums.words, sums.intercept]) / (scale * 2.0 ** 16)
        assert np.abs(measured - slope).max() < len(u) * (error_bound(3) + 1 / scale)
    shared = found.shared / 2.0 ** 30
    assert np.abs(shared - p.T @ p).max() < len(u) * (2 * error_bound(3) + 2.0 ** -30)


def test_one_row_by_hand():
    """Two classes that are alike: P = 1/2, and c = R(K (1/2 - [y = 1]))."""
    jobs, _, _ = make_jobs(n_rows=1, n_features=1, count=2, mantissa=1, shift=1, label_shift=36)
    jobs = [replace(job, model=np.zeros(1, np.int32), intercept=0) for job in jobs]
    one, other = softmax.gradients(jobs, 4).classes
    # K 2^-16 = 2^(36 - 8); half of it is whole, so the dither has no part in it.
    assert one.intercept == -(1 << 27) << 16
    assert other.intercept == 1 << 27 << 16
    # d = -1/2 and 1/2 with 16 fraction bits; a label is 2 d + [y = 1].
    assert np.frombuffer(one.derivatives, "<i4")[0] == 2 * -(1 << 15) + 1
    assert np.frombuffer(other.derivatives, "<i4")[0] == 2 << 15


def test_sum_of_the_updates_of_a_class_has_a_limit(monkeypatch):
    """A row of each of two classes that are alike: 2^27 and -2^27 for either of them."""
    jobs, _, _ = make_jobs(n_rows=2, n_features=1, count=2, mantissa=1, shift=1, label_shift=36)
    jobs = [replace(job, model=np.zeros(1, np.int32), intercept=0) for job in jobs]
    for limit, overflow in ((1 << 28, Overflow.UPDATE), ((1 << 28) + 1, Overflow(0))):
        monkeypatch.setattr(softmax, "UPDATES_LIMIT", limit)
        found = softmax.gradients(jobs)
        assert [one.overflow for one in found.classes] == [overflow] * 2
        assert found.classes[0].intercept == 0


def test_weights_count_in_all_sums():
    """Gradients, and the products of probabilities that the curvature is made of."""
    jobs, rows, classes = make_jobs()
    weights = np.random.default_rng(1).integers(0, 1 << 16, 40).astype(np.uint16)
    config = replace(jobs[0].config, row_weights=True)
    found = softmax.gradients([replace(job, config=config, weights=weights) for job in jobs])
    u = rows.values(slice(None))[0]
    p, share = real_softmax(jobs, u, 2.0 ** (16 - 36)), weights / 2.0 ** 16
    scale = EpochSteps.scale(3 << 14, 3) * 2.0 ** 36
    for k, sums in enumerate(found.classes):
        slope = (share * (p[:, k] - (classes == k))) @ np.hstack([u, np.ones((len(u), 1))])
        measured = np.array([*sums.words, sums.intercept]) / (scale * 2.0 ** 16)
        # A mantissa of 49,152 is rounded to a whole number with each weight.
        assert np.abs(measured - slope).max() < len(u) * (error_bound(3) + 1 / scale + 2.0 ** -15)
    assert np.abs(found.shared / 2.0 ** 30 - p.T @ (share[:, None] * p)).max() < len(u) * (
        2 * error_bound(3) + 2.0 ** -29)


def test_inner_pass_stands_still_at_the_centre():
    """With the derivatives of the full pass as labels no model moves, whatever the codes are."""
    jobs, _, _ = make_jobs(planes=16)
    labels = [one.derivatives for one in softmax.gradients(jobs, 3).classes]
    inner = [replace(job, labels=stored, label_format=LabelFormat.INT32,
                   epochs=(EpochSteps(3 << 14, 3, planes=3, key=9),))
             for job, stored in zip(jobs, labels, strict=True)]
    (models,) = list(softmax.train(inner))
    for job, model in zip(jobs, models, strict=True):
        np.testing.assert_array_equal(model.model, job.model)
        assert model.intercept == job.intercept
    moved = [replace(job, model=job.model + 1000) for job in inner[:1]] + inner[1:]
    assert any((model.model != job.model).any()
               for job, model in zip(moved, next(softmax.train(moved)), strict=True))


def centred(jobs, labels, steps, **changes):
    """Jobs of an inner pass, with these labels of all rows of every class."""
    n_rows = jobs[0].n_rows
    return [replace(job, labels=pack_labels(np.full(n_rows, label), LabelFormat.INT32),
                    label_format=LabelFormat.INT32, epochs=(steps,), **changes)
            for job, label in zip(jobs, labels, strict=True)]


@pytest.mark.parametrize("word", [5, (1 << 31) - 1000])
def test_corrections_are_those_of_a_model_alone(word):
    """With a step of 0 nothing else moves, be it beyond the range of a word."""
    jobs, _, _ = make_jobs(n_rows=9)
    steps = EpochSteps(0, 1, correction_mantissa=1 << 10, correction_shift=3, planes=16)
    inner = centred(jobs, [1, 0, 0], steps, correction_period=2, constant_intercept=1000,
                    constants=np.array([900, -77, 12], np.int32),
                    coefficients=np.array([4096, -4096, 0], np.int32))
    inner[1] = replace(inner[1], model=np.array([word, 9, 4], np.int32))
    alone = [next(train(job)) for job in inner]
    together = next(softmax.train(inner))
    overflow = Overflow.MODEL if word > 5 else Overflow(0)
    assert [one.overflow for one in together] == [overflow] * 3
    assert [one.overflow for one in alone] == [0, overflow, 0]
    if not overflow:
        for job, own, one in zip(inner, together, alone, strict=True):
            assert own.model.tolist() == one.model.tolist() != job.model.tolist()
            assert own.intercept == one.intercept == job.intercept + 4 * 16 * 1000


@pytest.mark.parametrize("shift, overflow", [(3, Overflow(0)), (2, Overflow.UPDATE)])
def test_step_of_an_inner_pass_must_fit_though_no_model_moves(shift, overflow):
    """Of two classes that are alike derivatives are -1/2 and 1/2, as the labels say. The step is
    (2^18 - 1) 2^(53 - 8 shift), and has room below 2^47.
    """
    jobs, _, _ = make_jobs(n_rows=1, n_features=1, count=2, label_shift=37)
    jobs = [replace(job, model=np.zeros(1, np.int32), intercept=0) for job in jobs]
    inner = centred(jobs, [1 - (1 << 16), 1 << 16], EpochSteps((1 << 18) - 1, shift, planes=16))
    assert [one.overflow for one in next(softmax.train(inner))] == [overflow] * 2


def test_largest_updates_of_an_inner_pass():
    """Whole probabilities, less labels of 0: the updates are all of the step, and fit; times a
    level they leave the model.
    """
    jobs, _, _ = make_jobs(n_rows=1, n_features=1, count=2, label_shift=37)
    jobs = [replace(job, model=np.zeros(1, np.int32), intercept=intercept)
            for job, intercept in zip(jobs, (1 << 30, 0), strict=True)]
    inner = centred(jobs, [0, 1], EpochSteps((1 << 18) - 1, 3, planes=16), intercept_level=1 << 16)
    assert [one.overflow for one in next(softmax.train(inner))] == [Overflow.MODEL] * 2


def test_overflow_ends_all_classes():
    jobs, _, _ = make_jobs(mantissa=(1 << 18) - 1, shift=2)
    assert all(one.overflow == Overflow.UPDATE for one in softmax.gradients(jobs).classes)


def test_error_bound_is_that_of_the_parts():
    """Of the distance, the exponent, the parabolas, the exponentials and the result."""
    pieces = Fraction(1, 128) ** 3 * Fraction(333, 1000)        # (h / 2)^3 ln(2)^3
    parts = 2.0 ** -24 + (2.0 ** -25 + 32 * 2.0 ** -31 + float(pieces) / 15.58) / 2 + 2.0 ** -25
    for count in (2, 10, 1000):
        assert parts + (count + 1) * 2.0 ** -32 < error_bound(count)
