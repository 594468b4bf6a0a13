"""Hinge, squared hinge and logistic loss: values worked out by hand, and SGD in real numbers."""

import numpy as np
import pytest
from fakes import make_job, models, words

from bitstep.golden import integer
from bitstep.golden.sgd import train
from bitstep.golden.sigmoid import ERROR_BOUND, NODES, sigmoid
from bitstep.golden.steps import derivative_step, update_rule
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.job import EpochSteps
from bitstep.pipeline.registers import LabelFormat, Loss, Overflow

# A step of 64 / 256 = 1/4 and targets of +-16 in the examples by hand, so K = 4. Key 0 gives the
# rows of an epoch the dithers 0.005, 0.418, 0.309 and 0.601.
ROWS, LABELS = [[1, 2], [3, -1]], [1, -1]
LOGISTIC = PipelineConfig(bits=4, loss_family="logistic", update_interval=6)


def sign_job(levels, labels, *, loss, label_shift=4, mantissa=64, shift=1, **changes):
    return make_job(levels, labels, loss=loss, label_format=LabelFormat.SIGN, mantissa=mantissa,
                    shift=shift, label_shift=label_shift, **changes)


# By hand

def test_hinge():
    # Row 1: z = 0 < 16, c = -4, x = (4, 8).
    # Row 2: -z = -4 < 16, c = 4, x = (4 - 12, 8 + 4).
    # Row 1: z = -8 + 24 = 16, not below 16: inactive. Row 2: -z = 36, inactive.
    job = sign_job(ROWS, LABELS, loss=Loss.HINGE, epochs=2)
    assert models(job) == [([-8, 12], 0)] * 2
    # Both rows of a batch see x = 0 and are active.
    job = sign_job(ROWS, LABELS, loss=Loss.HINGE, batch=2)
    assert models(job) == [([4 - 12, 8 + 4], 0)]
    # Row 2 with an intercept: -z = -(4 + 7 * 28), c = 4.
    job = sign_job(ROWS, LABELS, loss=Loss.HINGE, intercept_level=7)
    assert models(job) == [([-8, 12], 28 - 28)]


def test_hinge_of_a_negative_target():
    # -z = 16, not below 16: inactive; -z = 8: c = 4.
    job = sign_job([[2, 0], [1, 0]], [-1, -1], loss=Loss.HINGE, model=words(-8, 12))
    assert models(job) == [([-12, 12], 0)]


def test_squared_hinge():
    # Row 1: z = 0, c = -16 / 4, x = (4, 8). Row 2: z = 4, c = 20 / 4, x = (4 - 15, 8 + 5).
    # Row 1: z = 15, active, c = -1 / 4 -> -1, x = (-10, 15).
    # Row 2: z = -45, beyond its target; least squares has c = -29 / 4 = -7.25 -> -7.
    job = sign_job(ROWS, LABELS, loss=Loss.SQUARED_HINGE, epochs=2)
    assert models(job) == [([-11, 13], 0), ([-10, 15], 0)]
    job = sign_job(ROWS, LABELS, loss=Loss.LEAST_SQUARES, epochs=2)
    assert models(job) == [([-11, 13], 0), ([-10 + 21, 15 - 7], 0)]


def huber_job(levels, labels, bound, **changes):
    return make_job(levels, labels, loss=Loss.HUBER, derivative_bound=bound, shift=1,
                    label_shift=2, **{"mantissa": 64, **changes})


def test_huber():
    # A step of 1/4, targets of 4 L and a bound of 4 * 5 = 20, so K = 5.
    # Row 1: z - t = 0 - 40, beyond: c = -5, x = (5, 10).
    # Row 2: z - t = 15 - 10 + 12 = 17, within: c = 4.25 + 0.418 -> 4, x = (5 - 12, 10 + 4).
    job = huber_job(ROWS, [10, -3], 5)
    assert models(job) == [([-7, 14], 0)]
    # Both rows of a batch see x = 0: z - t = 12 in row 2, c = 3.
    job = huber_job(ROWS, [10, -3], 5, batch=2)
    assert models(job) == [([5 - 9, 10 + 3], 0)]
    # Nothing is beyond 40: c = -10, x = (10, 20), and c = 5.5 + 0.418 -> 5 for z - t = 22.
    job = huber_job(ROWS, [10, -3], 10)
    assert models(job) == [([10 - 15, 20 + 5], 0)] == models(
        make_job(ROWS, [10, -3], mantissa=64, shift=1, label_shift=2))


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("beyond, update", [(0, 5), (1, 5), (3, 5), (1000, 5), (-1, 4), (-4, 4)])
def test_huber_at_its_bound(sign, beyond, update):
    # z - t is +-(20 + beyond): at the bound 20 both formulas give 5. The first row's dither 0.005
    # rounds 19 / 4 and 16 / 4 to 4, and -19 / 4 and -20 / 4 to -5.
    job = huber_job([[1]], [0], 5, model=words(sign * (20 + beyond)))
    expected = update if sign > 0 else {-1: -5, -4: -4}.get(beyond, -5)
    assert models(job) == [([sign * (20 + beyond) - expected], 0)]


