"""Weights of packed rows on the simulated board: a step for each row of a beat."""

from dataclasses import replace

import numpy as np
import pytest
from drawn_jobs import PACKED, PACKED_WEIGHTS, tonight
from simulated import TestedDevice, check_models, check_ranges, compare, golden, open_board

import bitstep
from bitstep.cycles import Memory, count_epochs
from bitstep.cycles.shape import Shape
from bitstep.golden.sgd import train
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.memory import pack_labels
from bitstep.pipeline.parts.widths import MAX_SHIFT
from bitstep.pipeline.registers import LabelFormat, Loss, Overflow
from bitstep.pipeline.results import AbortedError, RangeOverflowError
from bitstep_sim.testing.random_jobs import random_jobs

LOSSES = (Loss.LEAST_SQUARES, Loss.SQUARED_HINGE, Loss.HINGE, Loss.HUBER)
FORMATS = list(LabelFormat)
CORNERS = np.array([1, 65535, 0, 32768, 65534, 2, 40503], np.uint16)

# Every width of a code, rows of one feature and of 64, beats of one row and of 64, and what else a
# pipeline for packed rows can have.
MORE = [
    PipelineConfig(bits=1, max_features=1, lookahead=0, corrections=False, packed=True,
                   row_weights=True),
    PipelineConfig(bits=1, max_features=64, lookahead=0, models=2, packed=True, row_weights=True),
    PipelineConfig(bits=2, max_features=2, lookahead=0, corrections=False, models=2, packed=True,
                   row_weights=True),
    PipelineConfig(bits=2, row_format="two_levels", max_features=7, lookahead=0, packed=True,
                   row_weights=True),
    PipelineConfig(bits=3, max_features=5, lookahead=0, minibatch=False, models=5, packed=True,
                   row_weights=True),
    PipelineConfig(bits=4, bus_width=128, row_ports=2, max_features=8, lookahead=0, models=16,
                   packed=True, row_weights=True),
    PipelineConfig(bits=5, row_format="two_levels", bus_width=128, max_features=4, lookahead=0,
                   models=3, packed=True, row_weights=True),
    PipelineConfig(bits=6, max_features=1, lookahead=0, minibatch=False, corrections=False,
                   packed=True, row_weights=True),
    PipelineConfig(bits=7, bus_width=256, row_ports=4, max_features=9, lookahead=0, packed=True,
                   row_weights=True),
    PipelineConfig(bits=8, max_features=8, lookahead=0, models=9, packed=True, row_weights=True),
    PipelineConfig(bits=8, max_features=8, lookahead=0, packed=True, row_weights=True),
    PipelineConfig(bits=8, bus_width=512, max_features=16, lookahead=0, models=4, packed=True,
                   row_weights=True),
]


@pytest.fixture(scope="module")
def board():
    with open_board(PACKED_WEIGHTS) as device:
        yield device


def jobs_of(count, weights=None, config=PACKED_WEIGHTS, **options):
    """Random jobs for one run, whose steps and corrections differ; with these weights in turn, or
    drawn ones.
    """
    options = {"n_features": 3, "speeds": [0.5, 0.2, 0.4, 0.1], "weighted": True} | options
    drawn = random_jobs(config, count, **options)
    if weights is not None:
        found = np.resize(np.asarray(weights, np.uint16), drawn[0].n_rows)
        drawn = [replace(job, weights=found) for job in drawn]
    return [replace(job, epochs=tuple(
        replace(steps, correction_mantissa=(900 - 100 * (number % 5)) >> 8 * (number % 2),
                correction_shift=4 - number % 2) for steps in job.epochs))
        for number, job in enumerate(drawn)]


def drawn(config, rng, **options):
    """Random jobs for one run of a board, which stay in range."""
    per_beat = config.rows.rows_per_beat
    while True:     # corrections at random can make words grow
        batch = int(rng.choice([1, 2, 3, 5, 16, 64])) if config.minibatch else 1
        chosen = {
            "n_features": int(rng.integers(1, config.max_features + 1)),
            "n_rows": int(rng.choice([1, 2, per_beat, per_beat + 1, 4 * per_beat - 1, 100, 233])),
            "batch": batch, "loss": LOSSES[rng.integers(4)],
            "label_format": FORMATS[rng.integers(3)],
            "correction_period": config.corrections * batch * int(rng.choice([0, 0, 1, 2, 16])),
            "epochs": int(rng.integers(1, 4)), "copies": int(rng.integers(1, 3)),
            "intercept": bool(rng.integers(2)), "warm": bool(rng.integers(2)),
            "shared_labels": bool(rng.integers(2)), "seed": int(rng.integers(1 << 30)),
            "weighted": bool(rng.integers(4))} | options
        weights = CORNERS if chosen["weighted"] and rng.integers(3) == 0 else None
        jobs = jobs_of(int(rng.integers(1, config.models + 1)), weights, config, **chosen)
        if not any(epoch.overflow for job in jobs for epoch in golden(job)):
            return jobs


