"""Planning against numbers worked out by hand."""

import dataclasses

import numpy as np
import pytest
from fakes import quantized

from bitstep.config import PipelineConfig
from bitstep.job import EpochSteps
from bitstep.planning import Units, automatic_period, pipeline_for, plan, step_mantissa
from bitstep.registers import LabelFormat

CONFIG = PipelineConfig(bits=4)     # s = 7
DATA = quantized([[7, -7], [1, 2], [3, 4]], [100, -50, 25], label_scale=0.02)


def test_model_unit_by_hand():
    # 2**31 mu >= 32 * 100 label_scale with mu = 7 label_scale / 2**shift: 2**shift <= 4,697,620
    made = plan(DATA, CONFIG, steps=[0.1])
    assert made.job.label_shift == 22
    assert made.units.model_unit == pytest.approx(0.02 * 7 / 2**22)
    assert made.job.intercept_level == 7
    assert 2**31 * made.units.model_unit >= 32 * 100 * 0.02
    assert 2**30 * made.units.model_unit < 32 * 100 * 0.02


def test_model_unit_of_signs():
    # room = 2**31 * 7 / (32 * 1) = 7 * 2**26, so 28; the default's dot product has 48 bits
    data = quantized([[7], [-7]], [1, -1], label_format=LabelFormat.SIGN)
    made = plan(data, CONFIG, steps=[0.1])
    assert (CONFIG.dot_width, made.job.label_shift) == (48, 28)
    assert made.units.model_unit == 7 / 2**28


def test_label_shift_leaves_labels_within_the_dot_product():
    narrow = PipelineConfig(bits=4, max_features=1)     # 16 lanes: 32 + 7 + 1 bits
    data = quantized([[7], [-7]], [1, -1], label_format=LabelFormat.INT16)
    made = plan(data, narrow, steps=[0.1], model_range=1)
    assert made.job.label_shift == narrow.dot_width - 1 - 16


def test_step_by_hand():
    # 0.1 / 49 * 2**24 = 34,239.2: the next shift's 8.7 million does not fit 18 bits
    made = plan(DATA, CONFIG, steps=[0.1, 0.05])
    assert [(e.mantissa, e.shift) for e in made.job.epochs] == [(34239, 3), (17120, 3)]
    assert made.steps == pytest.approx([34239 * 49 / 2**24, 17120 * 49 / 2**24])
    assert made.step_error == pytest.approx(1 - 17119.6 / 17120, rel=0.1)
    halved = plan(DATA, CONFIG, steps=[0.1], batch=2)
    assert halved.job.epochs[0].mantissa == 17120


@pytest.mark.parametrize("step, mantissa, shift", [
    (1023.99, 262141, 1), (4.0, 1024, 1), (3.99, 261489, 2), (2.0**-50, 64, 7)])
def test_step_mantissa(step, mantissa, shift):
    assert step_mantissa(step, step) == (mantissa, shift)


def test_step_mantissa_has_eleven_bits_or_more():
    for scale in np.geomspace(2.0**-46, 1000, 1000):
        mantissa, shift = step_mantissa(scale, scale)
        assert mantissa < 1 << 18
        assert EpochSteps.scale(mantissa, shift) == pytest.approx(scale, rel=2.0**-10)


def test_steps_that_cannot_be_represented():
    with pytest.raises(ValueError, match=r"step of 60000 is too large .* at most 50175\.9"):
        plan(DATA, CONFIG, steps=[60000])
    with pytest.raises(ValueError, match=r"step of 1e-15 is too small .* at least 4\.35207e-14"):
        plan(DATA, CONFIG, steps=[1e-15])
    for bad in map(np.array, ([], [0.0], [-1.0], [np.nan], [[0.1]])):
        with pytest.raises(ValueError, match="steps must be positive numbers"):
            plan(DATA, CONFIG, steps=bad)