@pytest.mark.parametrize("label", [100, -100])
@pytest.mark.parametrize("mantissa, model", [
    # K = 4.25, 4.5, 4.75 and 5 by the bound 16, rounded by the row's dither, and then the sign.
    (68, [4, 4, 4, 4]), (72, [4, 4, 4, 5]), (76, [4, 5, 5, 5]), (80, [5] * 4), (0, [0] * 4)])
def test_huber_is_rounded_by_the_dither(label, mantissa, model):
    job = huber_job(np.eye(4, dtype=int), [label] * 4, 4, mantissa=mantissa)
    assert models(job) == [([np.sign(label) * word for word in model], 0)]


def test_largest_derivative_of_huber_must_fit():
    # K = 2^18 - 1 times 2^(26 + 16 + 16 - 8), far beyond 47 bits: the first row ends the run.
    job = huber_job([[1]], [0], (1 << 26) - 1, mantissa=(1 << 18) - 1)
    fits = [epoch.overflow for epoch in train(huber_job([[1]], [0], 1, mantissa=1))]
    assert [epoch.overflow for epoch in train(job)] == [Overflow.UPDATE] != fits


@pytest.mark.parametrize("label", [1, -1])
@pytest.mark.parametrize("mantissa, model", [
    # K = 4.25, 4.5, 4.75: rounded by the row's dither, and then the sign.
    (68, [4, 4, 4, 4]), (72, [4, 4, 4, 5]), (76, [4, 5, 5, 5]), (80, [5] * 4),
    (8, [0, 0, 0, 1]), (4, [0] * 4)])                                   # 0.5, 0.25
def test_hinge_is_rounded_by_the_dither(label, mantissa, model):
    job = sign_job(np.eye(4, dtype=int), [label] * 4, loss=Loss.HINGE, mantissa=mantissa)
    assert models(job) == [([label * word for word in model], 0)]


def test_logistic():
    # Targets +-2^13, K = 2048. Row 1: z = 0, G = 1/2, c = -1024, x = (1024, 2048).
    # Row 2: z = 1024, argument 1/8, between s(0) = 32768 and s(1/4) = 36843: G = 34805.5 + 1/2.
    # c = 2048 * 34806 / 65536 = 1087.7, x = (1024 - 3264, 2048 + 1088).
    job = sign_job(ROWS, LABELS, loss=Loss.LOGISTIC, config=LOGISTIC, label_shift=13)
    assert models(job) == [([-2240, 3136], 0)]
    # K = 5: half of it is rounded to 2, and in the fourth row to 3, before the sign. K = 1.5: 3/4
    # is 1 in all rows but the first.
    for label in (1, -1):
        for mantissa, model in ((40, [2, 2, 2, 3]), (12, [0, 1, 1, 1])):
            job = sign_job(np.eye(4, dtype=int), [label] * 4, loss=Loss.LOGISTIC, config=LOGISTIC,
                           label_shift=13, mantissa=mantissa, shift=2)
            assert models(job) == [([word * label for word in model], 0)]


def test_sigmoid():
    assert sigmoid(0) == 32768
    assert sigmoid(512) == 34806
    assert sigmoid(1 << 12) == 47911            # 65536 * 0.7310586
    assert sigmoid(-8 << 12) == sigmoid(-10**9) == 22       # 65536 * 3.3535e-4
    assert sigmoid((8 << 12) - 1) == sigmoid(10**9) == 65514
    assert len(NODES) == 65


def test_sigmoid_error_of_every_argument():
    arguments = np.arange(-10 << 12, (10 << 12) + 1)
    values = np.array([sigmoid(argument) for argument in arguments.tolist()])
    assert (np.diff(values) >= 0).all()
    errors = [np.abs(values / 65536 - 1 / (1 + np.exp(-(arguments + off) / 4096))).max()
              for off in (-0.5, 0, 0.5)]        # every real number that is rounded to an argument
    assert max(errors) <= ERROR_BOUND
    assert max(errors) > 0.9 * ERROR_BOUND      # so the documented bound is no idle one
    beyond = 1 / (1 + np.exp(np.array([8.0, 9.0, 100.0])))
    assert np.abs(beyond - sigmoid(-100 << 12) / 65536).max() < 3.4e-4


@pytest.mark.parametrize("mantissa, shift, label_shift, expected", [
    (64, 1, 4, 4 << 16), (2, 1, 6, 1 << 15), (1, 1, 6, 1 << 14), (3, 2, 15, 3 << 15),
    ((1 << 18) - 1, 7, 40, (1 << 18) - 1),
    (1, 3, 7, 1), (1, 3, 6, 0), (3, 3, 7, 2), (5, 4, 14, 1), (5, 4, 15, 3)])    # ties go up
