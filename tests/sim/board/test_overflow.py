"""Jobs that leave the range of a number, or just do not: the run ends in golden's epoch."""

import dataclasses

import numpy as np
import pytest
from drawn_jobs import FLOAT, LOGISTIC, PROFILE, REFETCH, WEIGHTED_REFETCH, fresh_seed, jobs
from hypothesis import example, given, settings
from hypothesis import strategies as st
from simulated import compare, open_board

from bitstep.golden.dither import dithers
from bitstep.golden.sgd import train
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.job import EpochSteps, TrainingJob
from bitstep.pipeline.memory import pack_codes, pack_floats, pack_labels
from bitstep.pipeline.registers import LabelFormat, Loss, Overflow
from bitstep.pipeline.results import RangeOverflowError
from bitstep_sim.testing.random_jobs import random_job

CONFIG = PipelineConfig(bits=5, max_features=80, lookahead=8)
LOW, HIGH = -1 << 31, (1 << 31) - 1
UPDATE, MODEL, CORRECTION = Overflow.UPDATE, Overflow.MODEL, Overflow.CORRECTION


@pytest.fixture(scope="module")
def board():
    with open_board(CONFIG) as device:
        yield device


def check(device, job):
    """The same epochs and the same end as golden; returns what overflowed in golden."""
    *expected, last = train(job)
    if not last.overflow:
        compare(device.train(job), [*expected, last])
    else:
        with pytest.raises(RangeOverflowError) as raised:
            device.train(job)
        compare(raised.value.result, expected)
        assert raised.value.epoch == len(expected) + 1
        # Golden stops at the first value; the pipeline collects those of the whole epoch.
        assert raised.value.overflow & last.overflow == last.overflow
    return last.overflow


def small_job(levels, labels, model, *, mantissa=256, intercept=0, intercept_level=0, period=0,
              coefficients=None, before=0, after=0, key=0):
    """Rows of few levels; ``before`` and ``after`` are epochs without steps around the one."""
    levels, calm = np.array(levels), EpochSteps(0, 1, 0, 1)
    n_features = levels.shape[1]
    return TrainingJob(
        config=CONFIG, n_features=n_features,
        rows=(pack_codes((levels % 32).astype(np.uint8), 5, 64),),
        labels=pack_labels(np.array(labels), LabelFormat.INT32), label_format=LabelFormat.INT32,
        label_shift=0, intercept_level=intercept_level, batch=1, correction_period=period,
        coefficients=np.zeros(n_features, np.int32) if coefficients is None
        else np.array(coefficients, np.int32),
        epochs=(*[calm] * before, EpochSteps(mantissa, 1, 256, 1, key=key), *[calm] * after),
        model=np.array(model, np.int32), intercept=intercept)


# Keys whose dithers of the rows 0 and 2 round a half down, and up.
DOWN, UP = 0, 5


def test_keys():
    for key, up in ((DOWN, False), (UP, True)):
        assert ((dithers(key, 3)[[0, 2]] >= 0x8000) == up).all()


@pytest.mark.parametrize("word, level, label, mantissa, key, expected", [
    *((word, level, label, 256, key, expected) for key in (DOWN, UP)
      for word, level, label, expected in (
          (HIGH, 1, 0, 0), (HIGH, 1, -1, UPDATE), (LOW, 1, 0, 0), (LOW, 1, 1, UPDATE),
          (HIGH, -1, 0, 0), (LOW, -1, 0, UPDATE))),
    (HIGH, 2, 0, 128, UP, 0), (HIGH, 2, -1, 128, UP, UPDATE), (HIGH, 2, -1, 128, DOWN, 0),
    (LOW, 2, 1, 128, UP, MODEL), (LOW, 2, 1, 128, DOWN, UPDATE), (LOW, 2, 2, 128, UP, UPDATE),
    (0, 15, 0, (1 << 18) - 1, DOWN, 0),
])
@pytest.mark.parametrize("before", [0, 2])
def test_range_of_an_update(board, word, level, label, mantissa, key, expected, before):
    for where in ([[level]], [[level], [0], [0]], [[0], [0], [level]]):
        labels = [label if row != [0] else 0 for row in where]
        job = small_job(where, labels, [word], mantissa=mantissa, before=before, key=key)
        assert check(board, job) == Overflow(expected)


# With level 2 and step 1, x becomes 2 label - 3 x.
MODELS = [(1, (1 << 30) + 1, 0), (0, 1 << 30, MODEL), (0, -1 << 30, 0), (1, -(1 << 30) + 1, MODEL),
          (-1, 1 << 29, 0), (5, -5, 0)]