def corrected(n_rows=33, **changes):
    values = {"encoding": "compensated", "variance": [0.02, 0.01]} | changes
    return quantized(np.ones((n_rows, 2), int), np.ones(n_rows, int), **values)


def test_corrections_by_hand():
    # w = (.02, .01): coefficients (131071, 65536); 33 rows, T = 8: 4 corrections; step .49
    made = plan(corrected(), CONFIG, steps=[0.49, 0.245], correction_period=8)
    assert made.job.correction_period == 8
    assert made.job.coefficients.tolist() == [131071, 65536]
    for epoch, step in zip(made.job.epochs, [0.49, 0.245], strict=True):
        factor = EpochSteps.scale(epoch.correction_mantissa, epoch.correction_shift)
        assert factor * 131071 == pytest.approx(step * 33 / 4 * 0.02, rel=1e-3)
    # .49 * 33 / 4 * .02 / 131071 * 2**32 = 2,649.3
    first = made.job.epochs[0]
    assert (first.correction_mantissa, first.correction_shift) == (2649, 4)


def test_correction_is_divided_by_the_batch():
    one, four = (plan(corrected(), CONFIG, steps=[0.49], correction_period=8, batch=batch).job
                 for batch in (1, 4))
    assert EpochSteps.scale(one.epochs[0].correction_mantissa, one.epochs[0].correction_shift) == \
        pytest.approx(4 * EpochSteps.scale(four.epochs[0].correction_mantissa,
                                           four.epochs[0].correction_shift), rel=1e-3)


@pytest.mark.parametrize("encoding, l2, expected", [
    ("compensated", 0.0, [0.02, 0.01]), ("double-symmetric", 0.0, [0.02, 0.01]),
    ("compensated", 0.05, [-0.03, -0.04]), ("stochastic", 0.0, None), ("nearest", 0.0, None),
    ("stochastic", 0.05, [-0.05, -0.05]), ("compensated", 0.01, [0.01, 0.0])])
def test_what_is_corrected(encoding, l2, expected):
    job = plan(corrected(encoding=encoding), CONFIG, steps=[0.1], l2=l2).job
    if expected is None:
        assert job.correction_period == 0
        assert not job.coefficients.any()
        assert job.epochs[0].correction_mantissa == 0
        return
    scale = np.abs(expected).max() / 131071
    assert job.coefficients * scale == pytest.approx(expected, abs=1e-6)
    assert job.correction_period >= 1


@pytest.mark.parametrize("n_rows, batch, growth, period", [
    (20433, 1, 1e-5, 1024),     # 16 corrections an epoch
    (20433, 1, 1e-3, 32),       # 50 rows would change a weight by 5 %
    (20433, 1, 0.3, 1),
    (20433, 6, 1e-3, 192),      # 32 batches of 6 rows
    (40, 1, 1e-5, 2), (16, 1, 1e-5, 1), (5, 4, 1e-5, 4)])
def test_automatic_period(n_rows, batch, growth, period):
    assert automatic_period(n_rows, batch, growth) == period


@pytest.mark.parametrize("period", [0, 3, 34, 33, -4, 2.0, "never"])
def test_bad_correction_period(period):
    with pytest.raises(ValueError, match=r"multiple of the batch \(2\) below the rows \(33\)"):
        plan(corrected(), CONFIG, steps=[0.1], batch=2, correction_period=period)


def test_corrections_need_two_batches():
    with pytest.raises(ValueError, match=r"batch must be less than the rows \(33\).* not 40"):
        plan(corrected(), CONFIG, steps=[0.1], batch=40)
    assert plan(corrected(encoding="stochastic"), CONFIG, steps=[0.1], batch=40).job.batch == 40


def test_too_large_correction():
    with pytest.raises(ValueError, match="diagonal correction is too large"):
        plan(corrected(), CONFIG, steps=[1000], l2=1e8)