def test_derivative_step(mantissa, shift, label_shift, expected):
    job = sign_job([[1]], [1], loss=Loss.HINGE, label_shift=label_shift)
    assert derivative_step(job, EpochSteps(mantissa, shift)) == expected


# Ranges

@pytest.mark.parametrize("loss, config", [(Loss.HINGE, PipelineConfig(bits=4)),
                                          (Loss.LOGISTIC, LOGISTIC)])
@pytest.mark.parametrize("mantissa, overflow", [
    ((1 << 17) - 1, Overflow(0)), (1 << 17, Overflow.UPDATE)])      # 2^31 - 2^14 and 2^31
def test_unit_that_does_not_fit(loss, config, mantissa, overflow):
    # Of the hinge loss no row is active: z = 2^30 and the target is 2^22.
    job = sign_job([[1]], [1], loss=loss, config=config, mantissa=mantissa, shift=1,
                   label_shift=22, model=words(1 << 30))
    epoch, = train(job)
    assert epoch.overflow == overflow


def test_inactive_row_cannot_leave_the_range():
    # c = 2^10 (2^30 - 2^22) would not fit; the row is beyond its target.
    job = sign_job([[1]], [1], loss=Loss.SQUARED_HINGE, mantissa=1 << 17, shift=1, label_shift=22,
                   model=words(1 << 30))
    assert models(job) == [([1 << 30], 0)]
    epoch, = train(sign_job([[1]], [-1], loss=Loss.SQUARED_HINGE, mantissa=1 << 17, shift=1,
                            label_shift=22, model=words(1 << 30)))
    assert epoch.overflow == Overflow.UPDATE


# Against real numbers

def separable(rng, n_rows, n_features, limit):
    """Levels, the last of them constant, and labels of a random model, one in ten turned."""
    levels = rng.integers(-limit, limit + 1, (n_rows, n_features))
    labels = np.where(levels @ rng.uniform(-1, 1, n_features) < 0, -1, 1)
    return levels, labels * rng.choice([1, -1], n_rows, p=[0.9, 0.1])


def float_sgd(levels, labels, derivative, *, target, factor, level):
    """float64 SGD on levels in units of words: (model, intercept), and c of every row."""
    model, intercept, changes = np.zeros(levels.shape[1]), 0.0, []
    for row, label in zip(levels, labels, strict=True):
        change = factor * target * label * derivative(
            label * (row @ model + level * intercept) / target)
        model, intercept = model - change * row, intercept - change * level
        changes.append(change)
    return np.append(model, intercept), np.array(changes)


DERIVATIVES = {
    Loss.HINGE: lambda margin: -1.0 if margin < 1 else 0.0,
    Loss.SQUARED_HINGE: lambda margin: min(margin - 1, 0.0),
    Loss.LOGISTIC: lambda margin: -1 / (1 + np.exp(margin)),
}


@pytest.mark.parametrize("loss, tolerance", [
    # K is 3003.5, and 438 rows are active: 4 deviations of 127 sqrt(438) / 2 words
    (Loss.HINGE, 2.6e-4),
    (Loss.SQUARED_HINGE, 1e-4),     # c of about 7000 is rounded
    (Loss.LOGISTIC, 2e-3)])         # ERROR_BOUND of values of about 1/2
def test_follows_float_sgd(monkeypatch, loss, tolerance):
    """600 rows of 8 bits: the same rows are active, and the model is the same within a part of
    its largest word.
    """
    config = PipelineConfig(bits=8) if loss != Loss.LOGISTIC else \
        PipelineConfig(bits=8, loss_family="logistic", update_interval=6)
    levels, labels = separable(np.random.default_rng(0), 600, 7, 127)
    changes = []

    def recording_rules(job, steps):
        rule = update_rule(job, steps)

        def recorded(dot, target, dither):
            changes.append(rule(dot, target, dither))
            return changes[-1]
        return lambda row: recorded

    monkeypatch.setattr(integer, "update_rules", recording_rules)
    job = sign_job(levels, labels, loss=loss, config=config, label_shift=31, mantissa=6007,
                   shift=4, intercept_level=127)
    epoch, = train(job)
    assert not epoch.overflow
    expected, expected_changes = float_sgd(
        levels, labels, DERIVATIVES[loss], target=2.0 ** 31,
        factor=EpochSteps.scale(6007, 4), level=127)
    found = np.append(epoch.model, epoch.intercept)
    np.testing.assert_allclose(found, expected, atol=tolerance * np.abs(expected).max())
    if loss != Loss.LOGISTIC:
        active = np.array(changes) != 0
        np.testing.assert_array_equal(active, expected_changes != 0)
        assert 0.2 < active.mean() < 0.95
