"""The float pipeline: values worked out by hand, the integer pipeline, NumPy, look-ahead."""

from dataclasses import replace

import numpy as np
import pytest
from fakes import make_job, models, words

from bitstep.golden.float32 import align, decode, total
from bitstep.golden.sgd import train
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.job import EpochSteps
from bitstep.pipeline.levels import unpack_codes
from bitstep.pipeline.memory import pack_floats
from bitstep.pipeline.registers import LabelFormat, Loss, Overflow
from bitstep_sim.testing.random_jobs import random_job

FLOAT = PipelineConfig(bits=32, row_format="float32", lookahead=0)
TINY = 2.0**-13


def float_job(values, labels, *, config=FLOAT, label_shift=24, mantissa=1, shift=3, **changes):
    """A job of floating-point rows; as it stands a step of 1/4 and a label counts as 4 words."""
    values = np.array(values, np.float32)
    return make_job(np.zeros(values.shape, int), labels, config=config, mantissa=mantissa,
                    shift=shift, label_shift=label_shift,
                    rows=(pack_floats(values, config.bus_width),), **changes)


# By hand

def test_values():
    values = [0.0, -0.0, 1.0, -0.5, 1 - 2**-24, 2.0**-126, -(2.0**-127), 1e-45]
    mantissas, exponents = decode(pack_floats(np.array([values], np.float32), FLOAT.bus_width),
                                  float_job([values], [0]))
    assert mantissas.tolist() == [[0, 0, 1 << 23, -1 << 23, (1 << 24) - 1, 1 << 23, 0, 0]]
    assert exponents[0, 2:6].tolist() == [127, 126, 126, 1]
    # Nothing else counts as 0, and the rest is exact.
    exact = mantissas[0, :6].astype(float) * 2.0 ** (exponents[0, :6] - 150.0)
    assert exact.tolist() == values[:6]


def test_products_round_to_nearest_ties_up():
    found = align(np.array([3, 5, -3, -5, 6, -6, 1, -1, 0]), np.array([1, 1, 1, 1, 2, 2, 9, 9, 9]))
    assert found.tolist() == [2, 3, -1, -2, 2, -1, 0, 0, 0]
    large = np.array([2**56 - 1, -2**56, 2**56 - 1])
    assert align(large, np.array([56, 56, 300])).tolist() == [1, -1, 0]
    assert total(np.array([2**56 - 1] * 1000 + [-2**56])) == 999 * 2**56 - 1000


def test_single_rows():
    # z = 0, target 16: c = -16 / 4. x = (4 / 2, -4).
    # z = 2 - 4 = -2, target -4: c = 2 / 4, which goes up with the fourth row's dither, 0.601, and
    # not with 0.418 and 0.309 before. x = (2 - 1, -4 - 1).
    rows, labels = [[0.5, -1], *[[1, 1]] * 3], [4, -1, -1, -1]
    assert models(float_job(rows[:3], labels[:3])) == [([2, -4], 0)]
    assert models(float_job(rows, labels)) == [([1, -5], 0)]


def test_rounding_of_an_update():
    # c = -4: c u = -0.5 -> 0, 0.5 -> 1, -0.5 - 2^-22 -> -1, 0.5 - 2^-24 -> 0
    row = [0.125, -0.125, 0.125 + 2.0**-20, -0.125 + 2.0**-26]
    assert models(float_job([row], [4])) == [([0, -1, 1, 0], 0)]


def test_rounding_of_a_dot_product():
    # c = z in units of 2^-22: 2^-23 is half of one, and goes up.
    def update(value, word):
        job = float_job([[value]], [0], mantissa=256, shift=1, model=words(word), intercept_level=1)
        (_, intercept), = models(job)
        return -intercept
    assert [update(2.0**-23, word) for word in (1, -1, 3, -3)] == [1, 0, 2, -1]
    assert update(2.0**-22, -5) == -5
    assert update(2.0**-127, 2**31 - 1) == 0
    assert update(2.0**-126, 2**31 - 1) == 0