@pytest.mark.parametrize("weights", [[1], [65535], [0], [*CORNERS]],
                         ids=["1", "65535", "0", "mixed"])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("batch", [1, 16])
def test_corner_weights(board, weights, loss, batch):
    jobs = jobs_of(3, weights, n_rows=61, loss=loss, batch=batch, warm=True)
    if weights == [1]:      # mantissas of 0 and 1, which the dithers of weights decide
        jobs = [replace(job, epochs=tuple(
            replace(steps, mantissa=40_000 // min(batch, 3) + number, shift=1)
            for steps in job.epochs)) for number, job in enumerate(jobs)]
    for job, result in zip(jobs, check_models(board, jobs), strict=True):
        assert (result.models == job.model).all() == (weights == [0])


@pytest.mark.parametrize("n_features", [1, 2, 3])
@pytest.mark.parametrize("n_rows", [1, 4, 5, 6, 101])
def test_rows_around_a_beat(board, n_features, n_rows):
    """The rows of the last beat, whose other places have no weight."""
    check_models(board, jobs_of(3, n_features=n_features, n_rows=n_rows, seed=n_rows))


@pytest.mark.parametrize("batch", [1, 2, 3, 5, 7, 64, 1000])
@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_batches(board, batch, count):
    """Also in turns of fewer models than the pipeline has, and in second runs."""
    n_rows = 301 if batch > 50 else 121
    check_models(board, jobs_of(count, n_rows=n_rows, batch=batch, warm=True, seed=batch,
                                loss=LOSSES[batch % 4], shared_labels=count == 2))


@pytest.mark.parametrize("batch, period", [(1, 1), (1, 4), (5, 5), (16, 32), (3, 300)])
def test_corrections(board, batch, period):
    rng = np.random.default_rng(period)
    n_rows = 300 if period == 300 else 120
    for _ in range(3):
        check_models(board, drawn(PACKED_WEIGHTS, rng, n_features=3, n_rows=n_rows, batch=batch,
                                  correction_period=period, epochs=3, weighted=True))


@pytest.mark.parametrize("label_format", FORMATS)
@pytest.mark.parametrize("count, shared", [(1, False), (3, False), (3, True)])
@pytest.mark.parametrize("weighted", [True, False])
def test_label_formats(board, label_format, count, shared, weighted):
    """Of rows with weights and, on the same board, of rows without."""
    check_models(board, jobs_of(count, n_rows=43, label_format=label_format, weighted=weighted,
                                shared_labels=shared, batch=4))


def test_weights_cost_no_cycle(board):
    """Where labels are not the limit: the words of the labels of a beat."""
    jobs = jobs_of(3, n_rows=500, batch=1, label_format=LabelFormat.INT16, shared_labels=True)
    plain = [replace(job, weights=None) for job in jobs]
    weighted, without = (check_models(board, some)[0].counters for some in (jobs, plain))
    other, _ = count_epochs(plain[0], Memory(), config=PACKED, others=plain[1:])
    assert without == other
    words = [Shape.of(some[0], PACKED_WEIGHTS, None, some[1:]).label_words
             for some in (jobs, plain)]
    assert words == [400, 200]
    assert weighted["bytes_read"] - without["bytes_read"] == 8 * 200 * len(jobs[0].epochs)
    # Four words of labels are there a few cycles later than two, in each epoch.
    assert weighted["stall_lookahead"] == without["stall_lookahead"]
    assert 0 <= weighted["cycles"] - without["cycles"] <= 4 * len(jobs[0].epochs)


@pytest.mark.by_day(8)
@pytest.mark.parametrize("seed", range(20))
def test_random_jobs(board, seed):
    check_models(board, drawn(PACKED_WEIGHTS, np.random.default_rng(seed)))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("place", range(5))
def test_a_step_that_fits_all_rows_of_a_beat_but_one(board, loss, place):
    """K of weight 256 is 2^47, of 255 it is less; dot products are so close to the labels that
    updates are small. Of some losses K does not count.
    """
    (job,) = jobs_of(1, n_rows=36, loss=loss, epochs=1, intercept=False,
                     label_format=LabelFormat.SIGN)
    positive, codes = np.arange(36) % 3 == 0, np.zeros_like(job.rows[0])
    codes[:, 0] = np.where(positive, 1, 15)     # a level of 1 or -1
    fits = replace(
        job, rows=(codes,), labels=pack_labels(2 * positive - 1, LabelFormat.SIGN), label_shift=30,
        model=np.array([(1 << 30) + 1000, 5, 5], np.int32), weights=np.full(36, 255, np.uint16),
        epochs=(replace(job.epochs[0], mantissa=1 << 17, shift=1),))
    check_models(board, [fits])
    beyond = replace(fits, weights=np.where(np.arange(36) == 30 + place, 256, 255).astype("u2"))
    if loss not in (Loss.HINGE, Loss.HUBER):
        check_models(board, [beyond])
        return
    assert next(iter(train(beyond))).overflow == Overflow.UPDATE
    with pytest.raises(RangeOverflowError) as error:
        board.train(beyond)
    assert error.value.overflow == Overflow.UPDATE


@pytest.mark.parametrize("speeds", [[0.5, 3000, 0.5], [3000], [0.5, 0.5, 3000]])
@pytest.mark.parametrize("batch", [1, 4])
def test_range_of_one_model_ends_no_other(board, speeds, batch):
    jobs = jobs_of(3, n_rows=61, epochs=6, speeds=speeds, batch=batch)
    check_ranges(board, jobs)
    check_models(board, jobs_of(3, n_rows=61, warm=True))


def test_largest_shift_of_a_step(board):
    jobs = [replace(job, label_shift=PACKED_WEIGHTS.rows.dot_width - 2, epochs=tuple(
        replace(steps, mantissa=(1 << 18) - 1, shift=MAX_SHIFT) for steps in job.epochs))
        for job in jobs_of(3, n_rows=200, label_format=LabelFormat.SIGN)]
    for result in check_models(board, jobs):
        assert 0 < np.abs(result.models).max() < 2000


@pytest.mark.parametrize("options, memory", [
    ({"memory_latency": 200}, Memory(200)), ({"memory_gbps": 0.3}, Memory(20, 3.0))])
def test_counters_of_a_slow_memory(options, memory):
    rng = np.random.default_rng(5)
    with open_board(PACKED_WEIGHTS, **options) as device:
        for n_rows in (7, 333):
            check_models(device, drawn(PACKED_WEIGHTS, rng, n_rows=n_rows, weighted=True),
                         memory=memory)


def test_memory_that_stalls_at_random():
    rng = np.random.default_rng(6)
    with open_board(PACKED_WEIGHTS, stall_probability=0.4) as device:
        for _ in range(6):
            jobs = drawn(PACKED_WEIGHTS, rng)
            for job, result in zip(jobs, device.train_models(jobs), strict=True):
                compare(result, list(train(job)))


@pytest.mark.parametrize("cycles", [20, 60, 61, 62, 63, 150, 400, 900])
def test_abort(board, cycles):
    """In the middle of a beat's words of labels, too."""
    jobs = jobs_of(3, n_rows=500, epochs=50, warm=True, batch=4, correction_period=8,
                   label_format=LabelFormat.INT32)
    device = TestedDevice(board, during=lambda: device.write(0x20, 2), cycles=cycles)
    with pytest.raises(AbortedError):
        device.train_models(jobs)
    check_models(board, jobs_of(3, CORNERS, n_rows=60, correction_period=4, batch=2))


def test_estimators():
    """On the pipeline of ``PACKED_WEIGHTS``, three classes in one pass: the model of device cpu,
    and no copies of rows.
    """
    clone = pytest.importorskip("sklearn.base").clone
    rng = np.random.default_rng(8)
    X = rng.normal(size=(90, 3))
    y = np.digitize(X[:, 0] + 0.3 * rng.normal(size=90), [-0.8, 0.8])
    plain = bitstep.LowPrecisionClassifier(
        loss="squared_hinge", bits=4, batch=4, epochs=3, random_state=0, solver="sgd",
        class_weight="balanced", device="cpu")
    packed = clone(plain).set_params(device={"name": "sim", "packed": True, "models": 3})
    weights = rng.uniform(0.5, 2, 90)
    expected = plain.fit(X, y, weights)
    np.testing.assert_array_equal(packed.fit(X, y, weights).coef_, expected.coef_)
    assert packed.counters_["beats"] == 3 * 90 / 5
    assert expected.counters_["beats"] == 3 * 3 * 90


@pytest.mark.slow
@pytest.mark.parametrize("config", tonight(MORE, 4), ids=lambda config: config.name)
def test_more_pipelines(config):
    rng = np.random.default_rng(1)
    with open_board(config) as device:
        for _ in range(40):
            check_models(device, drawn(config, rng))
