"""The golden model: values worked out by hand, and the points it converges to."""

from dataclasses import replace

import numpy as np
import pytest
from fakes import make_job, models

from bitstep.devices.golden import GoldenDevice
from bitstep.golden import sgd
from bitstep.golden.dither import epoch_key
from bitstep.golden.rounding import fits, round_shift
from bitstep.golden.sgd import train
from bitstep.golden.steps import correction
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.job import EpochSteps
from bitstep.pipeline.registers import LabelFormat, Overflow
from bitstep.quantization import quantize
from bitstep.training.objective import Objective, Training
from bitstep.training.planning import plan
from bitstep.training.train import train_model

# A step of 64 / 256 = 1/4 and labels shifted by 2 in all of the examples by hand. Key 0 gives the
# rows of an epoch the dithers 0.005, 0.418, 0.309 and 0.601: of the quarters, 3/4 goes up in rows 2
# and 3 (counted from 1), and 1/2 and 3/4 in row 4.
ROWS, LABELS = [[1, 2], [3, -1]], [10, -6]
QUARTER = {"mantissa": 64, "shift": 1}


def test_single_rows_by_hand():
    # z = 0,            c = (0 - 40) / 4 = -10,          x = (10, 20)
    # z = 30 - 20 = 10, c = (10 + 24) / 4 = 8.5 -> 8,    x = (10 - 24, 20 + 8)
    # z = -14 + 56 = 42, c = 2 / 4 -> 0
    # z = -42 - 28 = -70, c = -46 / 4 = -11.5 -> -12,    x = (-14 + 36, 28 - 12)
    job = make_job(ROWS, LABELS, label_shift=2, epochs=2, **QUARTER)
    assert models(job) == [([-14, 28], 0), ([22, 16], 0)]


def test_batch_and_tail_by_hand():
    # Both rows see x = 0: c = -10 and 24 / 4 = 6, x = (10 - 18, 20 + 6).
    job = make_job(ROWS, LABELS, label_shift=2, batch=2, **QUARTER)
    assert models(job) == [([-8, 26], 0)]
    # A third row alone in its batch: z = 18, c = (18 - 4) / 4 = 3.5 -> 3, same factor.
    job = make_job([*ROWS, [1, 1]], [*LABELS, 1], label_shift=2, batch=2, **QUARTER)
    assert models(job) == [([-11, 23], 0)]


def test_intercept_by_hand():
    # After row 1: x = (10, 20), intercept 70. z = 10 + 7 * 70 = 500, c = 524 / 4 = 131.
    job = make_job(ROWS, LABELS, label_shift=2, intercept_level=7, **QUARTER)
    assert models(job) == [([10 - 393, 20 + 131], 70 - 917)]


def test_warm_start_by_hand():
    # z = 5 + 2 + 7 * 2 = 21, c = (21 - 40) / 4 = -4.75 -> -5
    job = make_job(ROWS[:1], LABELS[:1], label_shift=2, intercept_level=7,
                   model=np.array([5, 1], np.int32), intercept=2, **QUARTER)
    assert models(job) == [([10, 11], 37)]


def test_signs_and_one_bit_by_hand():
    # Bit 1 is +1, bit 0 is -1: rows (1, -1), (-1, -1), labels +1, -1, shift 2.
    # z = 0, c = -1, x = (1, -1); z = 0, c = (0 + 4) / 4 = 1, x = (1 + 1, -1 + 1)
    job = make_job([[1, -1], [-1, -1]], [1, -1], bits=1, label_format=LabelFormat.SIGN,
                   label_shift=2, **QUARTER)
    assert models(job) == [([2, 0], 0)]


@pytest.mark.parametrize("label, model", [
    (36, [9, 9, 9, 9]), (35, [9, 9, 9, 9]),         # c = -9 and -8.75
    (34, [9, 9, 9, 8]), (33, [9, 8, 8, 8]),         # -8.5, -8.25
    (-33, [-8] * 4), (-34, [-8, -8, -8, -9]), (-35, [-8, -9, -9, -9])])
def test_rows_are_rounded_by_their_dither(label, model):
    job = make_job(np.eye(4, dtype=int), [label] * 4, **QUARTER)
    assert models(job) == [(model, 0)]


def test_every_epoch_has_the_dither_of_its_key(monkeypatch):
    # Key 3 rounds down, key 7 up: c = -8.5, then (9 - 34) / 4 = -6.25 or (8 - 34) / 4 = -6.5.
    asked, fills = [], {3: 0, 7: 0xFFFF}

    def constant(key, n_rows):
        asked.append((key, n_rows))
        return np.full(n_rows, fills[key])

    monkeypatch.setattr(sgd, "dithers", constant)
    for keys, words in (((3, 3), (9, 16)), ((3, 7), (9, 15)), ((7, 3), (8, 15)), ((7, 7), (8, 14))):
        job = make_job([[1, 0], [0, 1]], [34, 34],
                       epochs=tuple(EpochSteps(64, 1, key=key) for key in keys))
        assert models(job) == [([word, word], 0) for word in words]
    assert asked == [(key, 2) for key in (3, 3, 3, 7, 7, 3, 7, 7)]