def test_intercept():
    # z = 3 words: c = (12 - 16) / 4 with an input of 1.
    job = float_job([[0.0]], [4], intercept=12, intercept_level=1)
    assert models(job) == [([0], 13)]


def test_hinge():
    # Target 16 words, K = 4; z = 15 + 2^-22 words is active, 16 is not.
    def update(value):
        job = float_job([[value]], [1], label_format=LabelFormat.SIGN, loss=Loss.HINGE,
                        label_shift=26, model=words(16))
        (model, _), = models(job)
        return model[0] - 16
    assert [update(value) for value in (1.0, 0.75, 1 - 2.0**-24, -1.0)] == [0, 3, 4, -4]


@pytest.mark.parametrize("lookahead, last", [
    # The second row meets x = 2^7: z = 2^7 2^-13 in units of 2^-22 is 2^16 = c, and c u = 8.
    (0, 120),
    # The product of the rows, 2^-26, is less than half a unit, so c_1 is not seen.
    (1, 128)])
def test_lookahead_is_part_of_the_result(lookahead, last):
    # First row: target 2^20, c = -2^20, c u = -2^7.
    job = float_job([[TINY], [TINY]], [1, 0], config=replace(FLOAT, lookahead=lookahead),
                    label_shift=20, mantissa=256, shift=1)
    assert models(job) == [([last], 0)]


@pytest.mark.parametrize("values, label, overflow", [
    ([1.0], 2**9, Overflow.MODEL),                    # x = 2^31
    ([-1.0], 2**9, Overflow(0)),                      # x = -2^31 fits
    ([1 - 2.0**-24], 2**9, Overflow(0)),              # x = 2^31 - 2^7
    ([0.0], 2**9 + 1, Overflow.UPDATE)])
def test_overflow(values, label, overflow):
    # c = -label 2^22
    epoch, = train(float_job([values], [label], mantissa=256, shift=1, label_shift=22))
    assert epoch.overflow == overflow


@pytest.mark.parametrize("period, overflow", [
    (2, Overflow.CORRECTION),
    (3, Overflow(0))])        # never added, so it cannot leave its range
def test_overflowed_correction(period, overflow):
    # x w K 2^-8 = 2^20 2048 2^17 / 2^8
    *_, last = train(float_job([[0.0]] * 3, [0] * 3, model=words(1 << 20), correction_period=period,
                               coefficients=words(2048), epochs=(EpochSteps(1, 3, 1 << 17, 1),)))
    assert last.overflow == overflow


