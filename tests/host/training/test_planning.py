"""Planning against numbers worked out by hand."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from fakes import planned as plan
from fakes import quantized, settings

from bitstep.golden import dither
from bitstep.golden.dither import epoch_key
from bitstep.golden.threefry import threefry
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.job import MODEL_LIMIT, EpochSteps
from bitstep.pipeline.losses import LOSSES
from bitstep.pipeline.registers import LabelFormat, Loss
from bitstep.quantization import quantize
from bitstep.training.pipelines import pipeline_for
from bitstep.training.ranges import Units, automatic_range
from bitstep.training.schedules import automatic_step
from bitstep.training.stepping import (
    automatic_period,
    automatic_proximal_period,
    checked_derivative_step,
    step_mantissa,
)
from bitstep.training.train import lost_updates
from bitstep.training.trained import TrainedModel

CONFIG = PipelineConfig(bits=4)     # s = 7
DATA = quantized([[7, -7], [1, 2], [3, 4]], [100, -50, 25], label_scale=0.02)


def range_of(data, *, initial=None, **options):
    """The automatic range from the fields of objective and training."""
    return automatic_range(data, CONFIG, *settings(**options), initial=initial)


def with_rows(data, **changes):
    """A data set with other rows."""
    return dataclasses.replace(data, rows=dataclasses.replace(data.rows, **changes))


def with_scale(data, scale):
    """A data set with another unit of its labels."""
    return dataclasses.replace(data, labels=dataclasses.replace(data.labels, scale=scale))


def test_model_unit_by_hand():
    # 2**31 mu >= 64 * 100 label_scale with mu = 7 label_scale / 2**shift: 2**shift <= 2,348,810
    made = plan(DATA, CONFIG, steps=[0.1], model_range=64)
    assert made.job.label_shift == 21
    assert made.units.model_unit == pytest.approx(0.02 * 7 / 2**21)
    assert made.job.intercept_level == 7
    assert 2**31 * made.units.model_unit >= 64 * 100 * 0.02
    assert 2**30 * made.units.model_unit < 64 * 100 * 0.02


def test_model_unit_of_signs():
    # room = 2**31 * 7 / (32 * 1) = 7 * 2**26, so 28; the default's dot product has 48 bits
    data = quantized([[7], [-7]], [1, -1], label_format=LabelFormat.SIGN)
    made = plan(data, CONFIG, steps=[0.1], model_range=32)
    assert (CONFIG.rows.dot_width, made.job.label_shift) == (48, 28)
    assert made.units.model_unit == 7 / 2**28


@pytest.mark.parametrize("max_features, packed", [
    (1, False), (1, True), (16, False), (16, True), (64, False), (4096, False)])
def test_label_shift_leaves_labels_within_every_dot_product(max_features, packed):
    """2 terms of at most 7: 32 + 4 + 1 bits, whatever the pipeline, which must not change models.
    """
    config = PipelineConfig(bits=4, max_features=max_features, packed=packed, lookahead=0)
    data = quantized([[7], [-7]], [1, -1], label_format=LabelFormat.INT16)
    made = plan(data, config, steps=[0.1], model_range=0.1)     # for which 22 bits would do
    assert made.job.label_shift == 37 - 1 - 16
    signs = quantized([[7], [-7]], [1, -1], label_format=LabelFormat.SIGN)
    assert plan(signs, config, steps=[0.1], model_range=0.1).job.label_shift == 37 - 1 - 1


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


@pytest.mark.parametrize("batch, above, period", [
    (1, 0, 1), (1, 3, 4), (1, 4, 8), (6, 5, 6), (6, 6, 12), (4, 32, 64)])
def test_automatic_period_is_more_than_the_lookahead(batch, above, period):
    assert automatic_period(20433, batch, 0.3, above) == period
    assert automatic_period(20433, 1, 1e-5, above) == 1024


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
    large = (np.array([1e3, 0]), 0.0)
    with pytest.raises(ValueError, match=r"initial model must be below .* larger model_range"):
        plan(DATA, CONFIG, steps=[0.1], initial=large, model_range=32)
    # An automatic range has room for it.
    assert plan(DATA, CONFIG, steps=[0.1], initial=large).units.weights(
        plan(DATA, CONFIG, steps=[0.1], initial=large).job.model)[0] == pytest.approx(1e3)
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
    ({"l2": -1.0}, "l2 must be 0, or a number of at least 1e-100"),
    ({"l2": np.nan}, "l2 must be 0, or a number of at least 1e-100"),
    ({"model_range": 0}, "model_range must be a number above 0")])
def test_bad_parameters(changes, message):
    with pytest.raises(ValueError, match=message):
        plan(DATA, CONFIG, steps=[0.1], **changes)


def test_data_of_another_pipeline():
    with pytest.raises(ValueError,
                       match="quantized for 4 bits, a 64-bit bus and row format 'one_level'"):
        plan(DATA, PipelineConfig(bits=3), steps=[0.1])


def test_labels_too_fine_for_the_model():
    data = quantized([[1], [1]], [2**31 - 1, 0], label_format=LabelFormat.INT32)
    with pytest.raises(ValueError, match=r"model_range must be at most 7 .* 32 bits"):
        plan(data, CONFIG, steps=[0.1], model_range=32)
    assert plan(data, CONFIG, steps=[0.1], model_range=7).job.label_shift == 0
    assert plan(data, CONFIG, steps=[100.0]).job.label_shift == 0       # the automatic range is 7


def test_pipeline_for():
    config = pipeline_for(n_features=8, bits=4, encoding="compensated")
    assert (config.max_features, config.row_format) == (4096, "one_level")
    assert config.lookahead == config.stages.required_lookahead(1)
    assert pipeline_for(n_features=5000, bits=4, encoding="double").max_features == 8192
    assert pipeline_for(n_features=8, bits=4, encoding="double", lookahead=3).lookahead == 3
    assert pipeline_for(n_features=8, bits=4, encoding="double").row_format == "two_levels"
    for bad in (0, -1, "8"):
        with pytest.raises(ValueError, match="n_features must be an integer of at least 1"):
            pipeline_for(n_features=bad, bits=4, encoding="nearest")  # type: ignore


def test_first_epoch_resumes():
    data = corrected()
    data = with_rows(data, stored=(data.rows.stored[0], 1 * data.rows.stored[0]))
    whole = plan(data, CONFIG, steps=[0.4, 0.2, 0.1])
    rest = plan(data, CONFIG, steps=[0.4, 0.2, 0.1], first_epoch=1)
    assert rest.job.epochs == whole.job.epochs[1:]
    assert rest.job.correction_period == whole.job.correction_period
    assert [id(copy) for copy in rest.job.rows] == [id(copy) for copy in whole.job.rows[::-1]]
    for bad in (-1, 3):
        with pytest.raises(ValueError, match="first_epoch must be from 0 to 2"):
            plan(data, CONFIG, steps=[0.4, 0.2, 0.1], first_epoch=bad)


# The automatic range of a model

def test_automatic_range_by_hand():
    # 3 rows: 3 batches of 1, or 2 of 2; at most 4 labels of derivative each; 16 epochs
    options: dict[str, Any] = {"steps": [0.05, 0.1]}
    assert range_of(DATA, **options) == pytest.approx(4 * 3 * 1.6)
    assert range_of(DATA, batch=2, **options) == pytest.approx(4 * 2 * 1.6)
    assert range_of(SIGNS, loss=Loss.HINGE, **options) == pytest.approx(2 * 3 * 1.6)
    # Only steps that add up to more than 16 of the largest count.
    assert range_of(DATA, steps=[0.01] * 16) == pytest.approx(4 * 3 * 0.16)
    assert range_of(DATA, steps=[0.01] * 17) == pytest.approx(4 * 3 * 2.56)
    assert range_of(DATA, steps=[1e6]) == 32
    assert range_of(SIGNS, steps=[1e6], loss=Loss.SQUARED_HINGE) == 128
    # The largest label is 2, so this model is 9.7 of them: more than half of 19.2.
    start = (np.array([-19.4, 1.0]), 0.5)
    assert range_of(DATA, initial=start, **options) == pytest.approx(9.7 + 19.2)
    # One that an epoch of the same training made asks for no other range.
    assert range_of(DATA, initial=(np.array([-19.0, 1.0]), 0.5),
                           **options) == pytest.approx(19.2)
    assert range_of(DATA, initial=(np.array([100.0, 1.0]), 0.5), **options) == 100
    # What labels of many bits leave.
    fine = quantized([[1], [1]], [2**31 - 1, 0], label_format=LabelFormat.INT32)
    assert range_of(fine, steps=[50]) == pytest.approx(7, rel=1e-6)


@pytest.mark.parametrize("bits", [1, 4, 8])
@pytest.mark.parametrize("loss", list(Loss))
@pytest.mark.parametrize("batch", [1, 256])
def test_automatic_settings_go_together(bits, loss, batch):
    """Defaults at 32 bits a label, large batches, many epochs: no setting refuses another, and K
    uses the bits that there are.
    """
    rng = np.random.default_rng(bits)
    features = rng.uniform(size=(600, 300)) ** 2
    classes = features @ rng.normal(size=300) > 0
    labels = classes if loss != Loss.LEAST_SQUARES else features @ rng.normal(size=300)
    data = quantize(features, labels, bits=bits, encoding="nearest",
                    task="regression" if loss == Loss.LEAST_SQUARES else "classification",
                    label_bits=32 if loss == Loss.LEAST_SQUARES else None)
    config = pipeline_for(n_features=300, bits=bits, encoding="nearest", loss=loss)
    steps = automatic_step(data.rows, batch, loss=loss) / np.arange(1, 101)
    made = plan(data, config, steps=steps, batch=batch, loss=loss)
    assert made.step_error < 0.002
    largest = 1 if loss != Loss.LEAST_SQUARES else (1 << 26) - 1
    first = made.job.epochs[0]
    step = EpochSteps.scale(first.mantissa, first.shift) * largest * 2.0 ** made.job.label_shift
    assert step > 80


def test_epochs_without_an_update():
    """Epochs that change no word count, unless the updates are large enough or nothing is lost."""
    def trained(still, error):
        none = np.zeros((3, 1, 2))
        return TrainedModel(none, none[..., 0], none, none[..., 0], np.ones(3), {},
                            np.array(still), error, model_range=32.0)

    losses = np.array([2.0, 1.0, 1.0])
    found = lost_updates(trained([False, True, True], 0.5), losses)
    assert found is not None
    assert found.startswith("the model did not change in 2 of 3 epochs (epoch 2 is the first)")
    assert lost_updates(trained([False, True, True], 0.001), losses) is None
    assert lost_updates(trained([False, False, False], 0.5), losses) is None
    assert lost_updates(trained([True, True, True], 0.5), np.zeros(3)) is None


def test_keys_of_the_epochs():
    """Each epoch has a key of its own, from the seed of the data; a resumed run has the same."""
    seeded = with_rows(DATA, seed=(5 << 32) + 7)
    keys = [epoch.key for epoch in plan(seeded, CONFIG, steps=[0.1] * 4).job.epochs]
    assert keys == [epoch_key(7, epoch) for epoch in range(4)]
    assert len(set(keys)) == 4
    rest = plan(seeded, CONFIG, steps=[0.1] * 4, first_epoch=2).job.epochs
    assert [epoch.key for epoch in rest] == keys[2:]


def test_more_beats_than_a_run_can_have():
    job = plan(DATA, CONFIG, steps=[0.1]).job
    rows = np.broadcast_to(job.rows[0][:1], (1 << 32, job.rows[0].shape[1]))
    with pytest.raises(ValueError, match=r"rows \(4294967296\) times .* below 2\*\*32, not "
                                         "4294967296; train on fewer rows or on a wider bus"):
        dataclasses.replace(job, rows=(rows,))


# Losses other than least squares

SIGNS = quantized([[7, -7], [1, 2], [3, -4]], [1, -1, 1], label_format=LabelFormat.SIGN)
MARGINS = (Loss.SQUARED_HINGE, Loss.HINGE, Loss.LOGISTIC)
LOGISTIC = dataclasses.replace(CONFIG, loss_family="logistic", update_interval=6)


def config_of(loss):
    return LOGISTIC if loss == Loss.LOGISTIC else CONFIG


@pytest.mark.parametrize("loss", MARGINS)
def test_losses_have_a_wider_range(loss):
    # room = 2**31 * 7 / (128 * 1) = 7 * 2**24: two bits less than for least squares
    made = plan(SIGNS, config_of(loss), steps=[100.0], loss=loss)
    assert made.job.loss == loss
    assert made.model_range == 128
    assert made.job.label_shift == 26
    assert made.units.model_unit == 7 / 2**26
    assert plan(SIGNS, config_of(loss), steps=[0.1], loss=loss,
                model_range=32).job.label_shift == 28
    assert (made.job.proximal_period, made.job.box_limit) == (0, MODEL_LIMIT)
    assert (made.job.fine_rows, made.job.cell_half_levels, made.job.correction_period) == (None, 0,
                                                                                           0)


def test_steps_of_the_hinge_are_those_of_its_unit():
    # mantissa 2^-56 is 1e-10 / 49, so 147,059, and K = round(147,059 2^-14) = round(8.98)
    options = {"loss": Loss.HINGE, "model_range": 128}
    with pytest.raises(ValueError, match=r"at least 7\.1\d*e-10, a smaller batch"):
        plan(SIGNS, CONFIG, steps=[1e-10], **options)
    # 8e-10: K = round(71.804); its 16 fraction bits are 2^-16 of an update each.
    made = plan(SIGNS, CONFIG, steps=[8e-10, 1.0], **options)
    assert made.steps == pytest.approx([72 * 49 / 2**42, 1], rel=1e-3)
    assert abs(made.steps / [8e-10, 1] - 1).max() == pytest.approx(72 / 71.804 - 1, rel=1e-2)
    # A batch divides the least step, and the hinge's steps with it.
    assert plan(SIGNS, CONFIG, steps=[32e-10], batch=4, **options).steps == \
        pytest.approx([4 * 72 * 49 / 2**42], rel=1e-9)


def test_error_of_a_step():
    """What the dither of an update cannot tell from 0 is part of it: 2^-17 of the last bit."""
    # 0.1 / 49 2^26 is K = 136,957; the mantissa 34,239 is off by 2.4e-6 of itself
    made = plan(SIGNS, CONFIG, steps=[0.1], loss=Loss.SQUARED_HINGE, model_range=128)
    assert made.step_error == pytest.approx(0.2 / 34239.2 + 2**-17 / 136957, rel=0.1)
    tiny = plan(SIGNS, CONFIG, steps=[1e-12], loss=Loss.SQUARED_HINGE, model_range=128)
    assert tiny.step_error == pytest.approx(2**-17 / (1e-12 / 49 * 2**26), rel=0.1)
    assert tiny.step_error > 5      # not even rows that are off by a whole label are learned from


def test_unit_update_by_hand():
    assert checked_derivative_step(3 << 8, 1, 4, 0.1) == 48 << 16       # 768 * 16 / 256
    assert checked_derivative_step(7 << 6, 1, 1, 0.1) == 7 << 15       # 3.5
    assert checked_derivative_step(127, 3, 7, 0.1) == 64               # 63.5 / 65,536
    with pytest.raises(ValueError, match=r"step of 0\.1 is too small .* at least 0\.128, a smaller "
                                         "batch or a smaller model_range"):
        checked_derivative_step(50, 3, 8, 0.1)     # 50 / 65,536: 64 / 50 times as much
    assert checked_derivative_step((1 << 18) - 1, 1, 21, 0.1) == (1 << 47) - (1 << 29)
    with pytest.raises(ValueError, match=r"step of 0\.1 is too large .* than 0\.05, or a larger "
                                         "model_range"):
        checked_derivative_step(1 << 17, 1, 23, 0.1)    # 2^32


@pytest.mark.parametrize("loss", [Loss.HINGE, Loss.LOGISTIC])
def test_steps_that_do_not_fit_the_range(loss):
    # 4 bits: K = step / 49 2^26; 2^31 - 1 at a step of 1,568, 2^-10 at 7.13e-10.
    with pytest.raises(ValueError, match=r"2000 is too large for .* than 1568, or a larger"):
        plan(SIGNS, config_of(loss), steps=[2000], loss=loss)
    with pytest.raises(ValueError, match=r"5e-10 is too small for .* at least 7\.1\d*e-10, a"):
        plan(SIGNS, config_of(loss), steps=[100, 5e-10], loss=loss)
    assert plan(SIGNS, config_of(loss), steps=[2000], loss=loss, model_range=256).steps
    assert len(plan(SIGNS, config_of(loss), steps=[5e-10], loss=loss).steps)
    assert len(plan(SIGNS, CONFIG, steps=[2000, 5e-10], loss=Loss.SQUARED_HINGE).steps)


@pytest.mark.parametrize("loss", MARGINS)
def test_losses_need_signs(loss):
    with pytest.raises(ValueError, match=f"A loss {loss.name} needs labels of two classes, not of"):
        plan(DATA, config_of(loss), steps=[0.1], loss=loss)


@pytest.mark.parametrize("loss", MARGINS)
@pytest.mark.parametrize("encoding", ["compensated", "double-symmetric"])
def test_losses_without_corrections(loss, encoding):
    data = with_rows(SIGNS, encoding=encoding)
    with pytest.raises(ValueError, match=f"encoding='{encoding}' does not go together with loss="
                                         f"'{LOSSES[loss].name}': .*; choose another loss"):
        plan(data, config_of(loss), steps=[0.1], loss=loss)


@pytest.mark.parametrize("loss", MARGINS)
def test_l2_of_every_loss(loss):
    data = with_rows(SIGNS, variance=np.array([0.1, 0.2]))    # without effect
    job = plan(data, config_of(loss), steps=[0.49], loss=loss, l2=0.05, correction_period=1).job
    assert job.coefficients.tolist() == [-131071, -131071]
    factor = EpochSteps.scale(job.epochs[0].correction_mantissa, job.epochs[0].correction_shift)
    assert factor * 131071 == pytest.approx(0.49 * 3 / 2 * 0.05, rel=1e-3)


def test_range_of_the_logistic_loss():
    # label_shift 13 is 2^31 * 7 / 2^13 = 1,835,008, and 12 would be twice that.
    assert plan(SIGNS, LOGISTIC, steps=[0.1], loss=Loss.LOGISTIC,
                model_range=1835008).job.label_shift == 13
    with pytest.raises(ValueError, match=r"at most 1\.83501e\+06 for the logistic loss, not 2e"):
        plan(SIGNS, LOGISTIC, steps=[0.1], loss=Loss.LOGISTIC, model_range=2e6)


# Refetching

def test_refetching():
    features = np.array([[0.0, 1], [3, -1], [1, 5]])
    data = quantize(features, np.array([0, 1, 1]), bits=4, encoding="nearest", fine_rows=True,
                    task="classification")
    config = pipeline_for(n_features=2, bits=4, encoding="nearest", refetch=True)
    job = plan(data, config, steps=[0.1], loss=Loss.HINGE, refetch=True).job
    assert job.fine_rows is data.fine_rows
    assert job.cell_half_levels == 1
    straw_man = plan(data, config, steps=[0.1], loss=Loss.HINGE).job
    assert (straw_man.fine_rows, straw_man.cell_half_levels) == (None, 0)
    for loss in (Loss.LEAST_SQUARES, Loss.SQUARED_HINGE, Loss.LOGISTIC):
        with pytest.raises(ValueError, match=f"needs loss=.hinge., not .*{LOSSES[loss].name}.: "):
            plan(data, config, steps=[0.1], loss=loss, refetch=True)
    with pytest.raises(ValueError, match=r"the data set has none: .*\(fine_rows=True\)"):
        plan(SIGNS, config, steps=[0.1], loss=Loss.HINGE, refetch=True)
    with pytest.raises(ValueError, match="a batch of 1, not for HINGE and 2"):
        plan(data, config, steps=[0.1], loss=Loss.HINGE, refetch=True, batch=2)
    with pytest.raises(ValueError, match="build one with refetch=True"):
        plan(data, CONFIG, steps=[0.1], loss=Loss.HINGE, refetch=True)


# Proximal steps

PROXIMAL = dataclasses.replace(CONFIG, proximal=True)


def test_thresholds_by_hand():
    # 34 rows with P = 4 are 9 steps, of 34 / 9 rows each on average
    data = with_scale(corrected(34, encoding="nearest"), 0.02)
    made = plan(data, PROXIMAL, steps=[0.4, 0.2], l1=0.001)
    unit = made.units.model_unit
    assert made.job.proximal_period == 4
    assert [epoch.threshold for epoch in made.job.epochs] == \
        [round(0.001 * step * 34 / 9 / unit) for step in made.steps]
    assert made.job.box_limit == MODEL_LIMIT
    # A batch of 2 rows makes one step of them.
    made = plan(data, PROXIMAL, steps=[0.4], l1=0.001, batch=2, model_range=32)
    unit = made.units.model_unit
    assert made.job.proximal_period == 4
    assert made.job.epochs[0].threshold == round(0.001 * made.steps[0] * 34 / 9 / 2 / unit)
    # A period of all rows, or more, is one step.
    for batch in (34, 1000):
        made = plan(data, PROXIMAL, steps=[0.4], l1=0.001, batch=batch, model_range=32)
        unit = made.units.model_unit
        assert made.job.proximal_period == batch
        assert made.job.epochs[0].threshold == round(0.001 * made.steps[0] * 34 / batch / unit)


def test_large_and_small_thresholds():
    for l1, threshold in ((1e30, MODEL_LIMIT), (1e-30, 0)):
        job = plan(DATA, PROXIMAL, steps=[0.1], l1=l1).job
        assert job.epochs[0].threshold == threshold
        assert job.proximal_period == 1


def test_box_by_hand():
    unit = plan(DATA, PROXIMAL, steps=[0.1], model_range=32).units.model_unit
    job = plan(DATA, PROXIMAL, steps=[0.1], box=10.5 * unit, model_range=32).job
    assert (job.box_limit, job.epochs[0].threshold, job.proximal_period) == (10, 0, 1)
    assert plan(DATA, PROXIMAL, steps=[0.1], box=1e9).job.box_limit == MODEL_LIMIT
    assert plan(DATA, PROXIMAL, steps=[0.1], box=unit, model_range=32).job.box_limit == 1
    with pytest.raises(ValueError, match=r"box must be at least 6\.67572e-08, .* not 3\.3e-08"):
        plan(DATA, PROXIMAL, steps=[0.1], box=3.3e-8, model_range=32)


@pytest.mark.parametrize("n_rows, batch, period", [
    (20433, 1, 256), (2048, 1, 256), (2047, 1, 128), (100, 1, 8), (1, 1, 1), (20433, 6, 384),
    (20433, 1000, 1000), (10, 1000, 1000)])
def test_automatic_proximal_period(n_rows, batch, period):
    assert automatic_proximal_period(n_rows, batch) == period
    # A threshold of a quarter of the largest label is the limit.
    assert automatic_proximal_period(n_rows, batch, 0.25 * batch / period) == period
    if period > batch:
        assert automatic_proximal_period(n_rows, batch, 0.26 * batch / period) == period // 2
    assert automatic_proximal_period(n_rows, batch, 1e6) == batch


def test_strong_l1_makes_short_periods():
    # Labels up to 2, steps of 0.4: a batch adds 0.4 l1 to a threshold, a fifth of l1 labels.
    data = with_scale(corrected(2000, encoding="nearest"), 2.0)
    for l1, period in ((0.001, 128), (0.01, 64), (0.1, 8), (1.0, 1), (100.0, 1)):
        assert plan(data, PROXIMAL, steps=[0.4, 0.2], l1=l1).job.proximal_period == period
    assert plan(data, PROXIMAL, steps=[0.4], box=1.0).job.proximal_period == 128


def test_proximal_steps_need_their_pipeline():
    with pytest.raises(ValueError, match="build one with proximal=True"):
        plan(DATA, CONFIG, steps=[0.1], l1=0.1)
    with pytest.raises(ValueError, match="build one with proximal=True"):
        plan(DATA, CONFIG, steps=[0.1], box=1.0)
    assert plan(DATA, PROXIMAL, steps=[0.1]).job.proximal_period == 0


@pytest.mark.parametrize("changes, message", [
    ({"l1": -1.0}, r"l1 must be a number of at least 0, not -1\.0"),
    ({"l1": np.nan}, "l1 must be a number of at least 0"),
    ({"l1": np.inf}, "l1 must be a number of at least 0"),
    ({"box": 0.0}, "box must be a number above 0"),
    ({"box": -1.0}, "box must be a number above 0, not -1"),
    ({"box": np.nan}, "box must be a number above 0"), ({"loss": 7}, "7 is not a valid Loss")])
def test_bad_penalties(changes, message):
    with pytest.raises(ValueError, match=message):
        plan(DATA, PROXIMAL, steps=[0.1], **changes)


# Floating-point rows

def float_data(n_rows=64, task="regression", **options):
    features = np.linspace(-1, 1, 2 * n_rows).reshape(-1, 2) ** 3
    labels = features[:, 0] > 0 if task == "classification" else features[:, 0] * 50
    return quantize(features, labels, bits=32, encoding="float", task=task, **options)


FLOAT = pipeline_for(n_features=2, bits=32, encoding="float", lookahead=3)


def test_float_units_by_hand():
    # s = 2^22: 2^31 2^22 / (32 * 1) = 2^48 of a sign; step / (2^22 1) = mantissa 2^(-8 shift)
    data = float_data(task="classification")
    made = plan(data, FLOAT, steps=[0.5], model_range=32)
    assert made.job.label_shift == 48
    assert made.units.model_unit == 2.0**-26
    assert (made.job.epochs[0].mantissa, made.job.epochs[0].shift) == (1 << 17, 5)
    assert made.steps.tolist() == [0.5]
    assert made.job.intercept_level == 1
    assert plan(data, FLOAT, steps=[0.5], fit_intercept=False).job.intercept_level == 0
    assert plan(data, FLOAT, steps=[0.5], loss=Loss.HINGE).job.label_shift == 46
    # A step as large as the range: an active row moves the intercept by it.
    assert plan(data, FLOAT, steps=[127.5], loss=Loss.HINGE).steps.tolist() == [127.5]
    with pytest.raises(ValueError, match=r"129 is too large for .* than 128, or a larger"):
        plan(data, FLOAT, steps=[129], loss=Loss.HINGE)


def test_float_labels():
    # 32 bits by default: 2^53 / (32 (2^26 - 1)) is a little more than 2^22
    job = plan(float_data(), FLOAT, steps=[0.5]).job
    assert (job.label_format, job.label_shift) == (LabelFormat.INT32, 22)
    job = plan(float_data(label_bits=16), FLOAT, steps=[0.5]).job
    assert (job.label_format, job.label_shift) == (LabelFormat.INT16, 33)
    # 2^31 2^22 / range: the end are the 32 + 24 + 1 bits of products with 2 features.
    assert plan(float_data(task="classification"), FLOAT, steps=[0.5],
                model_range=0.5).job.label_shift == 54
    for small in (2.0**-8, 2.0**-20):
        assert plan(float_data(task="classification"), FLOAT, steps=[0.5],
                    model_range=small).job.label_shift == 55


def test_float_corrections_wait_for_the_lookahead():
    assert FLOAT.ahead.of_rows(1) == 3
    job = plan(float_data(), FLOAT, steps=[0.5], l2=0.5).job
    assert job.correction_period == 4
    assert plan(float_data(), FLOAT, steps=[0.5], l2=0.5, correction_period=5).job
    with pytest.raises(ValueError, match=r"the rows \(64\), more than the look-ahead \(3\), not 3"):
        plan(float_data(), FLOAT, steps=[0.5], l2=0.5, correction_period=3)
    with pytest.raises(ValueError, match=r"more than 4 for L2 .* look-ahead of 3, not 4; choose a"):
        plan(float_data(4), FLOAT, steps=[0.5], l2=0.5)
    slow = dataclasses.replace(FLOAT, lookahead=0)
    assert plan(float_data(4), slow, steps=[0.5], l2=0.5).job.correction_period == 1


# Pipelines

@pytest.mark.parametrize("options, expected", [
    ({"encoding": "float", "bits": 32}, ("float32", "linear", 4)),
    ({"encoding": "float", "bits": 32, "loss": Loss.LOGISTIC}, ("float32", "logistic", 6)),
    ({"loss": Loss.LOGISTIC}, ("one_level", "logistic", 6)),
    ({"loss": Loss.HINGE}, ("one_level", "linear", 2)),
    ({"encoding": "double", "loss": Loss.SQUARED_HINGE}, ("two_levels", "linear", 2))])
def test_pipeline_of_a_loss(options, expected):
    config = pipeline_for(**{"n_features": 90, "bits": 8, "encoding": "nearest"} | options)
    assert (config.row_format, config.loss_family, config.update_interval) == expected
    assert config.lookahead == config.stages.required_lookahead(config.rows.beats(90))
    assert not config.proximal
    assert not config.refetch


def test_pipeline_with_refetching():
    config = pipeline_for(n_features=8, bits=8, encoding="nearest", refetch=True, proximal=True)
    assert (config.refetch, config.proximal, config.lookahead) == (True, True, 6)
    assert pipeline_for(n_features=8, bits=8, encoding="nearest", refetch=True,
                        lookahead=3) == dataclasses.replace(config, proximal=False, lookahead=3)
    # Few bits leave most rows open, and long rows are slow to come again: then no row goes ahead.
    for n_features, bits, lookahead in ((8, 7, 6), (8, 6, 0), (64, 8, 2), (65, 8, 0), (1000, 2, 0)):
        config = pipeline_for(n_features=n_features, bits=bits, encoding="nearest", refetch=True)
        assert (config.lookahead, config.refetch) == (lookahead, True)
    assert pipeline_for(n_features=8, bits=2, encoding="nearest", refetch=True,
                        lookahead=2).lookahead == 2
    for options in ({"encoding": "float", "bits": 32}, {"loss": Loss.LOGISTIC}):
        with pytest.raises(ValueError, match=r"refetch=True does not go .* with (row_f|loss_f)"):
            pipeline_for(**{"n_features": 8, "bits": 8, "encoding": "nearest",  # type: ignore
                            "refetch": True} | options)


def test_pipeline_of_an_unknown_encoding():
    with pytest.raises(ValueError, match=r"encoding must be one of .*float, bit_planes, not 'x'"):
        pipeline_for(n_features=8, bits=8, encoding="x")


def test_keys_of_all_epochs_at_once(monkeypatch):
    """One by one, those of 100,000 epochs took longer than training on a few rows."""
    calls = []
    monkeypatch.setattr(dither, "threefry", lambda *given: calls.append(given) or threefry(*given))
    made = plan(DATA, CONFIG, steps=[0.1] * 500)
    assert len(calls) == 1
    seed = DATA.rows.seed % (1 << 32)
    assert [epoch.key for epoch in made.job.epochs[:3]] == [
        epoch_key(seed, number) for number in range(3)]
    assert len(made.job.epochs) == 500


def test_huber_starts_at_the_median():
    """Labels 100, -50, 25 and 0 in steps of 0.02: the median is 0.25. The model's unit is mu."""
    data = quantized([[7, -7], [1, 2], [3, 4], [5, 5]], [100, -50, 25, 0], label_scale=0.02)
    made = plan(data, CONFIG, steps=[0.1], loss=Loss.HUBER)
    assert made.job.intercept == round(0.25 / made.units.model_unit)
    assert not made.job.model.any()
    other = plan(data, CONFIG, steps=[0.1], loss=Loss.LEAST_SQUARES)
    without = plan(data, CONFIG, steps=[0.1], loss=Loss.HUBER, fit_intercept=False)
    assert other.job.intercept == without.job.intercept == 0
    # A start would need a range that short steps do not.
    short = {"steps": [1e-4], "loss": Loss.HUBER, "fit_intercept": False}
    assert range_of(data, **short) == plan(data, CONFIG, **short).model_range
    given = plan(data, CONFIG, steps=[0.1], loss=Loss.HUBER, initial=(np.zeros(2), 0.0))
    assert given.job.intercept == 0