@pytest.mark.parametrize("word, label, expected", MODELS)
@pytest.mark.parametrize("lane", [0, 11, 12, 79])
def test_range_of_a_model_word(board, word, label, expected, lane):
    levels, model = np.zeros((1, 80), int), np.zeros(80, int)
    levels[0, lane], model[lane] = 2, word
    assert check(board, small_job(levels, [label], model, after=1)) == Overflow(expected)


@pytest.mark.parametrize("word, label, expected", MODELS)
@pytest.mark.parametrize("rows", [1, 5])
def test_range_of_the_intercept(board, word, label, expected, rows):
    levels = np.zeros((rows, 3), int)
    job = small_job(levels, [0] * (rows - 1) + [label], [0] * 3, intercept=word,
                    intercept_level=2)
    if rows == 1:
        assert check(board, job) == Overflow(expected)
    else:           # the rows before multiply the intercept by -3 each
        check(board, job)


@pytest.mark.parametrize("word, coefficient, expected", [
    (HIGH, -1, 0), (LOW + 1, -1, 0), (LOW, -1, CORRECTION), (1 << 30, 2, CORRECTION),
    (-1 << 30, 2, MODEL), (-1 << 30, -2, CORRECTION), ((1 << 30) - 1, 1, 0), (1 << 30, 1, MODEL),
    (-1 << 30, 1, 0), (-(1 << 30) - 1, 1, MODEL), (HIGH, 0, 0), (LOW, 0, 0),
])
@pytest.mark.parametrize("rows, period", [(2, 1), (9, 8), (30, 20), (8, 8), (5, 8)])
def test_range_of_a_correction(board, word, coefficient, expected, rows, period):
    """Added once; where the epoch ends before, it is never added and cannot overflow."""
    levels, model, coefficients = np.zeros((rows, 30), int), np.zeros(30, int), np.zeros(30, int)
    model[29], coefficients[29] = word, coefficient
    job = small_job(levels, [0] * rows, model, mantissa=0, period=period,
                    coefficients=coefficients, before=1)
    assert check(board, job) == Overflow(expected if rows > period else 0)


@pytest.mark.by_day(2)
@pytest.mark.parametrize("examples", [20, pytest.param(60, marks=pytest.mark.slow)])
@pytest.mark.parametrize("config, speed", [
    *((CONFIG, speed) for speed in (3, 30, 1000)), (REFETCH, 1000), (FLOAT, 1000),
    (WEIGHTED_REFETCH, 1000)],
    ids=lambda value: value.name if isinstance(value, PipelineConfig) else str(value))
def test_random_jobs_that_diverge(config, speed, examples):
    """Steps that are too large by far, from the second epoch on."""
    kinds = set()
    with open_board(config) as board:
        diverge(board, speed, kinds, examples)
    assert speed < 30 or any(kinds), "no job left its range"


def diverge(board, speed, kinds, examples):
    """Random jobs; adds what overflowed in each to ``kinds``."""

    # What is drawn depends on the modules that are loaded, and may have too small steps only.
    @example((random_job(board.config, n_features=5, n_rows=40, seed=1), 0))
    @fresh_seed(f"diverging {board.config.name}")
    @settings(max_examples=examples, **PROFILE)
    @given(jobs(board.config))
    def diverging(job_and_lookahead):
        job, _ = job_and_lookahead
        steps = [dataclasses.replace(entry, mantissa=min(entry.mantissa * speed, (1 << 18) - 1))
                 if number else entry for number, entry in enumerate(job.epochs * 2)]
        kinds.add(check(board, dataclasses.replace(job, epochs=tuple(steps))))

    diverging()


@pytest.mark.parametrize("examples", [20, pytest.param(60, marks=pytest.mark.slow)])
def test_random_corrections_that_leave_the_range(examples):
    @fresh_seed("corrections that leave the range")
    @settings(max_examples=examples, **PROFILE)
    @given(st.data())
    def leaving(data):
        with open_board(CONFIG) as device:
            job, _ = data.draw(jobs(CONFIG))
            mantissa = data.draw(st.sampled_from([1 << 8, 1 << 12, 1 << 17]))
            epochs = tuple(dataclasses.replace(entry, correction_mantissa=mantissa,
                                               correction_shift=1 + number % 2)
                           for number, entry in enumerate(job.epochs))
            check(device, dataclasses.replace(job, epochs=epochs))

    leaving()


# Losses, floating-point rows and fine rows: K is mantissa 2^(label_shift - 8 shift).

LARGEST = (1 << 18) - 1


@pytest.mark.parametrize("config, loss", [(CONFIG, Loss.HINGE), (LOGISTIC, Loss.LOGISTIC),
                                          (FLOAT, Loss.HINGE)],
                         ids=["hinge", "logistic", "float"])