def test_intercept_that_does_not_fit():
    # The target is 2^31 + 32 words, z one less than 2^31: c = -33 / 4 -> -9 or -8, for 1 to spare.
    rows = {"intercept_level": 1, "label_format": LabelFormat.INT32}
    for less, overflow in ((1, Overflow.MODEL), (100, Overflow(0))):
        epoch, = train(float_job([[0.0]], [2**29 + 8 - less // 4], intercept=2**31 - less, **rows))
        assert epoch.overflow == overflow
        assert overflow or epoch.intercept in (2**31 - 100 + 8, 2**31 - 100 + 9)


@pytest.mark.parametrize("word, overflow", [(1_431_655_764, Overflow(0)),
                                            (1_431_655_766, Overflow.MODEL)])
def test_sum_with_a_correction_that_does_not_fit(word, overflow):
    # x + x 2^7 / 2^8 = 3 x / 2, though no row has an update.
    epoch, = train(float_job([[0.0]] * 2, [0] * 2, model=words(word), correction_period=1,
                             coefficients=words(128), epochs=(EpochSteps(0, 1, 1, 1),)))
    assert epoch.overflow == overflow
    assert overflow or epoch.model.tolist() == [word * 3 // 2]


# As the integer pipeline, where no product needs rounding

def converted(job, config):
    """The job of 2-bit codes with floating-point rows; one unit of a dot product is 2^22 there."""
    codes = [unpack_codes(copy, job.config.rows, job.n_features).astype(int) for copy in job.rows]
    steps = tuple(replace(steps, mantissa=4 * steps.mantissa, shift=steps.shift + 3)
                  for steps in job.epochs)
    assert job.config.rows.level_limit == 1
    return replace(
        job, config=config, label_shift=job.label_shift + 22, epochs=steps,
        rows=tuple(pack_floats((copy - 4 * (copy >> 1)).astype(np.float32), config.bus_width)
                   for copy in codes))


@pytest.mark.parametrize("lookahead", [0, 1, 3, 8])
@pytest.mark.parametrize("options", [
    {}, {"batch": 3}, {"batch": 20}, {"loss": Loss.HINGE}, {"loss": Loss.SQUARED_HINGE, "batch": 2},
    {"correction_period": 12}, {"correction_period": 12, "batch": 4, "proximal_period": 8},
    {"proximal_period": 1}, {"proximal_period": 3, "correction_period": 10},
    {"proximal_period": 1, "correction_period": 12},
    {"proximal_period": 5, "correction_period": 10, "loss": Loss.HINGE},
    {"loss": Loss.LOGISTIC}], ids=str)
def test_as_integers(lookahead, options):
    """Rows of -1, 0 and 1 make every product exact, so look-ahead changes nothing either."""
    solver = {"loss_family": "logistic", "update_interval": 6} \
        if options.get("loss") == Loss.LOGISTIC else {}
    config = PipelineConfig(bits=2, proximal=True, **solver)
    job = random_job(config, n_features=5, n_rows=101, epochs=3, copies=2, warm=True, **options)
    # Four times a mantissa must fit.
    job = replace(job, epochs=tuple(replace(steps, mantissa=min(steps.mantissa, 0xFFFF))
                                    for steps in job.epochs))
    floats = replace(config, bits=32, row_format="float32", lookahead=lookahead, max_features=6)
    assert models(converted(job, floats)) == models(job)


# Against NumPy

def numpy_sgd(values, labels, factors, dtype, batch=1):
    """SGD in NumPy, with an intercept: one model an epoch."""
    rows = np.hstack([values, np.ones((len(values), 1))]).astype(dtype)
    labels, model = labels.astype(dtype), np.zeros(rows.shape[1], dtype)
    for factor in factors:
        for start in range(0, len(rows), batch):
            part = rows[start:start + batch]
            residuals = part @ model - labels[start:start + batch]
            model = model - dtype(factor) * (residuals @ part)
        yield model


@pytest.mark.parametrize("lookahead", [0, 8])
@pytest.mark.parametrize("batch", [1, 5])
def test_as_numpy(lookahead, batch):
    """Well-scaled rows: the same model as in float64 within 1e-7 of the largest weight, and as in
    float32 within 1e-6, which is float32's own rounding.
    """
    rng = np.random.default_rng(0)
    values = rng.uniform(-1, 1, (300, 9)).astype(np.float32)
    labels = values @ rng.normal(size=9) + 0.3 + 0.1 * rng.normal(size=300)
    stored = np.rint(labels * 2**26).astype(int)        # 2^26 words stand for 1
    steps = (EpochSteps(26_000, 5), EpochSteps(13_001, 5), EpochSteps(7_000, 5))
    config = replace(FLOAT, max_features=10, lookahead=lookahead)
    job = float_job(values, stored, config=config, label_shift=22, epochs=steps, batch=batch,
                    label_format=LabelFormat.INT32, intercept_level=1)
    factors = [EpochSteps.scale(step.mantissa, step.shift) * 2**22 for step in steps]
    assert 0.05 < factors[0] < 0.2
    found = np.array([[*model, intercept] for model, intercept in models(job)]) / 2**26
    for dtype, tolerance in ((np.float64, 1e-7), (np.float32, 1e-6)):
        expected = np.array(list(numpy_sgd(values, stored / 2**26, factors, dtype, batch)))
        assert np.abs(found - expected).max() <= tolerance * np.abs(expected).max()