def test_initial_model_and_back():
    units = plan(DATA, CONFIG, steps=[0.1]).units
    words, intercept = units.words(np.array([0.5, -0.25]), 0.125)
    made = plan(DATA, CONFIG, steps=[0.1], initial=(units.weights(words),
                                                    float(units.intercepts(np.array(intercept)))))
    np.testing.assert_array_equal(made.job.model, words)
    assert made.job.intercept == intercept
    with pytest.raises(ValueError, match=r"initial model must be below .* larger model_range"):
        plan(DATA, CONFIG, steps=[0.1], initial=(np.array([1e3, 0]), 0.0))
    with pytest.raises(ValueError, match="larger model_range"):
        units.words(np.array([np.nan]), 0.0)


def test_units_by_hand():
    units = Units(model_unit=0.5, label_offset=10.0)
    assert units.weights(np.array([[2, -4]])).tolist() == [[1.0, -2.0]]
    assert units.intercepts(np.array([6])).tolist() == [13.0]
    assert units.words(np.array([1.0, -2.0]), 13.0)[0].tolist() == [2, -4]


def test_no_intercept():
    assert plan(DATA, CONFIG, steps=[0.1], fit_intercept=False).job.intercept_level == 0
    centred = quantized([[1]], [1], label_offset=3.0)
    with pytest.raises(ValueError, match="center_labels=False"):
        plan(centred, CONFIG, steps=[0.1], fit_intercept=False)


@pytest.mark.parametrize("changes, message", [
    ({"batch": 0}, "batch must be an integer from 1"), ({"batch": 1.0}, "batch must be"),
    ({"l2": -1.0}, "l2 must be at least 0"), ({"l2": np.nan}, "l2 must be at least 0"),
    ({"model_range": 0}, "model_range must be positive")])
def test_bad_parameters(changes, message):
    with pytest.raises(ValueError, match=message):
        plan(DATA, CONFIG, steps=[0.1], **changes)


def test_data_of_another_pipeline():
    with pytest.raises(ValueError, match="quantized for 4 bits, a 64-bit bus and family 'single'"):
        plan(DATA, PipelineConfig(bits=3), steps=[0.1])


def test_labels_too_fine_for_the_model():
    data = quantized([[1], [1]], [2**31 - 1, 0], label_format=LabelFormat.INT32)
    with pytest.raises(ValueError, match=r"model_range must be at most 7 .* 32 bits"):
        plan(data, CONFIG, steps=[0.1])
    assert plan(data, CONFIG, steps=[0.1], model_range=7).job.label_shift == 0


def test_pipeline_for():
    config = pipeline_for(n_features=8, bits=4, encoding="compensated")
    assert (config.max_features, config.family) == (4096, "single")
    assert config.lookahead == config.required_lookahead(1)
    assert pipeline_for(n_features=5000, bits=4, encoding="double").max_features == 8192
    assert pipeline_for(n_features=8, bits=4, encoding="double", lookahead=3).lookahead == 3
    assert pipeline_for(n_features=8, bits=4, encoding="double").family == "double"
    for bad in (0, -1, "8"):
        with pytest.raises(ValueError, match="n_features must be at least 1"):
            pipeline_for(n_features=bad, bits=4, encoding="nearest")  # type: ignore


def test_first_epoch_resumes():
    data = corrected()
    data = dataclasses.replace(data, rows=(data.rows[0], 1 * data.rows[0]))
    whole = plan(data, CONFIG, steps=[0.4, 0.2, 0.1])
    rest = plan(data, CONFIG, steps=[0.4, 0.2, 0.1], first_epoch=1)
    assert rest.job.epochs == whole.job.epochs[1:]
    assert rest.job.correction_period == whole.job.correction_period
    assert [id(copy) for copy in rest.job.rows] == [id(copy) for copy in whole.job.rows[::-1]]
    for bad in (-1, 3):
        with pytest.raises(ValueError, match="first_epoch must be from 0 to 2"):
            plan(data, CONFIG, steps=[0.4, 0.2, 0.1], first_epoch=bad)