@pytest.mark.parametrize("mantissa, shift, label_shift, expected", [
    (LARGEST, 1, 21, 0), (1 << 17, 1, 22, UPDATE), (1, 1, 38, 0), (1, 1, 39, UPDATE)])
@pytest.mark.parametrize("epoch", [0, 1])
def test_range_of_the_unit_update(config, loss, mantissa, shift, label_shift, expected, epoch):
    """31 bits, whatever the rows are: here all of them are 0."""
    job = random_job(config, n_features=3, n_rows=4, loss=loss, intercept=False)
    steps = [EpochSteps(0, 1)] * epoch + [EpochSteps(mantissa, shift)]
    job = dataclasses.replace(job, rows=(np.zeros_like(job.rows[0]),), epochs=tuple(steps),
                              label_shift=label_shift)
    with open_board(config) as device:
        assert check(device, job) == Overflow(expected)


def hinge_job(config, values, label, model, *, update, calm_rows, intercept=None):
    """A row that the model has at 0, so it is active, and rows of zeros; K is ``update``."""
    values = np.vstack([values, np.zeros((calm_rows, len(model)))])
    job = random_job(config, n_features=len(model), n_rows=len(values), epochs=1, loss=Loss.HINGE,
                     intercept=intercept is not None, cell_half_levels=int(config.refetch))
    if config.row_format == "float32":
        rows, scale = pack_floats(values.astype(np.float32), config.bus_width), (24, 3)
    else:
        levels = np.clip(np.floor(values + 0.5), -3, 3).astype(int)
        rows, scale = pack_codes((levels % 8).astype(np.uint8), 3, 64), (8, 1)
    fine_rows = (values * 2 ** config.rows.fine_fraction).astype(np.int16) \
        if config.refetch else None
    label_shift, shift = scale
    return dataclasses.replace(
        job, rows=(rows,), fine_rows=fine_rows, label_shift=label_shift,
        epochs=(EpochSteps(update, shift),),
        labels=pack_labels(np.array([label] + [1] * calm_rows), LabelFormat.SIGN),
        model=np.array(model, np.int32), intercept=intercept or 0)


@pytest.mark.parametrize("config", [REFETCH, FLOAT], ids=["refetched", "float"])
@pytest.mark.parametrize("label, word, expected", [
    (1, HIGH - 5000, 0), (1, HIGH - 4999, MODEL), (-1, LOW + 5000, 0), (-1, LOW + 4999, MODEL)])
@pytest.mark.parametrize("place", [0, -1])
@pytest.mark.parametrize("calm_rows", [0, 9])
def test_range_of_a_word_of_a_row_that_is_used_exactly(config, label, word, expected, place,
                                                       calm_rows):
    """X + y K v with v = 1, beside a word that makes the dot product 0."""
    values, model = np.zeros((1, config.rows.capacity)), np.zeros(config.rows.capacity, int)
    values[0, [place, 1]], model[place], model[1] = 1, word, -word
    job = hinge_job(config, values, label, model, update=5000, calm_rows=calm_rows)
    *_, last = train(job)
    assert bool(last.refetched_rows) == config.refetch
    with open_board(config) as device:
        assert check(device, job) == Overflow(expected)


@pytest.mark.parametrize("v, change", [(1 + 2.0**-13, 4096), (1 - 2.0**-13, 4095),
                                       (-1 + 2.0**-13, -4096), (-1 - 2.0**-13, -4097)])
@pytest.mark.parametrize("beyond", [0, 1])
def test_rounding_at_the_range_of_a_refetched_word(v, change, beyond):
    """X - round(c v) with c = -4096: c v ends in a half, and goes up."""
    word = HIGH - change + beyond if v > 0 else LOW - change - beyond
    model = [word, -word if v > 0 else word]
    job = hinge_job(REFETCH, np.array([[v, abs(v)]]), 1, model, update=4096, calm_rows=3)
    *_, last = train(job)
    assert last.refetched_rows >= 1
    with open_board(REFETCH) as device:
        assert check(device, job) == Overflow(MODEL if beyond else 0)


@pytest.mark.parametrize("config", [REFETCH, FLOAT], ids=["refetched", "float"])
@pytest.mark.parametrize("beyond", [0, 1])
def test_range_of_the_intercept_of_a_row_that_is_used_exactly(config, beyond):
    level, update = config.rows.intercept_limit, 5000
    constant = HIGH - update * level + beyond
    job = hinge_job(config, np.array([[float(level)]]), 1, [-constant], update=update, calm_rows=0,
                    intercept=constant)
    with open_board(config) as device:
        assert check(device, job) == Overflow(MODEL if beyond else 0)