def test_ties_go_up(monkeypatch):
    """Of corrections, and of updates with a dither of one half."""
    monkeypatch.setattr(sgd, "dithers", lambda key, n_rows: np.full(n_rows, 0x8000))
    assert [round_shift(value, 2) for value in (-34, -33, -35, 34, 33, 35, -2, 2, 0)] == \
        [-8, -8, -9, 9, 8, 9, 0, 1, 0]
    # c = -34 / 4 = -8.5 -> -8 and 34 / 4 = 8.5 -> 9
    job = make_job([[1, 0], [0, 1]], [34, -34], **QUARTER)
    assert models(job) == [([8, -9], 0)]


def corrections_job(**changes):
    # w K / 2**16 = +-2048 * 16 / 65536: half of a word is added, or subtracted.
    values = {
        "levels": [[1, 0], [0, 1], [1, 0]], "labels": [10, 2, 23], "correction_period": 1,
        "coefficients": np.array([2048, -2048], np.int32), "model": np.array([10, 20], np.int32),
        "epochs": (EpochSteps(64, 1, 16, 2),) * 2} | changes
    return make_job(values.pop("levels"), values.pop("labels"), **values)


def test_corrections_by_hand():
    # Before row 0: e = (5, -10). Row 0: z = 10, c = 0.
    # Before row 1: x = (15, 10), e = (7.5 -> 8, -5). Row 1: c = 8 / 4 = 2, x = (15, 8).
    # Before row 2: x = (23, 3), e is dropped. Row 2: z = 23, c = 0.
    # Epoch 2. Before row 0: nothing is added, e = (11.5 -> 12, -1.5 -> -1).
    # Row 0: c = 13 / 4 -> 3, x = (20, 3). Before row 1: x = (32, 2), e = (16, -1). Row 1: c = 0.
    # Before row 2: x = (48, 1). Row 2: c = 25 / 4 -> 6, x = (42, 1).
    assert models(corrections_job()) == [([23, 3], 0), ([42, 1], 0)]


def test_correction_period_and_batch_by_hand():
    # T = B = 2. Before row 0: e = (5, -10). Rows 0, 1 see (10, 20): c = 0, c = 18 / 4 -> 4.
    # Before row 2: x = (15, 20 - 4 - 10). Row 2 sees (15, 6): c = -8 / 4 = -2, x = (17, 6).
    job = corrections_job(correction_period=2, batch=2, epochs=(EpochSteps(64, 1, 16, 2),))
    assert models(job) == [([17, 6], 0)]


def test_correction_is_exact():
    words = np.array([2**31 - 1, -2**31])
    exact = correction(words, np.array([131071, -131072]), EpochSteps(1, 1, 2**18 - 1, 1))
    assert exact.tolist() == [((2**31 - 1) * 131071 * (2**18 - 1) + 128) >> 8,
                              (2**31 * 131072 * (2**18 - 1) + 128) >> 8]


@pytest.mark.parametrize("levels, changes, overflow", [
    ([[1]], {"mantissa": 1 << 17, "label_shift": 25}, Overflow.UPDATE),   # 2**9 2**9 2**25
    ([[7]], {"mantissa": 256, "label_shift": 21}, Overflow.MODEL),        # 7 * 2**30
    ([[0]], {"mantissa": 256, "label_shift": 21, "intercept_level": 7}, Overflow.MODEL),
    ([[-2]], {"mantissa": 256, "label_shift": 21}, Overflow(0)),          # -2**31 fits
    ([[2]], {"mantissa": 256, "label_shift": 21}, Overflow.MODEL),        # 2**31 does not
])
def test_overflow(levels, changes, overflow):
    *_, last = train(make_job(levels, [512], **changes))
    assert last.overflow == overflow


@pytest.mark.parametrize("levels, overflow", [
    ([-1, 127], Overflow(0)), ([1, 127], Overflow.MODEL),
    ([1, 127, -1], Overflow.MODEL),             # the last one does not undo it
])
def test_large_levels_leave_the_range_soon(levels, overflow):
    # Each row adds 2^24 times its level, and 128 2^24 is 2^31.
    job = make_job([[level] for level in levels], [512] * len(levels), mantissa=256,
                   label_shift=15, batch=3, config=PipelineConfig(bits=8))
    assert [epoch.overflow for epoch in train(job)] == [overflow]


def test_overflowed_corrections():
    huge = (EpochSteps(64, 1, 2**17, 1),) * 2
    *_, last = train(corrections_job(epochs=huge, model=np.array([2**20, 0], np.int32)))
    assert last.overflow == Overflow.CORRECTION
    # The same correction, in a period that is as long as the epoch, is never added.
    job = corrections_job(epochs=huge, model=np.array([2**20, 0], np.int32), correction_period=3)
    assert all(not epoch.overflow for epoch in train(job))
    # Each fits, but not their sum.
    job = corrections_job(epochs=(EpochSteps(1, 7, 32, 2),), model=np.array([2**30, 0], np.int32))
    *_, last = train(job)
    assert last.overflow == Overflow.MODEL


