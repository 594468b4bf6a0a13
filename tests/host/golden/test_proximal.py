"""Proximal steps: values worked out by hand, and proximal SGD in real numbers."""

import numpy as np
import pytest
from fakes import make_job, models

from bitstep.golden.sgd import train
from bitstep.golden.steps import proximal_step
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.job import MODEL_LIMIT, EpochSteps

CONFIG = PipelineConfig(bits=4, proximal=True)

# As in the examples of least squares: a step of 1/4, labels shifted by 2, and key 0: of the
# quarters, 3/4 goes up in rows 2 and 3.
ROWS, LABELS = [[1, 2], [3, -1]], [10, -6]


def proximal_job(levels=ROWS, labels=LABELS, *, thresholds=(3,), steps=(64, 1), **changes):
    values = {"config": CONFIG, "label_shift": 2, "proximal_period": 1,
              "epochs": tuple(EpochSteps(*steps, threshold=threshold) for threshold in thresholds)}
    return make_job(levels, labels, **values | changes)


# By hand

def test_step():
    words = np.array([0, 1, -1, 3, -3, 4, -4, 9, -9, 2**31 - 1, -2**31])
    assert proximal_step(words, 3, 5).tolist() == [0, 0, 0, 0, 0, 1, -1, 5, -5, 5, -5]
    assert proximal_step(words, 0, 2**31 - 1).tolist() == [*words[:-1].tolist(), 1 - 2**31]
    assert proximal_step(words, 2**31 - 1, 2**31 - 1).tolist() == [0] * 10 + [-1]
    assert not proximal_step(words, 0, 0).any()


def test_after_every_row():
    # Row 1: x = (10, 20) -> (7, 17) -> (7, 15).
    # Row 2: z = 21 - 15, c = 30 / 4 = 7.5 -> 7, x = (7 - 21, 15 + 7) -> (-11, 19) -> (-11, 15).
    assert models(proximal_job(box_limit=15)) == [([-11, 15], 0)]
    # Without the box: z = 21 - 17, c = 28 / 4, x = (7 - 21, 17 + 7) -> (-11, 21).
    assert models(proximal_job()) == [([-11, 21], 0)]


def test_the_intercept_is_left_alone():
    # Row 1: c = -10, intercept 70. Row 2: z = 6 + 7 * 70, c = 520 / 4 = 130, x = (-383, 145).
    job = proximal_job(box_limit=15, intercept_level=7)
    assert models(job) == [([-15, 15], 70 - 910)]


def test_threshold_of_each_epoch():
    # Epoch 2, threshold 100: whatever comes is 0.
    assert models(proximal_job(thresholds=(3, 100))) == [([-11, 21], 0), ([0, 0], 0)]


def test_period_and_end_of_the_epoch():
    # Rows 1 and 2 as without steps: x = (-14, 28), then (-11, 25), and (-11, 20) with the box.
    # Row 3: z = 9, c = (9 - 4) / 4 = 1.25 -> 1, x = (-12, 19), and the last step: (-9, 16).
    job = proximal_job([*ROWS, [1, 1]], [*LABELS, 1], proximal_period=2, box_limit=20)
    assert models(job) == [([-9, 16], 0)]
    # A period longer than the epoch: one step at its end. After row 3 without any other:
    # z = 14, c = 10 / 4 = 2.5 -> 2, x = (-16, 26) -> (-13, 23) -> (-13, 20).
    job = proximal_job([*ROWS, [1, 1]], [*LABELS, 1], proximal_period=100, box_limit=20)
    assert models(job) == [([-13, 20], 0)]


def test_end_of_the_epoch_is_no_second_step():
    assert models(proximal_job(proximal_period=2)) == [([-14 + 3, 28 - 3], 0)]


def test_batch():
    # Both rows see x = 0: x = (-8, 26) -> (-5, 23). Row 3: z = 18, c = 14 / 4 = 3.5 -> 3,
    # x = (-8, 20) -> (-5, 17).
    job = proximal_job([*ROWS, [1, 1]], [*LABELS, 1], batch=2, proximal_period=2)
    assert models(job) == [([-5, 17], 0)]


def test_comes_before_a_correction():
    # Corrections of half a word. Before row 0: e = (5, -10). Row 0: z = 10, c = 0, (9, 19).
    # Before row 1: x = (14, 9), e = (7, -4.5 -> -4). Row 1: c = 7 / 4 -> 2, x = (14, 7) -> (13, 6).
    # Before row 2: x = (20, 2), e is dropped. Row 2: c = -3 / 4 -> -1, x = (21, 2) -> (20, 1).
    job = make_job([[1, 0], [0, 1], [1, 0]], [10, 2, 23], config=CONFIG, correction_period=1,
                   coefficients=np.array([2048, -2048], np.int32),
                   model=np.array([10, 20], np.int32), proximal_period=1,
                   epochs=(EpochSteps(64, 1, 16, 2, 1),))
    assert models(job) == [([20, 1], 0)]


# Against real numbers

def float_proximal_sgd(levels, targets, *, factor, batch, period, threshold, limit, epochs):
    """float64 proximal SGD in units of words."""
    model = np.zeros(levels.shape[1])
    for _ in range(epochs):
        for start in range(0, len(levels), batch):
            rows = levels[start:start + batch]
            model -= factor * (rows @ model - targets[start:start + batch]) @ rows
            done = start + len(rows)
            if done % period == 0 or done == len(levels):
                model = np.sign(model) * np.minimum(np.maximum(np.abs(model) - threshold, 0), limit)
    return model


@pytest.mark.parametrize("threshold, limit", [
    (1 << 18, MODEL_LIMIT), (0, 1 << 26), (1 << 18, 1 << 25)], ids=["l1", "box", "both"])
@pytest.mark.parametrize("batch, period", [(1, 1), (1, 7), (4, 8)])
def test_follows_float_proximal_sgd(threshold, limit, batch, period):
    """Words of up to 2^28 are the same within 3e-5 of the largest: c is rounded."""
    rng = np.random.default_rng(0)
    weights = np.array([2.0, -1.5, 1.0, 0.03, -0.02, 0.0])
    levels = rng.integers(-127, 128, (501, 6))
    labels = np.rint((levels / 127 @ weights / 7 + 0.01 * rng.normal(size=501)) * 30_000)
    labels = labels.astype(int)
    threshold = threshold * period // batch
    job = proximal_job(levels, labels, config=PipelineConfig(bits=8, proximal=True), batch=batch,
                       label_shift=22, steps=(4000 // batch, 4), thresholds=(threshold,) * 3,
                       proximal_period=period, box_limit=limit)
    *_, last = train(job)
    assert not last.overflow
    expected = float_proximal_sgd(levels, labels * 2.0 ** 22, factor=job.epochs[0].scale(
        4000 // batch, 4), batch=batch, period=period, threshold=threshold, limit=limit, epochs=3)
    np.testing.assert_allclose(last.model, expected, atol=3e-5 * np.abs(expected).max())
    if limit == MODEL_LIMIT:
        assert (last.model == 0).any()
    if not threshold:
        assert (np.abs(last.model) == limit).any()