def test_run_ends_with_the_overflowed_epoch():
    epochs = list(train(make_job([[1]], [512], mantissa=1 << 17, label_shift=25, epochs=5)))
    assert [epoch.overflow for epoch in epochs] == [Overflow.UPDATE]


def test_fits():
    assert [fits(value, 4) for value in (-9, -8, 7, 8)] == [False, True, True, False]
    assert fits(np.array([-8, 7]), 4)
    assert not fits(np.array([0, 8]), 4)
    assert fits(np.array([], np.int64), 4)


# Against real numbers

def with_keys(job, seed):
    """The job with the keys of a run with this seed."""
    return replace(job, epochs=tuple(replace(steps, key=epoch_key(seed, epoch))
                                     for epoch, steps in enumerate(job.epochs)))


@pytest.mark.parametrize("batch", [1, 3])
def test_follows_float_sgd(batch):
    rng = np.random.default_rng(0)
    features = rng.normal(size=(301, 5))
    labels = features @ rng.normal(size=5) + 100 + rng.normal(size=301)
    data = quantize(features, labels, bits=8, encoding="nearest")
    made = plan(data, PipelineConfig(bits=8), Objective(),
                Training(steps=[0.1, 0.05], batch=batch))
    levels = np.hstack([np.rint(np.clip(data.scaler.transform(features), -1, 1) * 127) / 127,
                        np.ones((301, 1))])
    stored = data.label_offset + data.label_scale * np.rint(
        (labels - data.label_offset) / data.label_scale)
    weights = np.zeros(6)
    for step in made.steps:
        for start in range(0, 301, batch):
            rows = levels[start:start + batch]
            residuals = rows @ weights - (stored[start:start + batch] - data.label_offset)
            weights -= step / batch * residuals @ rows
    weights[5] += data.label_offset
    errors = []
    for seed in range(16):
        *_, last = train(with_keys(made.job, seed))
        errors.append(np.append(made.units.weights(last.model),
                                made.units.intercepts(np.array(last.intercept))) - weights)
    # Rounding c has a variance of at most 1/6 on average, and a level is at most 127. Of those
    # sqrt(602 / 6) 127 words the steps forget three quarters again.
    deviation = made.units.model_unit * 127 * (602 / 6) ** 0.5
    assert np.std(errors, axis=0).max() < deviation / 2
    assert np.abs(np.mean(errors, axis=0)).max() < 3 * deviation / 2 / 16 ** 0.5 < 1e-4


@pytest.fixture(scope="module")
def correlated():
    """Correlated columns and their labels: scaled, least squares and ridge-like point differ."""
    rng = np.random.default_rng(1)
    common = rng.uniform(-1, 1, size=(20_000, 1))
    features = 0.5 * common + 0.5 * rng.uniform(-1, 1, size=(20_000, 4))
    labels = features @ np.array([1.0, -2.0, 0.5, 1.5]) + 0.05 * rng.normal(size=20_000)
    return features, labels


@pytest.mark.by_day(1)
@pytest.mark.parametrize("encoding, bits, biased", [
    ("stochastic", 2, True), ("compensated", 2, False), ("double-symmetric", 3, False),
    pytest.param("double", 3, False, marks=pytest.mark.slow)])
def test_point_of_convergence(correlated, encoding, bits, biased):
    features, labels = (values[:6_000] for values in correlated)
    data = quantize(features, labels, bits=bits, encoding=encoding, copies=4)
    u = np.hstack([data.scaler.transform(features), np.ones((len(features), 1))])
    gram, moments = u.T @ u / len(u), u.T @ labels / len(u)
    least_squares = np.linalg.solve(gram, moments)
    ridge_like = np.linalg.solve(gram + np.diag([*data.variance, 0.0]), moments)
    distance = np.linalg.norm(least_squares - ridge_like)
    assert distance > 0.3
    config = PipelineConfig(bits=bits, row_format=data.row_format)
    steps = 0.05 / np.sqrt(np.arange(1, 17))
    trained = train_model([data], GoldenDevice(config), config, Objective(),
                          Training(steps=steps))
    found = np.append(trained.weights[8:, 0].mean(axis=0),
                      trained.scaled_intercepts[8:, 0].mean())
    expected, other = (ridge_like, least_squares) if biased else (least_squares, ridge_like)
    assert np.linalg.norm(found - expected) < 0.2 * distance
    assert np.linalg.norm(found - other) > 0.8 * distance


def test_l2_converges_to_the_ridge_point(correlated):
    features, labels = (values[:5_000] for values in correlated)
    data = quantize(features, labels, bits=8, encoding="nearest")
    u = data.scaler.transform(features)
    centred = labels - labels.mean()
    ridge = np.linalg.solve(np.cov(u.T, bias=True) + 0.1 * np.eye(4),
                            (u - u.mean(axis=0)).T @ centred / len(u))
    trained = train_model([data], GoldenDevice(config := PipelineConfig(bits=8)), config,
                          Objective(l2=0.1), Training(steps=0.03 / np.arange(1, 13)))
    np.testing.assert_allclose(trained.weights[6:, 0].mean(axis=0), ridge, atol=0.02)
